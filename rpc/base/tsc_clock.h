// TscClock: CLOCK_MONOTONIC at half the cost, for one polling thread.
//
//   now = anchor + (cycles since the anchor) * ns per cycle            a new anchor every few milliseconds
//
// This reads the processor's time-stamp counter instead of calling the vDSO. Every few milliseconds a new anchor is
// taken from CLOCK_MONOTONIC, so the two clocks differ at most by the rate's error over that time (well under a
// microsecond). Time never goes back: where the counter was ahead, or that of another processor is behind, time stands
// until CLOCK_MONOTONIC has caught up. If the counter's rate is not constant in all power states, every call asks
// CLOCK_MONOTONIC.
#ifndef SKUA_RPC_BASE_TSC_CLOCK_H_
#define SKUA_RPC_BASE_TSC_CLOCK_H_

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "rpc/base/clock.h"

namespace skua {

/// Thread: one at a time (unlike other clocks: an endpoint with this one needs no call to a shared clock).
class TscClock final : public Clock {
 public:
  TscClock() : ns_per_cycle_(measured_ns_per_cycle()) { take_anchor(); }

  [[nodiscard]] TimeNs now_ns() const override {
#if defined(__x86_64__)
    const uint64_t cycles = __rdtsc() - anchor_cycles_;
    if (cycles < anchor_cycles_max_) {
      return last_ns_ =
                 std::max(last_ns_, anchor_ns_ + static_cast<TimeNs>(static_cast<double>(cycles) * ns_per_cycle_));
    }
#endif
    take_anchor();
    return last_ns_ = std::max(last_ns_, anchor_ns_);
  }

 private:
  static constexpr DurationNs kAnchorEvery = 4 * kMillisecond;

  /// 0: there is no usable counter. Measured once per process, which takes about two milliseconds.
  static double measured_ns_per_cycle();
  void take_anchor() const;

  const double ns_per_cycle_;
  mutable uint64_t anchor_cycles_ = 0;
  mutable uint64_t anchor_cycles_max_ = 0;
  mutable TimeNs anchor_ns_ = 0;
  mutable TimeNs last_ns_ = 0;  // that was told
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_TSC_CLOCK_H_
