// Translates the public options of writes into the codec's types. Pure. Thread: any.
#ifndef SKUA_KVSTORE_CLIENT_WRITE_OPTIONS_H_
#define SKUA_KVSTORE_CLIENT_WRITE_OPTIONS_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/request.h"

namespace skua::kv {

/// The condition of a write. INVALID_ARGUMENT if more than one is given. `Options`: WriteOptions, BatchOpOptions.
template <typename Options>
[[nodiscard]] absl::StatusOr<Condition> condition_of(const Options& options) {
  if (int{options.if_version.has_value()} + int{options.if_absent} + int{options.if_present} > 1) {
    return absl::InvalidArgumentError("a write takes one of if_absent, if_present and if_version");
  }
  if (options.if_absent) return Condition::if_absent();
  if (options.if_present) return Condition::if_present();
  return options.if_version.has_value() ? Condition::if_version(*options.if_version) : Condition::none();
}

/// Milliseconds, rounded up so that no key expires early. INVALID_ARGUMENT below 0 or above kTtlMsMax.
[[nodiscard]] absl::StatusOr<uint64_t> ttl_ms_of(std::chrono::nanoseconds ttl);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_WRITE_OPTIONS_H_
