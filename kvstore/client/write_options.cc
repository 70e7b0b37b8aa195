#include "kvstore/client/write_options.h"

#include "kvstore/codec/size_limits.h"

namespace skua::kv {

absl::StatusOr<uint64_t> ttl_ms_of(std::chrono::nanoseconds ttl) {
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(ttl).count();
  if (ms >= 0 && static_cast<uint64_t>(ms) <= kTtlMsMax) return static_cast<uint64_t>(ms);
  if (ms < 0) return absl::InvalidArgumentError("the time to live is negative; it takes 0 (for ever) to 100 years");
  return absl::InvalidArgumentError(
      "the time to live is above 100 years, which is the limit; without one the key stays for ever");
}

}  // namespace skua::kv
