// Helpers for statuses. Debian's abseil has its own absl::string_view, which does not convert from std::string_view.
// And a test for system errors that may go away by themselves.
#ifndef SKUA_RPC_BASE_STATUS_H_
#define SKUA_RPC_BASE_STATUS_H_

#include <cerrno>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/base/bytes.h"

namespace skua {

/// Whether this error of a system call is a shortage, which may end later: of disk space, a quota, open files or
/// memory.
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
