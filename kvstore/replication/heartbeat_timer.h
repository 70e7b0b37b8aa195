// HeartbeatTimer: when a replica speaks next. Heartbeats come regularly; one comes earlier when members must hear of a
// commit that no Append has told them in time.
//
// A value type. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_HEARTBEAT_TIMER_H_
#define SKUA_KVSTORE_REPLICATION_HEARTBEAT_TIMER_H_

#include <algorithm>

#include "rpc/base/clock.h"

namespace skua::kv {

class HeartbeatTimer {
 public:
  /// The next heartbeat is due at `now`.
  void set(TimeNs now) { next_ = now; }
  /// Members must hear of a commit by `at`, or earlier if another commit asked for that.
  void tell_commit_by(TimeNs at) {
    if (tell_commit_ == kTimeNever) tell_commit_ = at;
  }
  /// All members have been told of all commits.
  void commit_is_told() { tell_commit_ = kTimeNever; }
  /// Whether a heartbeat is due. If so, it tells of all commits, and the next one is due after `every`. A replica that
  /// has nobody to tell, or may not speak yet, is not asked again before.
  [[nodiscard]] bool take_if_due(TimeNs now, DurationNs every) {
    if (now >= tell_commit_) next_ = std::min(next_, now);
    if (now < next_) return false;
    next_ = now + every;
    tell_commit_ = kTimeNever;
    return true;
  }
  [[nodiscard]] TimeNs wake_at() const { return std::min(next_, tell_commit_); }

 private:
  TimeNs next_ = 0;
  TimeNs tell_commit_ = kTimeNever;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_HEARTBEAT_TIMER_H_
