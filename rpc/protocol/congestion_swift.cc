#include "rpc/protocol/congestion_swift.h"

#include <algorithm>
#include <cmath>

namespace skua::rpc {
namespace {

constexpr DurationNs kPathMemoryNs = 30 * kSecond;
// Weight of one packet in the loss rate: it remembers some hundred packets.
constexpr double kLossGain = 1.0 / 256;
// Limit for the losses counted at once. Units that were pulled together are missing together when their pull was lost.
// That is one lost packet, not an overflowing queue.
constexpr uint32_t kLossAtOnceMax = 4;

double inverse_root(double window) {
  return 1 / std::sqrt(window);
}

double scaling_a(const SwiftOptions& options) {
  return static_cast<double>(options.scaling_range_ns) /
         (inverse_root(options.scaling_window_min) - inverse_root(options.scaling_window_max));
}

}  // namespace

SwiftPolicy::SwiftPolicy(const SwiftOptions& options, uint32_t window_max)
    : options_(options),
      window_max_(std::max(window_max, 1u)),
      scaling_a_ns_(scaling_a(options)),
      scaling_b_ns_(-scaling_a_ns_ * inverse_root(options.scaling_window_max)),
      window_(window_max_) {}

DurationNs SwiftPolicy::path_ns() const {
  if (options_.path_ns > 0) return options_.path_ns;
  const DurationNs path = std::min(path_now_ns_, path_before_ns_);
  return path == kTimeNever ? 0 : path;
}

DurationNs SwiftPolicy::allowance_ns(double window) const {
  const double scaling = scaling_a_ns_ * inverse_root(window) + scaling_b_ns_;
  return options_.queue_target_ns +
         static_cast<DurationNs>(std::clamp(scaling, 0.0, static_cast<double>(options_.scaling_range_ns)));
}

void SwiftPolicy::observe_path(DurationNs delay_ns, TimeNs now) {
  if (now - path_since_ns_ >= kPathMemoryNs) {
    // One step per sample: after a pause, the last period before it still counts.
    path_before_ns_ = path_now_ns_;
    path_now_ns_ = delay_ns;
    path_since_ns_ = now;
  }
  path_now_ns_ = std::min(path_now_ns_, delay_ns);
}

void SwiftPolicy::on_sample(DurationNs delay_ns, uint32_t acked_packets, TimeNs now) {
  observe_path(delay_ns, now);
  srtt_ns_ = srtt_ns_ == 0 ? delay_ns : srtt_ns_ + (delay_ns - srtt_ns_) / 8;
  timeouts_in_row_ = 0;
  const DurationNs target = target_ns();
  if (delay_ns < target) {
    const double step = options_.increase_packets * acked_packets;
    window_ = std::min(window_ + (window_ < 1 ? step : step / window_), window_max_);
    return;
  }
  last_high_ns_ = now;
  if (now - last_shrink_ns_ < delay_ns) return;
  const double excess = static_cast<double>(delay_ns - target) / static_cast<double>(delay_ns);
  shrink(std::max(1 - options_.decrease * excess, 1 - options_.decrease_max), now);
}

void SwiftPolicy::on_loss(uint32_t lost_packets, uint32_t acked_packets, TimeNs now) {
  loss_rate_ *= std::pow(1 - kLossGain, acked_packets);
  loss_rate_ = 1 - (1 - loss_rate_) * std::pow(1 - kLossGain, std::min(lost_packets, kLossAtOnceMax));
  const bool queue_is_long = now - last_high_ns_ <= std::max(srtt_ns_, path_ns());
  if ((queue_is_long || loss_rate_ > options_.loss_tolerance) && may_shrink(now)) {
    shrink(1 - options_.decrease_max, now);
  }
}

void SwiftPolicy::on_timeout(TimeNs now) {
  if (++timeouts_in_row_ >= options_.timeouts_to_reset) {
    window_ = options_.window_min_packets;
  } else if (may_shrink(now)) {
    shrink(1 - options_.decrease_max, now);
  }
}

void SwiftPolicy::shrink(double factor, TimeNs now) {
  window_ = std::max(window_ * factor, options_.window_min_packets);
  last_shrink_ns_ = now;
}

CongestionLimits SwiftPolicy::limits() const {
  CongestionLimits out;
  if (window_ >= window_max_) {
    out.quiet_from_ns = options_.path_ns > 0 ? 0 : path_ns();
    out.quiet_until_ns = srtt_ns_ == 0 ? 0 : target_ns();
    return out;
  }
  out.quiet_until_ns = 0;
  out.window_packets = std::max(static_cast<uint32_t>(window_), 1u);
  if (window_ < 1) {
    const auto gap = static_cast<DurationNs>(static_cast<double>(srtt_ns_) / window_);
    out.packet_gap_ns = std::clamp<DurationNs>(gap, 1, options_.gap_max_ns);
  }
  return out;
}

}  // namespace skua::rpc
