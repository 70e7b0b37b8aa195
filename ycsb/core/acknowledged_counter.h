// Hands out consecutive key numbers and knows up to where all of them have been acknowledged, so
// that `latest` and the other choosers never ask for a record whose insert is still on its way.
//
//      last()          next number
//        v               v
//   . A A|? A ? ? A ? ? |. . .        A acknowledged, ? in flight
//        |<-- at most kInsertWindow ->|
//
// The window is a ring of flags; whoever acknowledges tries to move last() forward over the
// contiguous A's. Where YCSB throws when the window overflows, next() refuses and the caller first
// waits for completions.
#ifndef SKUA_YCSB_CORE_ACKNOWLEDGED_COUNTER_H_
#define SKUA_YCSB_CORE_ACKNOWLEDGED_COUNTER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {

/// Thread: any, all methods.
class AcknowledgedCounter {
 public:
  /// The first number handed out is `first`; last() is first - 1 until it is acknowledged. first
  /// >= 1. `window` is a power of two.
  explicit AcknowledgedCounter(uint64_t first, uint64_t window = kInsertWindow);

  /// The next number, or nothing while `window` numbers are unacknowledged.
  [[nodiscard]] std::optional<uint64_t> next();

  /// Every number from next() must be acknowledged exactly once, whether the insert worked or not.
  void acknowledge(uint64_t number);

  /// The highest number below which (itself included) everything has been acknowledged.
  [[nodiscard]] uint64_t last() const { return last_.load(std::memory_order_acquire); }

 private:
  void advance();

  const uint64_t mask_;
  const std::unique_ptr<std::atomic<bool>[]> acknowledged_;
  alignas(64) std::atomic<uint64_t> next_;
  alignas(64) std::atomic<uint64_t> last_;
  std::atomic_flag advancing_ = ATOMIC_FLAG_INIT;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_ACKNOWLEDGED_COUNTER_H_
