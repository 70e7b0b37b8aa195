// The outcome of one operation, with YCSB's names: they appear in reports as `Return=OK` and in
// the names of error series.
#ifndef SKUA_YCSB_CORE_STATUS_H_
#define SKUA_YCSB_CORE_STATUS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace skua::ycsb {

enum class Status : uint8_t {
  kOk,
  kError,
  kNotFound,
  kTimeout,
  kNotImplemented,
  kUnexpectedState,
  kBadRequest,
  kForbidden,
  kServiceUnavailable,
  kBatchedOk,
};

inline constexpr std::array<std::string_view, 10> kStatusNames = {
    "OK",          "ERROR",     "NOT_FOUND",           "TIMEOUT",    "NOT_IMPLEMENTED", "UNEXPECTED_STATE",
    "BAD_REQUEST", "FORBIDDEN", "SERVICE_UNAVAILABLE", "BATCHED_OK",
};
inline constexpr size_t kStatusCount = kStatusNames.size();

[[nodiscard]] constexpr std::string_view status_name(Status status) {
  return kStatusNames[static_cast<size_t>(status)];
}

/// OK and BATCHED_OK are successes; everything else counts as a failed operation.
[[nodiscard]] constexpr bool is_ok(Status status) {
  return status == Status::kOk || status == Status::kBatchedOk;
}

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_STATUS_H_
