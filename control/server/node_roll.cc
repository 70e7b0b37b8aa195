#include "control/server/node_roll.h"

#include "absl/strings/str_cat.h"
#include "control/core/identity_rules.h"

namespace skua::control {

void NodeRoll::publish(const ClusterState& state) {
  std::lock_guard lock(mutex_);
  cluster_id_ = state.cluster_id;
  nodes_ = state.nodes;
  suspended_ = absl::OkStatus();
}

void NodeRoll::suspend(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  suspended_ = why;
}

absl::Status NodeRoll::admit(const std::string& uuid, uint64_t incarnation, const std::string& instance, Kind kind) {
  std::lock_guard lock(mutex_);
  if (!suspended_.ok()) return suspended_;
  const auto node = nodes_.find(uuid);
  const NodeInfo* registered = node == nodes_.end() ? nullptr : &node->second;
  if (auto status = check_process(registered, uuid, incarnation, instance, cluster_id_); !status.ok()) return status;
  if (!waiting_.insert({uuid, kind}).second) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an earlier message of node ", uuid, " waits for the control plane. Try again after the next heartbeat"));
  }
  return absl::OkStatus();
}

void NodeRoll::served(const std::string& uuid, Kind kind) {
  std::lock_guard lock(mutex_);
  waiting_.erase({uuid, kind});
}

}  // namespace skua::control
