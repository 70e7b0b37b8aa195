// Options of the protocol, with unit, default and effect. Terms of a session are negotiated down from them, never up.
#ifndef SKUA_RPC_PROTOCOL_OPTIONS_H_
#define SKUA_RPC_PROTOCOL_OPTIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/wire/drop_reason.h"

namespace skua::rpc {

/// Largest window of a session: sslots are arrays, indexed by req_num % window.
inline constexpr uint16_t kWindowMax = 1024;
inline constexpr uint32_t kCreditsMax = 4096;
/// Requests and answers of up to so many bytes, if given as bytes, need no message buffer: the sslot keeps a copy.
inline constexpr size_t kFewBytesMax = 64;
/// Packet indices are 16 bits.
inline constexpr uint32_t kPacketsPerMessageMax = UINT16_MAX;

/// rpc/protocol/congestion_swift.h has the formulas.
struct SwiftOptions {
  /// Queueing delay allowed above the shortest round trip seen. Lower: shorter queues. Too low: the peers' own delays
  /// shrink windows, because receive rings are part of the path. 20 us suits bare metal with a processor per endpoint.
  /// Where endpoints share processors, 20 us halves the bandwidth of large responses, and 100 us costs nothing.
  DurationNs queue_target_ns = 100 * kMicrosecond;
  /// Round trip of the idle network. 0: measured, as the shortest of the last 30 to 60 s. (A session that starts when a
  /// queue stands takes the queue for a part of the path until then.)
  DurationNs path_ns = 0;
  /// Extra delay allowed to the smallest windows, because then many flows share the link. It is 0 from
  /// scaling_window_max packets on.
  DurationNs scaling_range_ns = 40 * kMicrosecond;
  double scaling_window_min = 0.1;
  double scaling_window_max = 100;
  /// Packets that the window grows per round trip.
  double increase_packets = 1;
  /// `decrease`: how strongly the excess over the target shrinks the window. `decrease_max`: the most that one step
  /// takes away.
  double decrease = 0.8;
  double decrease_max = 0.5;
  /// If less than this part of the packets is lost and delay is low, loss counts as damage, not as congestion.
  double loss_tolerance = 0.05;
  /// After so many time-outs in a row, the window is set to its minimum.
  uint32_t timeouts_to_reset = 5;
  double window_min_packets = 0.01;
  /// Longest gap between two packets, however small the window is.
  DurationNs gap_max_ns = kMillisecond;
};

/// rpc/protocol/congestion_timely.h has the formulas.
struct TimelyOptions {
  /// Speed of the link. A session that may send this fast is not paced.
  double rate_max_bytes_per_s = 12.5e9;
  double rate_min_bytes_per_s = 15e6;
  /// Growth per min_rtt_ns.
  double add_bytes_per_s = 5e6;
  DurationNs min_rtt_ns = 2 * kMicrosecond;
  /// Delays below low_ns are no congestion, delays above high_ns always are. In between, the gradient decides.
  DurationNs low_ns = 50 * kMicrosecond;
  DurationNs high_ns = kMillisecond;
  double ewma = 0.46;
  double decrease = 0.26;
};

/// The bytes that a link of `gigabits_per_s` carries in a round trip of `delay_ns`.
constexpr size_t bandwidth_delay_bytes(uint64_t gigabits_per_s, DurationNs delay_ns) {
  return static_cast<size_t>(gigabits_per_s * static_cast<uint64_t>(delay_ns) / 8);
}

struct ProtocolOptions {
  /// Requests in flight per session and direction (sslots). A power of two.
  uint16_t window = 64;
  /// Packets in flight per session and direction, on transports that can lose them.
  uint32_t credits = 64;
  /// Bytes that one session shall be able to keep in flight, normally bandwidth x delay of its path. session_credits()
  /// raises the credits if `credits` are too few for it. 0: `credits` is used as it is.
  size_t path_bytes = 0;
  /// Calls per session that may wait for an sslot. Beyond it call() returns RESOURCE_EXHAUSTED.
  uint32_t backlog_max = 4096;
  /// Largest request or response.
  uint32_t message_max_bytes = (16u << 20) + (64u << 10);

  /// Larger messages are read by their receiver, if the transport can (rpc/transport/one_sided.h), instead of being
  /// sent in packets. A message that fits one packet is never read. UINT32_MAX: none are. A READ costs one more round
  /// trip than a packet, and saves each side a copy and the work per packet.
  uint32_t read_above_bytes = 16u << 10;
  /// How many READs an endpoint has in flight at once, over all sessions; and the largest size of one READ.
  uint32_t reads_max = 16;
  uint32_t read_chunk_bytes = 256u << 10;

  /// Pulled response data that may be on its way to one endpoint, over all of its sessions; each session may always
  /// have one packet (rpc/protocol/receive_budget.h). Set it to bandwidth x delay of the endpoint's link: with less the
  /// link is partly idle, more only fills the last switch's queue. The default keeps 100 Gbit/s busy over 20 us, or 25
  /// Gbit/s over 80 us.
  size_t receive_budget_bytes = bandwidth_delay_bytes(100, 20 * kMicrosecond);
  /// The same limit in packets, for the receive ring. Never more than half of what the transport's ring can lend.
  uint32_t receive_budget_packets = 4096;
  CongestionControl congestion = CongestionControl::kSwift;
  SwiftOptions swift;
  TimelyOptions timely;

  /// Probe time-out: the first value, and limits of the adaptive value (srtt + 4 rttvar, doubled for each unanswered
  /// probe).
  DurationNs rto_initial_ns = 5 * kMillisecond;
  DurationNs rto_min_ns = 200 * kMicrosecond;
  DurationNs rto_max_ns = 500 * kMillisecond;

  /// A session that has calls in flight and hears nothing for this long asks whether the peer lives.
  DurationNs ping_after_ns = 500 * kMillisecond;
  /// A session that has calls in flight and hears nothing for this long gives the peer up.
  DurationNs peer_timeout_ns = 5 * kSecond;
  /// Pause between attempts to connect.
  DurationNs connect_retry_ns = 100 * kMillisecond;
  /// Calls that wait for a connection fail with UNAVAILABLE after this long, or at their deadline if it is earlier.
  DurationNs connect_timeout_ns = 10 * kSecond;
  /// An accepted session that hears nothing for this long is freed. The opener of an idle session pings after a third
  /// of this time.
  DurationNs idle_timeout_ns = 60 * kSecond;
  /// An accepted session is freed if its connection broke and was not made again for this long. Longer than it takes
  /// the opener to ping.
  DurationNs abandoned_after_ns = 25 * kSecond;
  /// Time for the rest of a request whose first packets have come, plus the same time per 10 MiB of the request.
  DurationNs request_timeout_ns = 10 * kSecond;
  /// The callee keeps responses that hold the application's memory. After this time it asks the caller whether it has
  /// the response, then again after twice the time, up to 64 times as long (session_callee_kept.cc). Longer than
  /// callers usually take to use an sslot again.
  DurationNs kept_question_ns = kSecond;
  /// An accepted session from which no packet came is freed after this long.
  DurationNs unproven_after_ns = 25 * kSecond;
};

/// The credits that an endpoint offers a session whose packets carry up to `payload_bytes` (above 0): at least
/// `credits`, enough for path_bytes, but then at most half of the `lendable_count` packets that its receive ring can
/// lend.
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
