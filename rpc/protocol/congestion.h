// Congestion control: each session has a policy, which turns signs of congestion into two limits.
//
//      delay samples, losses, time-outs          window (packets in flight), gap (pacing)
//   ---------------------------------> policy ---------------------------------------> session, pacer
//
// A policy runs when something happened (an ack, a response, a loss), never when a packet is sent. Its result is plain
// data (CongestionLimits) that the session keeps. Samples that would change nothing (`quiet`) do not reach the policy
// at all. So a session whose network is idle pays two comparisons per response and nothing per packet.
//
// Samples are network delay: the round trip without the time that the peer held the packet. They include the time in
// the receive rings of both ends.
//
//   none     no limits but the session's credits
//   swift    a window that keeps the queueing delay at a target; below one packet it becomes a pacing gap
//            (congestion_swift.h; the default)
//   timely   a rate that follows the gradient of the delay (congestion_timely.h)
//
// Sessions on reliable transports have no policy, because the kernel below them has its own.
#ifndef SKUA_RPC_PROTOCOL_CONGESTION_H_
#define SKUA_RPC_PROTOCOL_CONGESTION_H_

#include <cstdint>
#include <memory>

#include "rpc/base/clock.h"
#include "rpc/protocol/options.h"

namespace skua::rpc {

struct CongestionLimits {
  /// Packets that may be in flight; the session's credits may be fewer.
  uint32_t window_packets = UINT32_MAX;
  /// Shortest time between two packets: a part per packet plus a part per byte. Both 0: packets are not paced.
  DurationNs packet_gap_ns = 0;
  uint64_t byte_gap_ps = 0;
  /// A sample in [quiet_from_ns, quiet_until_ns) changes nothing, so it need not be reported.
  DurationNs quiet_from_ns = 0;
  DurationNs quiet_until_ns = kTimeNever;

  [[nodiscard]] bool paced() const { return packet_gap_ns != 0 || byte_gap_ps != 0; }
};

/// Pure; owned by one session. Each call may change limits().
class CongestionPolicy {
 public:
  virtual ~CongestionPolicy() = default;
  /// A round trip took `network_delay_ns`, and told that `acked_packets` more have arrived.
  virtual void on_sample(DurationNs network_delay_ns, uint32_t acked_packets, TimeNs now) = 0;
  /// `lost_packets` were found missing; `acked_packets` arrived since the last loss.
  virtual void on_loss(uint32_t lost_packets, uint32_t acked_packets, TimeNs now) = 0;
  /// Packets in flight were probed several times without an answer.
  virtual void on_timeout(TimeNs now) = 0;
  [[nodiscard]] virtual CongestionLimits limits() const = 0;
};

/// nullptr for kNone. `credits` is the largest window that a session can use.
[[nodiscard]] std::unique_ptr<CongestionPolicy> make_congestion_policy(const ProtocolOptions& options,
                                                                       uint32_t credits);

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_CONGESTION_H_
