// TrafficSettings: what an operator says about the network and about how much of an endpoint's traffic may be in it, and what
// follows for the protocol's options. Plain numbers, for programs and for the client library's own options.
//
//    link, path delay ---> bandwidth x delay ---+---> receive budget (unless one is given)
//          |                                    +---> a session's credits, once its packets' size is known (session_credits())
//          +---> the rate at which timely does not pace
#ifndef SKUA_RPC_PROTOCOL_TRAFFIC_SETTINGS_H_
#define SKUA_RPC_PROTOCOL_TRAFFIC_SETTINGS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "rpc/base/clock.h"

namespace skua::rpc {

struct ProtocolOptions;

/// Who decides how much of a session's traffic may be in the network (rpc/protocol/congestion.h). Unreliable transports only.
enum class CongestionControl : uint8_t { kNone, kTimely, kSwift };

struct TrafficSettings {
  static constexpr uint32_t kLinkGigabitsMax = 10'000;
  static constexpr DurationNs kDelayMax = kSecond;

  CongestionControl congestion = CongestionControl::kSwift;
  /// Queueing delay that swift allows above the idle path's round trip.
  DurationNs queue_target_ns = 100 * kMicrosecond;
  /// Response bytes under way to an endpoint at a time; 0: bandwidth x delay, or the protocol's default if the link is not given.
  size_t receive_budget_bytes = 0;
  /// Of this endpoint's own link; 0: not given.
  uint32_t link_gigabits_per_s = 0;
  /// Round trip of the idle path, the peers' turns included.
  DurationNs path_delay_ns = 20 * kMicrosecond;

  /// INVALID_ARGUMENT says which setting and what is expected.
  [[nodiscard]] absl::Status check() const;
  /// Sets what follows from the settings; the rest of `options` stays. check() is OK.
  void apply(ProtocolOptions& options) const;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_TRAFFIC_SETTINGS_H_
