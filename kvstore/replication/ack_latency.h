// AckLatency: how long a peer takes to acknowledge an entry at the durability that its writer asked for.
//
//    sent: begin(index 7)                     acknowledged as far as asked: acked()
//     |-------------- sample -----------------|            latency += (sample - latency) / 8
//
// One entry at a time is measured. While it is not acknowledged its time counts already, so a peer that hangs is slow
// before it answers. `is_slow_for_long()` says whether the peer was slow at each check for some time (gray_failures.h).
//
// A value type. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_ACK_LATENCY_H_
#define SKUA_KVSTORE_REPLICATION_ACK_LATENCY_H_

#include <algorithm>
#include <cstdint>

#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/pause.h"
#include "kvstore/types/durability.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class AckLatency {
 public:
  [[nodiscard]] bool is_measuring() const { return index_ != 0; }
  /// The entry is being sent. Only if no other one is measured.
  void begin(uint64_t index, Durability level, TimeNs now) {
    index_ = index;
    level_ = level;
    since_ = now;
  }
  /// What the peer has acknowledged by now.
  void acked(const LogLevels& levels, TimeNs now) {
    if (!is_measuring() || !levels.reaches(index_, level_)) return;
    const DurationNs sample = now - since_;
    smoothed_ = smoothed_ == 0 ? sample : smoothed_ + (sample - smoothed_) / 8;
    index_ = 0;
  }
  /// The entry that is measured does not count.
  void abandon() { index_ = 0; }
  void paused(const Pause& pause) {
    if (is_measuring()) since_ = pause.moved(since_);
    slow_since_ = kTimeNever;
  }

  /// The smoothed latency, or the time of the entry that is measured if that is longer. 0: nothing is known.
  [[nodiscard]] DurationNs at(TimeNs now) const {
    return is_measuring() ? std::max(smoothed_, now - since_) : smoothed_;
  }
  /// To be called with each check's result. Whether the peer was slow at all checks of more than the last `time`.
  [[nodiscard]] bool is_slow_for_long(bool is_slow, TimeNs now, DurationNs time) {
    slow_since_ = is_slow ? std::min(slow_since_, now) : kTimeNever;
    return is_slow && now - slow_since_ > time;
  }

 private:
  uint64_t index_ = 0;
  Durability level_ = Durability::kSync;
  TimeNs since_ = 0;
  DurationNs smoothed_ = 0;
  TimeNs slow_since_ = kTimeNever;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_ACK_LATENCY_H_
