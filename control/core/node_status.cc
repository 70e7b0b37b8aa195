#include "control/core/node_status.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"

namespace skua::control {

const char* liveness_name(Liveness liveness) {
  switch (liveness) {
    case Liveness::kUnknown: return "unknown";
    case Liveness::kAlive: return "alive";
    case Liveness::kSuspected: return "suspected";
    case Liveness::kStopped: return "stopped";
  }
  return "unknown";
}

std::string clock_trouble(DurationNs ahead_ns) {
  const DurationNs by = std::abs(ahead_ns) + kSecond / 2;
  if (std::abs(ahead_ns) <= kClockAheadMax) return {};
  const bool ahead = ahead_ns > 0;
  return absl::StrCat("the node's clock is ", by / kSecond, " s ", ahead ? "ahead of" : "behind",
                      " the control plane's: values with a time to live may expire ", by / kSecond, " s too ",
                      ahead ? "early" : "late", "; set the clocks of both machines (NTP). Nothing else depends on it");
}

std::string trouble_of(const NodeStatus& status) {
  const std::string clock = clock_trouble(status.clock_ahead_ns);
  return absl::StrCat(status.trouble, status.trouble.empty() || clock.empty() ? "" : "; ", clock);
}

}  // namespace skua::control
