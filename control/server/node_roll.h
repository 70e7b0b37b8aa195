// Heartbeats and reports before they take a place in the control thread's queue.
//
//     gRPC thread: admit(node, incarnation, instance, kind) ──> queue ──> control thread: served(node, kind)
//
// The roll is a copy of who is registered. What comes from nobody on it is refused where it arrives, so it costs the
// control thread nothing; of each process on it one message of a kind may wait. So the queue of heartbeats never needs
// more than nodes times kinds places, and nobody but the nodes can use them.
#ifndef SKUA_CONTROL_SERVER_NODE_ROLL_H_
#define SKUA_CONTROL_SERVER_NODE_ROLL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"

namespace skua::control {

/// Thread: any.
class NodeRoll {
 public:
  enum class Kind { kHeartbeat, kGoodbye, kReport };

  /// Who is registered now.
  void publish(const ClusterState& state);
  /// Another process leads: everything is refused with `why` until publish().
  void suspend(const absl::Status& why);

  /// Lets a message of the registered process wait. NOT_FOUND, FAILED_PRECONDITION: it is not (check_process);
  /// RESOURCE_EXHAUSTED: an earlier one waits; suspend()'s status.
  absl::Status admit(const std::string& uuid, uint64_t incarnation, const std::string& instance, Kind kind);
  /// It waits no more.
  void served(const std::string& uuid, Kind kind);

 private:
  mutable std::mutex mutex_;
  // Protected by mutex_.
  std::string cluster_id_;
  std::map<std::string, NodeInfo> nodes_;
  absl::Status suspended_;
  std::set<std::pair<std::string, Kind>> waiting_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_NODE_ROLL_H_
