// Strangers: nodes of other clusters that try to register here. If a control plane is started on the wrong data
// directory, the nodes of its real cluster keep asking here. The cluster then looks empty, and only the strangers show
// what happened.
#ifndef SKUA_CONTROL_CORE_STRANGERS_H_
#define SKUA_CONTROL_CORE_STRANGERS_H_

#include <map>
#include <string>
#include <vector>

#include "control/core/cluster_state.h"
#include "control/core/events.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Remembers up to kStrangersMax nodes, each for kStrangersKeptNs after it asked last. Thread: one at a time.
class Strangers {
 public:
  /// Notes an event that was refused because it names another cluster. Ignores events that are not well-formed.
  void note(const RegisterNode& event, TimeNs now);

  /// One line for each other cluster: which nodes ask, and what may be wrong.
  [[nodiscard]] std::vector<std::string> troubles(const ClusterState& state, TimeNs now) const;

 private:
  struct Stranger {
    std::string cluster_id;
    std::string address;
    TimeNs at = 0;
  };

  std::map<std::string, Stranger> nodes_;  // by uuid
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_STRANGERS_H_
