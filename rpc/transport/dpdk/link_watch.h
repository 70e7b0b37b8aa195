// LinkWatch: what to do about a port that has no link. Pure: time is an argument.
//
//   link   up | down                                             | up
//                   200 ms      400 ms      600 ms ...             restart: a driver whose peer went away comes back by it
//                              500 ms            1,000 ms ...      complaint: whoever uses the port hears of it
#ifndef SKUA_RPC_TRANSPORT_DPDK_LINK_WATCH_H_
#define SKUA_RPC_TRANSPORT_DPDK_LINK_WATCH_H_

#include "rpc/base/clock.h"

namespace skua::rpc::dpdk {

class LinkWatch {
 public:
  static constexpr DurationNs kRestartEvery = 200 * kMillisecond;
  static constexpr DurationNs kComplainEvery = 500 * kMillisecond;

  struct Due {
    bool restart = false;
    bool complaint = false;
  };
  /// How the link is now, which is not 0.
  Due look(bool is_up, TimeNs now) {
    if (is_up) {
      down_since_ns_ = 0;
      return {};
    }
    if (down_since_ns_ == 0) {
      down_since_ns_ = now;
      next_restart_ns_ = now + kRestartEvery;
      next_complaint_ns_ = now + kComplainEvery;
    }
    return {is_due(next_restart_ns_, kRestartEvery, now), is_due(next_complaint_ns_, kComplainEvery, now)};
  }

  [[nodiscard]] bool is_down() const { return down_since_ns_ != 0; }
  /// For how long; only while it is.
  [[nodiscard]] DurationNs down_ns(TimeNs now) const { return now - down_since_ns_; }

 private:
  static bool is_due(TimeNs& next, DurationNs every, TimeNs now) {
    if (now < next) return false;
    next = now + every;
    return true;
  }

  TimeNs down_since_ns_ = 0;  // 0: it is up
  TimeNs next_restart_ns_ = 0;
  TimeNs next_complaint_ns_ = 0;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_LINK_WATCH_H_
