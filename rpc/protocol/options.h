// Knobs of the protocol, with unit, default and effect. One value each; nothing here is negotiated
// upwards.
#ifndef SKUA_RPC_PROTOCOL_OPTIONS_H_
#define SKUA_RPC_PROTOCOL_OPTIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/wire/drop_reason.h"

namespace skua::rpc {

/// Largest window a session can have: slots are arrays indexed by req_num % window.
inline constexpr uint16_t kWindowMax = 1024;
inline constexpr uint32_t kCreditsMax = 4096;
/// Requests and answers of so many bytes, given as bytes, need no message: sslots have room for a copy.
inline constexpr size_t kFewBytesMax = 64;
/// Packet indices are 16 bits.
inline constexpr uint32_t kPacketsPerMessageMax = UINT16_MAX;

/// rpc/protocol/congestion_swift.h has the formulas.
struct SwiftOptions {
  /// Queueing delay to allow above the shortest round trip seen. Lower: shorter queues; too low: windows shrink because of the
  /// peers' own delays (the receive rings are part of the path). 20 us suits bare metal with a processor per endpoint; where
  /// endpoints share processors it halves the bandwidth of large responses, and 100 us costs nothing.
  DurationNs queue_target_ns = 100 * kMicrosecond;
  /// Round trip of the idle network, 0: measured (the shortest of the last 30 to 60 s; a session that is born into a queue
  /// takes it for the path until then).
  DurationNs path_ns = 0;
  /// Extra allowance of the smallest windows (many flows share the link); none at scaling_window_max packets and above.
  DurationNs scaling_range_ns = 40 * kMicrosecond;
  double scaling_window_min = 0.1;
  double scaling_window_max = 100;
  /// Packets that the window grows per round trip.
  double increase_packets = 1;
  /// How strongly the excess over the target shrinks the window, and by how much at most at once.
  double decrease = 0.8;
  double decrease_max = 0.5;
  /// Below this part of packets lost, loss without delay is taken for damage, not congestion.
  double loss_tolerance = 0.05;
  /// Time-outs in a row after which the window is the smallest.
  uint32_t timeouts_to_reset = 5;
  double window_min_packets = 0.01;
  /// Longest gap between two packets, whatever the window says.
  DurationNs gap_max_ns = kMillisecond;
};

/// rpc/protocol/congestion_timely.h has the formulas.
struct TimelyOptions {
  /// The link: a session that may send this fast is not paced.
  double rate_max_bytes_per_s = 12.5e9;
  double rate_min_bytes_per_s = 15e6;
  /// Growth per min_rtt_ns.
  double add_bytes_per_s = 5e6;
  DurationNs min_rtt_ns = 2 * kMicrosecond;
  /// Delays below are no congestion, delays above always are; the gradient decides between.
  DurationNs low_ns = 50 * kMicrosecond;
  DurationNs high_ns = kMillisecond;
  double ewma = 0.46;
  double decrease = 0.26;
};

/// What a link of `gigabits_per_s` carries in a round trip of `delay_ns`.
constexpr size_t bandwidth_delay_bytes(uint64_t gigabits_per_s, DurationNs delay_ns) {
  return static_cast<size_t>(gigabits_per_s * static_cast<uint64_t>(delay_ns) / 8);
}

struct ProtocolOptions {
  /// Requests in flight per session and direction (sslots). A power of two.
  uint16_t window = 64;
  /// Packets in flight per session and direction, on transports that can lose them.
  uint32_t credits = 64;
  /// Bytes that one session is to be able to keep in flight, normally bandwidth x delay of its path: session_credits() makes
  /// more credits of it where `credits` are not enough. 0: `credits` they are.
  size_t path_bytes = 0;
  /// Calls that may wait for a slot, per session; beyond it call() returns RESOURCE_EXHAUSTED.
  uint32_t backlog_max = 4096;
  /// Largest request or response.
  uint32_t message_max_bytes = (16u << 20) + (64u << 10);

  /// Messages of more bytes than this are read by their receiver where the transport can (rpc/transport/one_sided.h) instead of
  /// being sent in packets; what fits one packet never is. UINT32_MAX: none are. A READ costs a round trip more than a packet
  /// and saves each side a copy and per-packet work.
  uint32_t read_above_bytes = 16u << 10;
  /// READs that an endpoint has in flight at once, over all sessions, and what one asks for.
  uint32_t reads_max = 16;
  uint32_t read_chunk_bytes = 256u << 10;

  /// Pulled response data that may be on its way to one endpoint, over all of its sessions (and one packet per session in
  /// any case): rpc/protocol/receive_budget.h. Bandwidth x delay of the endpoint's link: less leaves it idle, more stands
  /// in the last switch's queue. The default keeps 100 Gbit/s busy over 20 us, or 25 Gbit/s over 80 us.
  size_t receive_budget_bytes = bandwidth_delay_bytes(100, 20 * kMicrosecond);
  /// The same in packets, for the receive ring; never more than half of what the transport's ring can lend.
  uint32_t receive_budget_packets = 4096;
  CongestionControl congestion = CongestionControl::kSwift;
  SwiftOptions swift;
  TimelyOptions timely;

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
  /// Accepted sessions whose connection broke and was not made again for this long are freed: longer than it takes until their
  /// openers ping.
  DurationNs abandoned_after_ns = 25 * kSecond;
  /// For the rest of a request whose first packets have come, and as much again per 10 MiB of it.
  DurationNs request_timeout_ns = 10 * kSecond;
  /// An answer that is kept for this long with memory of the application's is asked for, and again after twice the time,
  /// up to 64 times as long: session_callee_kept.cc. Longer than callers usually take to use an sslot again.
  DurationNs kept_question_ns = kSecond;
  /// Accepted sessions that no packet came for are freed after this long.
  DurationNs unproven_after_ns = 25 * kSecond;
};

/// What an endpoint offers a session whose packets carry up to `payload_bytes` (above 0): at least `credits`, enough for
/// path_bytes, and then at most half of the `lendable_count` packets that its receive ring can lend.
[[nodiscard]] constexpr uint32_t session_credits(const ProtocolOptions& o, uint32_t payload_bytes,
                                                 uint32_t lendable_count) {
  if (o.path_bytes == 0) return o.credits;
  const size_t packets = (o.path_bytes + payload_bytes - 1) / payload_bytes;
  const auto wanted = static_cast<uint32_t>(std::clamp<size_t>(packets, o.credits, kCreditsMax));
  return std::min(wanted, std::max(lendable_count / 2, 1u));
}

[[nodiscard]] constexpr bool is_valid(const SwiftOptions& o) {
  return o.queue_target_ns > 0 && o.path_ns >= 0 && o.scaling_range_ns >= 0 && o.scaling_window_min > 0 &&
         o.scaling_window_min < o.scaling_window_max && o.increase_packets > 0 && o.decrease > 0 &&
         o.decrease_max > 0 && o.decrease_max < 1 && o.loss_tolerance >= 0 && o.timeouts_to_reset > 0 &&
         o.window_min_packets > 0 && o.gap_max_ns > 0;
}

[[nodiscard]] constexpr bool is_valid(const TimelyOptions& o) {
  return o.rate_min_bytes_per_s > 0 && o.rate_min_bytes_per_s <= o.rate_max_bytes_per_s && o.add_bytes_per_s > 0 &&
         o.min_rtt_ns > 0 && o.low_ns > 0 && o.low_ns <= o.high_ns && o.ewma > 0 && o.ewma <= 1 && o.decrease > 0 &&
         o.decrease <= 1;
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_OPTIONS_H_
