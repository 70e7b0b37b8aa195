// RefusalLog: which refusals the control plane logs. Whoever is refused tries again, perhaps for days and in other
// words each time, and must fill no disk.
//
//    one source (a host)     kRefusalsPerSource texts within kRefusalRepeatNs; the same text once
//    all others, when kRefusalSourcesMax sources are known: together as one source
//
// The last line that a source gets says that more are not logged.
#ifndef SKUA_CONTROL_SERVER_REFUSAL_LOG_H_
#define SKUA_CONTROL_SERVER_REFUSAL_LOG_H_

#include <map>
#include <optional>
#include <string>

#include "rpc/base/clock.h"

namespace skua::control {

/// Thread: one at a time.
class RefusalLog {
 public:
  /// The line to log about a refusal of somebody at `source` (a host; empty: not known), if there is one. `text` is
  /// printable and short.
  [[nodiscard]] std::optional<std::string> note(const std::string& source, const std::string& text, TimeNs now);

 private:
  /// What was logged of a source lately, and when.
  using Texts = std::map<std::string, TimeNs>;

  void forget_old(TimeNs now);

  std::map<std::string, Texts> sources_;
  Texts others_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_REFUSAL_LOG_H_
