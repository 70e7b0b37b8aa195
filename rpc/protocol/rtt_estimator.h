// Smoothed round-trip time, and the probe time-out derived from it: RFC 6298 section 2, with the granularity and the
// doubling of RFC 9002 section 6.2 (probe time-out). Samples are network delay only: the peer adds the time that it
// held the packet to the time stamp that it echoes, so that this time does not count.
#ifndef SKUA_RPC_PROTOCOL_RTT_ESTIMATOR_H_
#define SKUA_RPC_PROTOCOL_RTT_ESTIMATOR_H_

#include <algorithm>

#include "rpc/protocol/options.h"

namespace skua::rpc {

class RttEstimator {
 public:
  void add_sample(DurationNs rtt_ns) {
    rtt_ns = std::max<DurationNs>(rtt_ns, 0);
    if (!has_sample_) {
      has_sample_ = true;
      srtt_ns_ = rtt_ns;
      rttvar_ns_ = rtt_ns / 2;
      return;
    }
    const DurationNs error = srtt_ns_ > rtt_ns ? srtt_ns_ - rtt_ns : rtt_ns - srtt_ns_;
    rttvar_ns_ += (error - rttvar_ns_) / 4;
    srtt_ns_ += (rtt_ns - srtt_ns_) / 8;
  }

  /// How long to wait for progress before probing. `probes`: how many probes in a row had no answer.
  [[nodiscard]] DurationNs probe_timeout_ns(const ProtocolOptions& options, uint32_t probes) const {
    const DurationNs base = has_sample_ ? srtt_ns_ + 4 * rttvar_ns_ : options.rto_initial_ns;
    const DurationNs first = std::clamp(base, options.rto_min_ns, options.rto_max_ns);
    return std::min(first << std::min(probes, 16u), options.rto_max_ns);
  }

  /// A missing packet is lost if it was sent more than this before a packet that arrived (RFC 8985: a quarter RTT).
  [[nodiscard]] DurationNs reorder_window_ns() const {
    return has_sample_ ? std::max(srtt_ns_ / 4, 2 * kMicrosecond) : kMillisecond;
  }

  [[nodiscard]] bool has_sample() const { return has_sample_; }
  [[nodiscard]] DurationNs srtt_ns() const { return srtt_ns_; }

 private:
  bool has_sample_ = false;
  DurationNs srtt_ns_ = 0;
  DurationNs rttvar_ns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_RTT_ESTIMATOR_H_
