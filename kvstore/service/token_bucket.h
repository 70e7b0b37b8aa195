// TokenBucket: a rate that may be used up to one second ahead, and not beyond.
//
//    tokens   burst |----.                     .----
//                   |     `.               .-'         a bucket fills with the rate, up to what the rate gives in one
//                 0 |-------`.----------.-'-------     second (its burst). It may be below zero: some of what is
//                   |         `-- .--'                 counted is known only after it was used (the bytes of a reply)
//                                                time
//
// Several buckets may share one rate, each with an equal part of it: the workers of a node have no bucket in common,
// which they would have to lock. A part may be less than one token a second, so the bucket counts in fractions: a token
// has `shares` million parts, and each microsecond brings `rate_per_s` parts. No part is lost by rounding.
#ifndef SKUA_KVSTORE_SERVICE_TOKEN_BUCKET_H_
#define SKUA_KVSTORE_SERVICE_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// Reads no clock: times are arguments, of one clock. A time before the last one counts as the last one. Thread: one at
/// a time.
class TokenBucket {
 public:
  /// The highest rate and the most shares.
  static constexpr uint64_t kRateMax = uint64_t{1} << 40;
  static constexpr uint32_t kSharesMax = 1024;

  /// Never empty.
  TokenBucket() = default;
  /// A full bucket: one of `shares` (1 to kSharesMax) that have `rate_per_s` together (up to kRateMax; 0: never empty).
  /// It holds what comes in a second, but at least one token.
  TokenBucket(uint64_t rate_per_s, uint32_t shares, TimeNs now)
      : rate_(static_cast<int64_t>(rate_per_s)),
        token_(int64_t{shares} * kStepsPerSecond),
        full_(std::max(rate_ * kStepsPerSecond, token_)),
        level_(full_),
        filled_ns_(now) {}

  /// Whether so many tokens are there.
  [[nodiscard]] bool has(uint64_t tokens, TimeNs now) {
    if (rate_ == 0) return true;
    fill(now);
    return level_ >= parts_of(tokens);
  }
  /// Takes the tokens even if the bucket has fewer. Its level is negative then, until it refills.
  void take(uint64_t tokens) {
    if (rate_ == 0) return;
    if (__builtin_sub_overflow(level_, parts_of(tokens), &level_)) level_ = kLevelMin;
    level_ = std::max(level_, kLevelMin);
  }

 private:
  static constexpr int64_t kStepsPerSecond = kSecond / kMicrosecond;
  static constexpr int64_t kLevelMin = -(int64_t{1} << 62);

  [[nodiscard]] int64_t parts_of(uint64_t tokens) const {
    int64_t parts = 0;
    return __builtin_mul_overflow(tokens, token_, &parts) ? INT64_MAX : parts;
  }
  void fill(TimeNs now) {
    const int64_t steps = std::max<int64_t>(now - filled_ns_, 0) / kMicrosecond;
    filled_ns_ += steps * kMicrosecond;
    if (steps <= kStepsPerSecond) [[likely]] {
      level_ = std::min(full_, level_ + steps * rate_);
    } else {
      level_ = steps > (full_ - level_) / rate_ ? full_ : level_ + steps * rate_;
    }
  }

  int64_t rate_ = 0;   // parts that come with each step
  int64_t token_ = 0;  // parts of a token
  int64_t full_ = 0;   // parts; of the level, too
  int64_t level_ = 0;
  TimeNs filled_ns_ = 0;  // by then `level_` is filled
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_TOKEN_BUCKET_H_
