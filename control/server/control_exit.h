// How skua-control ends when it cannot start: with a message that says what to do.
#ifndef SKUA_CONTROL_SERVER_CONTROL_EXIT_H_
#define SKUA_CONTROL_SERVER_CONTROL_EXIT_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "app/exit.h"

namespace skua::control {

inline constexpr const char* kSkuaControl = "skua-control";

/// Ends the program: 2 for what the user must change, 1 for what went wrong.
[[noreturn]] inline void give_up(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied: app::fail_usage(kSkuaControl, message);
    default: app::fail(kSkuaControl, message);
  }
}

/// The value, or the end.
template <typename T>
[[nodiscard]] T value_or_give_up(absl::StatusOr<T> result) {
  if (!result.ok()) give_up(result.status());
  return *std::move(result);
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROL_EXIT_H_
