// TrafficSettings: what an operator says about the network, and about how much of an endpoint's traffic may be in it.
// The protocol's options follow from that. Plain numbers, for programs and for the client library's own options.
//
//    link, path delay ---> bandwidth x delay ---+---> receive budget (unless one is given)
//          |                                    +---> a session's credits, once its packets' size is known
//          |                                          (session_credits())
//          +---> the rate at which timely does not pace
#ifndef SKUA_RPC_PROTOCOL_TRAFFIC_SETTINGS_H_
#define SKUA_RPC_PROTOCOL_TRAFFIC_SETTINGS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "rpc/base/clock.h"

namespace skua::rpc {

struct ProtocolOptions;

/// What limits a session's traffic in the network (rpc/protocol/congestion.h). Used on unreliable transports only.
enum class CongestionControl : uint8_t { kNone, kTimely, kSwift };

struct TrafficSettings {
  static constexpr uint32_t kLinkGigabitsMax = 10'000;
  static constexpr DurationNs kDelayMax = kSecond;

  CongestionControl congestion = CongestionControl::kSwift;
  /// Queueing delay that swift allows above the idle path's round trip.
  DurationNs queue_target_ns = 100 * kMicrosecond;
  /// Bytes of responses that may be on their way to an endpoint at a time. 0: bandwidth x delay, or the protocol's
  /// default if the link's speed is not given.
  size_t receive_budget_bytes = 0;
  /// Speed of this endpoint's own link. 0: not given.
  uint32_t link_gigabits_per_s = 0;
  /// Round trip of the idle path, including the peers' event loops.
  DurationNs path_delay_ns = 20 * kMicrosecond;

  /// INVALID_ARGUMENT: the message says which setting is wrong and what is expected.
  [[nodiscard]] absl::Status check() const;
  /// Sets the options that follow from these settings; other options stay as they are. check() must be OK.
  void apply(ProtocolOptions& options) const;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_TRAFFIC_SETTINGS_H_
