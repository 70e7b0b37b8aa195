// Nodes of other clusters that ask here. One whose control plane was started on another data directory keeps asking:
// the cluster that it finds looks empty, and only this tells what happened.
#ifndef SKUA_CONTROL_CORE_STRANGERS_H_
#define SKUA_CONTROL_CORE_STRANGERS_H_

#include <map>
#include <string>
#include <vector>

#include "control/core/cluster_state.h"
#include "control/core/events.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Remembers kStrangersMax of them, each for kStrangersKeptNs since it asked last. Thread: none of its own.
class Strangers {
 public:
  /// `event` was refused because it names another cluster. Ignores what is not even well-formed.
  void note(const RegisterNode& event, TimeNs now);

  /// One line for each other cluster: who asks, and what may be wrong.
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
