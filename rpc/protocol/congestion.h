// The seam for congestion control: a policy object per session says how many packets may be in
// flight and how far apart they leave. Without a policy (the default) the session's credits are the
// only limit and nothing is paced, at no cost.
#ifndef SKUA_RPC_PROTOCOL_CONGESTION_H_
#define SKUA_RPC_PROTOCOL_CONGESTION_H_

#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::rpc {

/// Pure; owned by one session.
class CongestionPolicy {
 public:
  virtual ~CongestionPolicy() = default;
  /// One round trip took this long, the peer's holding time excluded.
  virtual void on_delay_sample(DurationNs network_delay_ns, TimeNs now) = 0;
  virtual void on_loss(TimeNs now) = 0;
  /// Packets that may be in flight now; the session uses the smaller of this and its credits.
  [[nodiscard]] virtual uint32_t window_packets() const = 0;
  /// Earliest time the next packet may leave; `now` or earlier: at once.
  [[nodiscard]] virtual TimeNs next_departure_ns(TimeNs now) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_CONGESTION_H_
