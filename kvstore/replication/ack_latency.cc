#include "kvstore/replication/ack_latency.h"

namespace skua::kv {

void AckLatency::acked(const LogLevels& levels, TimeNs now) {
  if (!is_measuring() || !levels.reaches(index_, level_)) return;
  const DurationNs sample = now - since_;
  smoothed_ = smoothed_ == 0 ? sample : smoothed_ + (sample - smoothed_) / 8;
  index_ = 0;
}

void AckLatency::paused(const Pause& pause) {
  if (is_measuring()) since_ = pause.moved(since_);
  slow_since_ = kTimeNever;
}

bool AckLatency::is_slow_for_long(bool is_slow, TimeNs now, DurationNs time) {
  slow_since_ = is_slow ? std::min(slow_since_, now) : kTimeNever;
  return is_slow && now - slow_since_ > time;
}

}  // namespace skua::kv
