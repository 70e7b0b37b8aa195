// TIMELY: a sending rate that follows the gradient of the round trip, after Mittal et al., "TIMELY: RTT-based
// Congestion Control for the Datacenter", SIGCOMM 2015 (algorithm 1, with the hyperactive increase of section 4.3).
//
//   difference = (1 - ewma) * difference + ewma * (delay - previous delay)        gradient = difference / min_rtt
//
//   delay < low                  rate += add
//   delay > high                 rate *= 1 - decrease * (1 - high / delay)
//   between, gradient <= 0       rate += add, five times that after five samples in a row without growth
//   between, gradient >  0       rate *= 1 - decrease * gradient
//
// The paper takes one sample per segment of many packets. Here each packet gives a sample, so a sample counts for the
// part of a min_rtt that has passed since the last one, and no sample takes away more than half of the rate. A rate at
// its maximum is no limit: packets are then not paced.
#ifndef SKUA_RPC_PROTOCOL_CONGESTION_TIMELY_H_
#define SKUA_RPC_PROTOCOL_CONGESTION_TIMELY_H_

#include "rpc/protocol/congestion.h"

namespace skua::rpc {

class TimelyPolicy final : public CongestionPolicy {
 public:
  explicit TimelyPolicy(const TimelyOptions& options) : options_(options), rate_(options.rate_max_bytes_per_s) {}

  void on_sample(DurationNs network_delay_ns, uint32_t acked_packets, TimeNs now) override;
  /// Does nothing. TIMELY does not use loss, as in the paper; retransmission handles it.
  void on_loss(uint32_t lost_packets, uint32_t acked_packets, TimeNs now) override;
  /// Halves the rate: without samples there is no gradient to follow.
  void on_timeout(TimeNs now) override;
  [[nodiscard]] CongestionLimits limits() const override;

  [[nodiscard]] double rate_bytes_per_s() const { return rate_; }

 private:
  void set_rate(double rate);

  const TimelyOptions options_;
  double rate_;
  double difference_ns_ = 0;
  DurationNs previous_delay_ns_ = 0;
  TimeNs last_sample_ns_ = 0;
  uint32_t calm_in_row_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_CONGESTION_TIMELY_H_
