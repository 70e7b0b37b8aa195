// RefusalThrottle: at most one line a second for each source that is refused again and again, and a count of the
// others.
//
// Sources are texts for whoever is refused. There is room for a number of them; those beyond share one place.
//
// Pure: time is an argument.
#ifndef SKUA_CONTROL_SECURITY_REFUSAL_THROTTLE_H_
#define SKUA_CONTROL_SECURITY_REFUSAL_THROTTLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/clock.h"

namespace skua::control {

/// Thread: one at a time.
class RefusalThrottle {
 public:
  static constexpr DurationNs kInterval = 1 * kSecond;
  /// What was left out of a source that is silent since is told after this time.
  static constexpr DurationNs kTellAfter = 10 * kSecond;
  static constexpr size_t kSourcesMax = 256;

  /// May a line be written? Then: how many of the source were left out before it. Nothing: this one is left out.
  [[nodiscard]] std::optional<uint64_t> admit(const std::string& source, TimeNs now);

  /// Sources that were silent for kTellAfter, and how many were left out of each; they are forgotten. Those of which
  /// nothing was left out are forgotten, too.
  [[nodiscard]] std::vector<std::pair<std::string, uint64_t>> take_overdue(TimeNs now);

 private:
  struct Source {
    TimeNs written_ns = 0;
    uint64_t left_out = 0;
  };

  std::map<std::string, Source> sources_;
  TimeNs looked_ns_ = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_REFUSAL_THROTTLE_H_
