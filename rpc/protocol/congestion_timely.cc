#include "rpc/protocol/congestion_timely.h"

#include <algorithm>
#include <utility>

namespace skua::rpc {
namespace {

constexpr uint32_t kCalmForHyperactive = 5;
constexpr double kHyperactiveSteps = 5;
constexpr double kPsPerSecond = 1e12;

}  // namespace

void TimelyPolicy::set_rate(double rate) {
  rate_ = std::clamp(rate, options_.rate_min_bytes_per_s, options_.rate_max_bytes_per_s);
}

void TimelyPolicy::on_sample(DurationNs delay_ns, uint32_t /*acked_packets*/, TimeNs now) {
  if (previous_delay_ns_ == 0) {
    previous_delay_ns_ = std::max<DurationNs>(delay_ns, 1);
    last_sample_ns_ = now;
    return;
  }
  const auto min_rtt = static_cast<double>(options_.min_rtt_ns);
  const double share = std::min(static_cast<double>(now - std::exchange(last_sample_ns_, now)) / min_rtt, 1.0);
  const auto delay = static_cast<double>(delay_ns);
  difference_ns_ = (1 - options_.ewma) * difference_ns_ +
                   options_.ewma * static_cast<double>(delay_ns - std::exchange(previous_delay_ns_, delay_ns));
  auto slow_down = [&](double part) { set_rate(rate_ * (1 - std::min(options_.decrease * part * share, 0.5))); };
  if (delay_ns < options_.low_ns) {
    calm_in_row_ = 0;
    return set_rate(rate_ + options_.add_bytes_per_s * share);
  }
  if (delay_ns > options_.high_ns) {
    calm_in_row_ = 0;
    return slow_down(1 - static_cast<double>(options_.high_ns) / delay);
  }
  if (difference_ns_ <= 0) {
    const double steps = ++calm_in_row_ >= kCalmForHyperactive ? kHyperactiveSteps : 1;
    return set_rate(rate_ + steps * options_.add_bytes_per_s * share);
  }
  calm_in_row_ = 0;
  slow_down(difference_ns_ / min_rtt);
}

void TimelyPolicy::on_loss(uint32_t /*lost_packets*/, uint32_t /*acked_packets*/, TimeNs /*now*/) {}

void TimelyPolicy::on_timeout(TimeNs /*now*/) {
  set_rate(rate_ / 2);
}

CongestionLimits TimelyPolicy::limits() const {
  CongestionLimits out;
  if (rate_ >= options_.rate_max_bytes_per_s) {
    out.quiet_until_ns = options_.low_ns;
    return out;
  }
  out.quiet_until_ns = 0;
  out.byte_gap_ps = std::max<uint64_t>(static_cast<uint64_t>(kPsPerSecond / rate_), 1);
  return out;
}

}  // namespace skua::rpc
