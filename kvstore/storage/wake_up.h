// Lets a thread sleep until another thread signals. A signal costs an atomic exchange, and a system call only if the
// thread sleeps.
//
//    state   idle --wait()--> sleeping --signal()--> idle     (wakes)
//            idle --signal()--> signalled --wait()--> idle    (does not sleep: nothing is lost)
//
// Everything that was written before signal() is visible after the wait() that this signal ends.
#ifndef SKUA_KVSTORE_STORAGE_WAKE_UP_H_
#define SKUA_KVSTORE_STORAGE_WAKE_UP_H_

#include <atomic>

namespace skua::kv {

class WakeUp {
 public:
  /// Thread: any.
  void signal() {
    if (state_.exchange(kSignalled, std::memory_order_acq_rel) == kSleeping) state_.notify_one();
  }

  /// Returns after the first signal() since the last wait() returned. Thread: one.
  void wait() {
    if (state_.exchange(kIdle, std::memory_order_acq_rel) == kSignalled) return;
    int expected = kIdle;
    if (state_.compare_exchange_strong(expected, kSleeping, std::memory_order_acq_rel)) {
      while (state_.load(std::memory_order_acquire) == kSleeping) {
        state_.wait(kSleeping, std::memory_order_acquire);
      }
    }
    state_.exchange(kIdle, std::memory_order_acq_rel);
  }

 private:
  static constexpr int kIdle = 0;
  static constexpr int kSignalled = 1;
  static constexpr int kSleeping = 2;

  std::atomic<int> state_{kIdle};
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_WAKE_UP_H_
