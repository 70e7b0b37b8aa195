// How long to wait before trying again: doubling from a minimum to a maximum, with jitter so that a
// thousand clients of a control plane that comes back do not knock at the same moment.
#ifndef SKUA_CONTROL_CLIENT_BACKOFF_H_
#define SKUA_CONTROL_CLIENT_BACKOFF_H_

#include <algorithm>
#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::control {

struct BackoffOptions {
  DurationNs min_ns = 50 * kMillisecond;
  DurationNs max_ns = 2 * kSecond;
};

/// Pure: the caller does the waiting.
class Backoff {
 public:
  Backoff(BackoffOptions options, uint64_t seed) : options_(options), rng_(seed) { reset(); }

  /// The next delay: uniform in the upper half of [0, current], current doubling each time.
  DurationNs next() {
    const DurationNs current = current_ns_;
    current_ns_ = std::min(2 * current_ns_, options_.max_ns);
    const auto half = static_cast<uint64_t>(current / 2);
    return static_cast<DurationNs>(half + rng_.below(half + 1));
  }

  /// Something worked: start from the minimum again.
  void reset() { current_ns_ = std::min(options_.min_ns, options_.max_ns); }

 private:
  BackoffOptions options_;
  Rng rng_;
  DurationNs current_ns_ = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_BACKOFF_H_
