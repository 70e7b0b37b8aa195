#include "control/core/strangers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/identity_rules.h"
#include "control/core/uuid.h"

namespace skua::control {

void Strangers::note(const RegisterNode& event, TimeNs now) {
  if (!is_uuid(event.cluster_id) || !check_node_info(event.node).ok()) return;
  std::erase_if(nodes_, [&](const auto& node) { return now - node.second.at > kStrangersKeptNs; });
  if (!nodes_.contains(event.node.uuid) && nodes_.size() >= kStrangersMax) {
    nodes_.erase(std::min_element(nodes_.begin(), nodes_.end(),
                                  [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
  }
  nodes_[event.node.uuid] = {event.cluster_id, event.node.grpc_address, now};
}

std::vector<std::string> Strangers::troubles(const ClusterState& state, TimeNs now) const {
  std::map<std::string, std::vector<std::string>> addresses;  // by cluster
  for (const auto& [uuid, node] : nodes_) {
    if (now - node.at <= kStrangersKeptNs) addresses[node.cluster_id].push_back(node.address);
  }
  const bool empty = state.nodes.empty() && state.tables.empty();
  std::vector<std::string> troubles;
  for (const auto& [cluster_id, of_cluster] : addresses) {
    const bool one = of_cluster.size() == 1;
    troubles.push_back(absl::StrCat(
        one ? "a node" : absl::StrCat(of_cluster.size(), " nodes"), " of another cluster (uuid ", cluster_id, ") at ",
        of_cluster.front(), one ? " asks here: " : " and elsewhere ask here: ",
        empty
            ? "was this control plane started on another --data-dir (or --metadata)? Then stop it, and start it on the "
              "one of that cluster"
            : "give it the --control-address of its own cluster, or an empty --data-dir to join this one"));
  }
  return troubles;
}

}  // namespace skua::control
