#include "kvstore/client/write_options.h"

#include "kvstore/codec/size_limits.h"

namespace skua::kv {

absl::StatusOr<uint64_t> ttl_ms_of(std::chrono::nanoseconds ttl) {
  // Before rounding: a part of a millisecond below 0 would become 0, which is for ever.
  if (ttl.count() < 0) {
    return absl::InvalidArgumentError("the time to live is negative; it takes 0 (for ever) to 100 years");
  }
  const auto ms = static_cast<uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(ttl).count());
  if (ms <= kTtlMsMax) return ms;
  return absl::InvalidArgumentError(
      "the time to live is above 100 years, which is the limit; without one the key stays for ever");
}

}  // namespace skua::kv
