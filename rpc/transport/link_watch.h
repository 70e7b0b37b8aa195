// LinkWatch: decides what to do about a port without a link. Pure: time is an argument.
//
//   link   up | down                                             | up
//                   200 ms      400 ms      600 ms ...             restart: brings back a driver whose peer went away.
//                                                                  Not where it does not help: hardware needs longer
//                                                                  than that to get its link back after a start
//                              500 ms            1,000 ms ...      complaint: users of the port are told
#ifndef SKUA_RPC_TRANSPORT_LINK_WATCH_H_
#define SKUA_RPC_TRANSPORT_LINK_WATCH_H_

#include "rpc/base/clock.h"

namespace skua::rpc {

class LinkWatch {
 public:
  static constexpr DurationNs kRestartEvery = 200 * kMillisecond;
  static constexpr DurationNs kComplainEvery = 500 * kMillisecond;

  struct Due {
    bool restart = false;
    bool complaint = false;
  };
  /// Reports the state of the link at time `now`, which must not be 0. Returns what is due. `restart_helps`: a restart
  /// of the port may bring the link back.
  Due look(bool is_up, TimeNs now, bool restart_helps = true) {
    if (is_up) {
      down_since_ns_ = 0;
      return {};
    }
    if (down_since_ns_ == 0) {
      down_since_ns_ = now;
      next_restart_ns_ = now + kRestartEvery;
      next_complaint_ns_ = now + kComplainEvery;
    }
    return {restart_helps && is_due(next_restart_ns_, kRestartEvery, now),
            is_due(next_complaint_ns_, kComplainEvery, now)};
  }

  [[nodiscard]] bool is_down() const { return down_since_ns_ != 0; }
  /// How long the link has been down; only while is_down().
  [[nodiscard]] DurationNs down_ns(TimeNs now) const { return now - down_since_ns_; }

 private:
  static bool is_due(TimeNs& next, DurationNs every, TimeNs now) {
    if (now < next) return false;
    next = now + every;
    return true;
  }

  TimeNs down_since_ns_ = 0;  // 0: the link is up
  TimeNs next_restart_ns_ = 0;
  TimeNs next_complaint_ns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_LINK_WATCH_H_
