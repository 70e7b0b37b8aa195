// Lets a thread sleep until another thread signals, or until a time. A signal costs an atomic exchange, and a system
// call only if the thread sleeps.
//
//    state   idle --wait()--> sleeping --signal()--> idle     (wakes)
//            idle --signal()--> signalled --wait()--> idle    (does not sleep: nothing is lost)
//
// Everything that was written before signal() is visible after the wait() that this signal ends. The futex is called
// directly because std::atomic's wait has no deadline.
#ifndef SKUA_RPC_BASE_WAKE_UP_H_
#define SKUA_RPC_BASE_WAKE_UP_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "rpc/base/clock.h"

namespace skua {

class WakeUp {
 public:
  /// Thread: any.
  void signal() {
    if (state_.exchange(kSignalled, std::memory_order_acq_rel) == kSleeping) futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
  }

  /// Returns after the first signal() since the last wait returned. Thread: one, also for wait_until().
  void wait() { wait_until(kTimeNever); }

  /// The same, but returns at `deadline` at the latest, which is a SteadyClock time. May return early.
  void wait_until(TimeNs deadline) {
    const timespec until{.tv_sec = deadline / kSecond, .tv_nsec = deadline % kSecond};
    int expected = kIdle;
    if (state_.compare_exchange_strong(expected, kSleeping, std::memory_order_acq_rel)) {
      while (state_.load(std::memory_order_acquire) == kSleeping) {
        futex(FUTEX_WAIT_BITSET_PRIVATE, kSleeping, deadline == kTimeNever ? nullptr : &until);
        if (deadline != kTimeNever) break;
      }
    }
    state_.exchange(kIdle, std::memory_order_acq_rel);
  }

 private:
  static constexpr int kIdle = 0;
  static constexpr int kSleeping = 1;
  static constexpr int kSignalled = 2;

  void futex(int operation, int value, const timespec* until) {
    static_assert(sizeof state_ == sizeof(int) && std::atomic<int>::is_always_lock_free);
    (void)::syscall(SYS_futex, reinterpret_cast<int*>(&state_), operation, value, until, nullptr,
                    FUTEX_BITSET_MATCH_ANY);
  }

  std::atomic<int> state_{kIdle};
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_WAKE_UP_H_
