// Translates the public options of writes into the codec's types. Pure. Thread: any.
#ifndef SKUA_KVSTORE_CLIENT_WRITE_OPTIONS_H_
#define SKUA_KVSTORE_CLIENT_WRITE_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "kvstore/codec/request.h"

namespace skua::kv {

/// The condition of a write. INVALID_ARGUMENT if both are given.
[[nodiscard]] absl::StatusOr<Condition> condition_of(const std::optional<uint64_t>& if_version, bool if_absent);

/// Milliseconds, rounded up so that no key expires early. INVALID_ARGUMENT below 0 or above kTtlMsMax.
[[nodiscard]] absl::StatusOr<uint64_t> ttl_ms_of(std::chrono::nanoseconds ttl);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_WRITE_OPTIONS_H_
