#include "rpc/protocol/traffic_settings.h"

#include "absl/strings/str_cat.h"
#include "rpc/protocol/options.h"

namespace skua::rpc {
namespace {

constexpr double kBytesPerGigabit = 1e9 / 8;

}  // namespace

absl::Status TrafficSettings::check() const {
  if (queue_target_ns < kMicrosecond || queue_target_ns > kDelayMax) {
    return absl::InvalidArgumentError("the queue target must be 1 us to 1 s");
  }
  if (link_gigabits_per_s > kLinkGigabitsMax) {
    return absl::InvalidArgumentError(absl::StrCat("the link must have 1 to ", kLinkGigabitsMax,
                                                   " Gbit/s (0: not given), not ", link_gigabits_per_s));
  }
  if (path_delay_ns < kMicrosecond || path_delay_ns > kDelayMax) {
    return absl::InvalidArgumentError("the path delay must be 1 us to 1 s");
  }
  return absl::OkStatus();
}

void TrafficSettings::apply(ProtocolOptions& options) const {
  options.congestion = congestion;
  options.swift.queue_target_ns = queue_target_ns;
  if (link_gigabits_per_s > 0) {
    options.path_bytes = bandwidth_delay_bytes(link_gigabits_per_s, path_delay_ns);
    options.receive_budget_bytes = options.path_bytes;
    options.timely.rate_max_bytes_per_s = link_gigabits_per_s * kBytesPerGigabit;
  }
  if (receive_budget_bytes > 0) options.receive_budget_bytes = receive_budget_bytes;
}

}  // namespace skua::rpc
