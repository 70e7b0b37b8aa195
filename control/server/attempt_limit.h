// AttemptLimit: how often somebody may try something. So many times in a minute for each source; sources beyond a
// number share what one has. Pure: the time is an argument.
#ifndef SKUA_CONTROL_SERVER_ATTEMPT_LIMIT_H_
#define SKUA_CONTROL_SERVER_ATTEMPT_LIMIT_H_

#include <cstddef>
#include <map>
#include <string>

#include "rpc/base/clock.h"

namespace skua::control {

/// Thread: one at a time.
class AttemptLimit {
 public:
  static constexpr DurationNs kWindow = 60 * kSecond;

  AttemptLimit(size_t attempts_per_minute, size_t sources_max)
      : attempts_(attempts_per_minute), sources_max_(sources_max) {}

  /// False: too often. Such an attempt does not count.
  bool admit(const std::string& source, TimeNs now) {
    if (!sources_.contains(source) && sources_.size() >= sources_max_) {
      std::erase_if(sources_, [now](const auto& entry) { return now - entry.second.began >= kWindow; });
    }
    const bool room = sources_.contains(source) || sources_.size() < sources_max_;
    Window& window = room ? sources_.try_emplace(source, Window{now, 0}).first->second : others_;
    if (now - window.began >= kWindow) window = {now, 0};
    if (window.attempts >= attempts_) return false;
    ++window.attempts;
    return true;
  }

 private:
  struct Window {
    TimeNs began = 0;
    size_t attempts = 0;
  };

  const size_t attempts_;
  const size_t sources_max_;
  std::map<std::string, Window> sources_;
  Window others_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_ATTEMPT_LIMIT_H_
