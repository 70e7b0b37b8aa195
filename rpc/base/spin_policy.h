// Whether a thread that has nothing to do polls for a while before it sleeps.
//
//    work |--------| idle |--work--      idle shorter than the spin: it was worth it, no system call and no wake-up
//    work |--spin--|====== sleep ======|--work--      longer: the spin only took the processor from somebody else
//
// A server whose answers wait for a disk, or that hears a heartbeat now and then, spins in vain each time, and beside others
// on the same processors that costs them more than it could ever save. So it spins while that has mostly paid lately, and
// begins again when it would have: the rule that hypervisors have for virtual processors that halt (KVM's halt polling).
//
// Somebody who slept adds a wake-up to the time it waited, and so does the peer that waited for it; what came within twice the
// spin counts as worth it then, so that two that are fast together find back to it.
//
// No clock: times are arguments. Thread: one.
#ifndef SKUA_RPC_BASE_SPIN_POLICY_H_
#define SKUA_RPC_BASE_SPIN_POLICY_H_

#include "rpc/base/clock.h"

namespace skua {

class SpinPolicy {
 public:
  /// `spin_ns`: how long to spin at most. 0: never; kTimeNever: without an end.
  explicit SpinPolicy(DurationNs spin_ns) : spin_ns_(spin_ns) {}

  /// How long to spin after the last work.
  [[nodiscard]] DurationNs spin_ns() const { return share_ >= kOne / 2 || spin_ns_ == kTimeNever ? spin_ns_ : 0; }

  /// There is work again, `idle_ns` after the last; `slept`: not all of that time was spun.
  void worked(DurationNs idle_ns, bool slept) {
    const DurationNs limit_ns = slept ? 2 * spin_ns_ : spin_ns_;
    share_ += ((idle_ns <= limit_ns ? kOne : 0) - share_) / 8;
  }

 private:
  static constexpr int kOne = 1 << 16;

  DurationNs spin_ns_;
  int share_ = kOne;  // of the last pauses, for how many a spin would have been enough; older ones count less
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_SPIN_POLICY_H_
