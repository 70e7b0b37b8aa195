// Knobs of the protocol, with unit, default and effect. One value each; nothing here is negotiated
// upwards.
#ifndef SKUA_RPC_PROTOCOL_OPTIONS_H_
#define SKUA_RPC_PROTOCOL_OPTIONS_H_

#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/wire/drop_reason.h"

namespace skua::rpc {

/// Largest window a session can have: slots are arrays indexed by req_num % window.
inline constexpr uint16_t kWindowMax = 1024;
inline constexpr uint32_t kCreditsMax = 4096;
/// Packet indices are 16 bits.
inline constexpr uint32_t kPacketsPerMessageMax = UINT16_MAX;

struct ProtocolOptions {
  /// Requests in flight per session and direction (sslots). A power of two.
  uint16_t window = 64;
  /// Packets in flight per session and direction, on transports that can lose them.
  uint32_t credits = 64;
  /// Calls that may wait for a slot, per session; beyond it call() returns RESOURCE_EXHAUSTED.
  uint32_t backlog_max = 4096;
  /// Largest request or response.
  uint32_t message_max_bytes = (16u << 20) + (64u << 10);

  /// Probe time-out: first guess, and bounds of the adaptive value (srtt + 4 rttvar, doubled per
  /// unanswered probe).
  DurationNs rto_initial_ns = 5 * kMillisecond;
  DurationNs rto_min_ns = 200 * kMicrosecond;
  DurationNs rto_max_ns = 500 * kMillisecond;

  /// A session with calls in flight that hears nothing for this long asks whether the peer lives.
  DurationNs ping_after_ns = 500 * kMillisecond;
  /// And gives the peer up after hearing nothing for this long.
  DurationNs peer_timeout_ns = 5 * kSecond;
  /// Pause between attempts to connect.
  DurationNs connect_retry_ns = 100 * kMillisecond;
  /// Calls waiting for a connection that does not come fail with UNAVAILABLE after this long (or at
  /// their deadline).
  DurationNs connect_timeout_ns = 10 * kSecond;
  /// Accepted sessions that hear nothing for this long are freed; openers ping idle sessions at a
  /// third of it.
  DurationNs idle_timeout_ns = 60 * kSecond;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_OPTIONS_H_
