// How skuad ends when it cannot start: with a message that says what to do, and an exit code that says whether another
// start may help.
#ifndef SKUA_KVSTORE_NODE_SKUAD_EXIT_H_
#define SKUA_KVSTORE_NODE_SKUAD_EXIT_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "rpc/base/status.h"

namespace skua::kv {

inline constexpr const char* kSkuad = "skuad";

/// Ends the process.
[[noreturn]] inline void fail_start(const absl::Status& status) {
  // Another start cannot cure these unless somebody changes something.
  const bool is_usage = absl::IsAlreadyExists(status) || absl::IsDataLoss(status) ||
                        absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
                        absl::IsPermissionDenied(status);
  if (is_usage) app::fail_usage(kSkuad, std_view(status.message()));
  app::fail(kSkuad, std_view(status.message()));
}

/// The value, or the end of the process.
template <typename T>
[[nodiscard]] T value_or_fail(absl::StatusOr<T> result) {
  if (!result.ok()) fail_start(result.status());
  return *std::move(result);
}

/// The value, for an operation on a data directory that no node has used yet. Such a node does not wait for room on a
/// full disk but fails.
template <typename T>
[[nodiscard]] T room_or_fail(absl::StatusOr<T> result) {
  if (!absl::IsResourceExhausted(result.status())) return value_or_fail(std::move(result));
  app::fail(kSkuad, absl::StrCat(result.status().message(),
                                 ": free space on the file system of the data directory, or give another --data-dir"));
}

inline void ok_or_fail(const absl::Status& status) {
  if (!status.ok()) fail_start(status);
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SKUAD_EXIT_H_
