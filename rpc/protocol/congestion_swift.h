// Swift: additive increase, multiplicative decrease of a window around a target delay, after Kumar et al., "Swift:
// Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020 (algorithm 1 and section 3.3).
//
//   target = path + queue_target + scaling(window)          scaling = a / sqrt(window) + b, in 0..scaling_range
//
//   delay <  target      window += increase * acked / window        (window >= 1)
//                        window += increase * acked                 (window <  1)
//   delay >= target      window *= max(1 - decrease * (delay - target) / delay, 1 - decrease_max)
//                        at most once per round trip
//   loss                 window *= 1 - decrease_max, at most once per round trip
//   time-out             the same; from the timeouts_to_reset-th in a row: the smallest window
//
// A window below one packet means less than one packet per round trip: one in flight, and a gap of round trip / window.
// If many flows share a link, their windows are small. The scaling lets them share a longer queue. It also makes flows
// with different windows converge: the larger window has the lower target.
//
// Two things differ from the paper:
//   - The paper's algorithm knows the number of hops and a configured base delay. Here the path's own delay is the
//     shortest sample of the last 30 to 60 s (unless it is configured), so that one setting serves a rack and a cloud
//     region. A session that starts when a queue stands takes the queue for a part of the path, and takes more than its
//     share, until that time is over.
//   - Loss counts as congestion only if delay says so too (a sample above the target within the last round trip), or if
//     more than loss_tolerance of the packets are lost. Damage on the wire is repaired without slowing down.
#ifndef SKUA_RPC_PROTOCOL_CONGESTION_SWIFT_H_
#define SKUA_RPC_PROTOCOL_CONGESTION_SWIFT_H_

#include "rpc/protocol/congestion.h"

namespace skua::rpc {

class SwiftPolicy final : public CongestionPolicy {
 public:
  /// The window starts at `window_max`: a session assumes an idle network until it learns otherwise.
  SwiftPolicy(const SwiftOptions& options, uint32_t window_max);

  void on_sample(DurationNs network_delay_ns, uint32_t acked_packets, TimeNs now) override;
  void on_loss(uint32_t lost_packets, uint32_t acked_packets, TimeNs now) override;
  void on_timeout(TimeNs now) override;
  [[nodiscard]] CongestionLimits limits() const override;

  /// In packets, with a fraction.
  [[nodiscard]] double window() const { return window_; }
  /// Target of the whole round trip, at the present window.
  [[nodiscard]] DurationNs target_ns() const { return path_ns() + allowance_ns(window_); }
  [[nodiscard]] DurationNs path_ns() const;

 private:
  [[nodiscard]] DurationNs allowance_ns(double window) const;
  void observe_path(DurationNs delay_ns, TimeNs now);
  void shrink(double factor, TimeNs now);
  [[nodiscard]] bool may_shrink(TimeNs now) const { return now - last_shrink_ns_ >= srtt_ns_; }

  const SwiftOptions options_;
  const double window_max_;
  /// Coefficients of scaling = a / sqrt(window) + b.
  const double scaling_a_ns_;
  const double scaling_b_ns_;
  double window_;
  double loss_rate_ = 0;
  uint32_t timeouts_in_row_ = 0;
  DurationNs srtt_ns_ = 0;
  TimeNs last_shrink_ns_ = -kTimeNever / 2;
  TimeNs last_high_ns_ = -kTimeNever / 2;
  // The shortest delay in the present and in the previous period.
  DurationNs path_now_ns_ = kTimeNever;
  DurationNs path_before_ns_ = kTimeNever;
  TimeNs path_since_ns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_CONGESTION_SWIFT_H_
