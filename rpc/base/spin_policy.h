// Whether a thread without work polls for a while before it sleeps.
//
//    work |--------| idle |--work--      idle shorter than the spin: it paid, without a system call and a wake-up
//    work |--spin--|====== sleep ======|--work--      longer: the spin only took the processor from other threads
//
// A server whose answers wait for a disk, or that gets a heartbeat now and then, spins for nothing each time. If other
// threads run on the same processors, that costs them more than the spin can save. So a thread spins while spins have
// mostly paid lately, and begins again when they would have paid. Hypervisors have this rule for virtual processors
// that halt (KVM's halt polling).
//
// A sleep adds a wake-up to the measured idle time, and so does the sleep of the peer that waits for the answer. So
// after a sleep, idle time of up to twice the spin counts as paid. Otherwise two fast sides would not begin to spin
// again.
//
// No clock: times are arguments. Thread: one.
#ifndef SKUA_RPC_BASE_SPIN_POLICY_H_
#define SKUA_RPC_BASE_SPIN_POLICY_H_

#include "rpc/base/clock.h"

namespace skua {

class SpinPolicy {
 public:
  /// `spin_ns`: the longest spin. 0: never spin; kTimeNever: spin without end.
  explicit SpinPolicy(DurationNs spin_ns) : spin_ns_(spin_ns) {}

  /// How long to spin after the last work.
  [[nodiscard]] DurationNs spin_ns() const { return share_ >= kOne / 2 || spin_ns_ == kTimeNever ? spin_ns_ : 0; }

  /// Work has come `idle_ns` after the last work. `slept`: the thread slept for some of this time.
  void worked(DurationNs idle_ns, bool slept) {
    const DurationNs limit_ns = slept ? 2 * spin_ns_ : spin_ns_;
    share_ += ((idle_ns <= limit_ns ? kOne : 0) - share_) / 8;
  }

 private:
  static constexpr int kOne = 1 << 16;

  DurationNs spin_ns_;
  int share_ = kOne;  // part of the last pauses that a spin would have covered; older pauses count less
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_SPIN_POLICY_H_
