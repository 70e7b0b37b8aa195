// LinePace: for what may happen thousands of times a second, at most one line of the log a second. Each line says how
// many events there were since the line before. The last events are not lost: their line is due a second later.
//
// Pure: time is an argument.
#ifndef SKUA_RPC_BASE_LINE_PACE_H_
#define SKUA_RPC_BASE_LINE_PACE_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "rpc/base/clock.h"

namespace skua {

/// Thread: one at a time.
class LinePace {
 public:
  static constexpr DurationNs kInterval = 1 * kSecond;

  /// One more event. Returns how many events a line tells now, this one included; nothing: no line is due yet.
  [[nodiscard]] std::optional<uint64_t> note(TimeNs now) {
    ++untold_;
    return take(now);
  }
  /// The same without a new event. Call it when due_ns() is reached.
  [[nodiscard]] std::optional<uint64_t> take(TimeNs now) {
    if (untold_ == 0 || now < next_ns_) return std::nullopt;
    next_ns_ = now + kInterval;
    return std::exchange(untold_, 0);
  }
  /// When a line is due. kTimeNever: all events are told.
  [[nodiscard]] TimeNs due_ns() const { return untold_ == 0 ? kTimeNever : next_ns_; }

 private:
  uint64_t untold_ = 0;
  TimeNs next_ns_ = 0;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_LINE_PACE_H_
