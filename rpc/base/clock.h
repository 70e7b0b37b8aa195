// Time as an argument. Protocol code takes `TimeNs now`; only rpc/endpoint and programs' mains own a real Clock.
#ifndef SKUA_RPC_BASE_CLOCK_H_
#define SKUA_RPC_BASE_CLOCK_H_

#include <cstdint>
#include <ctime>
#include <limits>

namespace skua {

/// Nanoseconds on a monotonic clock of unspecified origin.
using TimeNs = int64_t;
/// A span of nanoseconds.
using DurationNs = int64_t;

inline constexpr TimeNs kTimeNever = std::numeric_limits<TimeNs>::max();
inline constexpr DurationNs kMicrosecond = 1'000;
inline constexpr DurationNs kMillisecond = 1'000'000;
inline constexpr DurationNs kSecond = 1'000'000'000;

/// A source of time. Implementations: SteadyClock and ManualClock here, TscClock, the simulator's virtual clock.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Never goes backwards. Thread: any.
  [[nodiscard]] virtual TimeNs now_ns() const = 0;
};

/// CLOCK_MONOTONIC through the vDSO (about 20 ns a call).
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now_ns() const override {
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return static_cast<TimeNs>(ts.tv_sec) * kSecond + ts.tv_nsec;
  }
};

/// A clock that moves only when told to. For tests and the simulator.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now_ns() const override { return now_; }
  void advance(DurationNs by) { now_ += by; }
  void set(TimeNs now) { now_ = now; }

 private:
  TimeNs now_ = kSecond;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_CLOCK_H_
