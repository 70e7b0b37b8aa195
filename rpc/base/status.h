// What statuses are made of: Debian's abseil keeps its own absl::string_view, which does not convert from
// std::string_view; and which errors of the system pass by themselves.
#ifndef SKUA_RPC_BASE_STATUS_H_
#define SKUA_RPC_BASE_STATUS_H_

#include <cerrno>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/base/bytes.h"

namespace skua {

/// Is that error of a system call a shortage, which may be over later: of room on a disk, of a quota, of open files
/// or of memory?
[[nodiscard]] inline bool is_shortage(int error) {
  return error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE || error == ENOMEM;
}

[[nodiscard]] inline absl::string_view absl_view(std::string_view text) {
  return {text.data(), text.size()};
}
[[nodiscard]] inline absl::string_view absl_view(ByteSpan bytes) {
  return absl_view(as_string_view(bytes));
}
[[nodiscard]] inline std::string_view std_view(absl::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace skua

#endif  // SKUA_RPC_BASE_STATUS_H_
