#include "kvstore/peers/known_peers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/peers/peer_limits.h"
#include "rpc/base/check.h"

namespace skua::kv {

KnownPeers::KnownPeers(const std::string& cluster_id) : cluster_id_(cluster_id) {
  const auto cluster = parse_uuid(cluster_id);
  SKUA_CHECK(cluster.ok(), "a cluster's id is a uuid");
  cluster_ = *cluster;
}

absl::StatusOr<std::optional<NodeId>> KnownPeers::set(const PeerInfo& info) {
  const auto identity = worker_identity(info.uuid, info.incarnation, cluster_id_, 0);
  if (!identity.ok()) return identity.status();
  const NodeId id = node_id_of(identity->uuid);
  Node& node = nodes_[id];
  const bool is_same_node = node.uuid == identity->uuid;
  if (is_same_node && info.incarnation < node.info.incarnation) return std::nullopt;
  const bool moved =
      !is_same_node || info.incarnation != node.info.incarnation || info.grpc_address != node.info.grpc_address;
  node = {info, identity->uuid};
  return moved ? std::optional(id) : std::nullopt;
}

const PeerInfo* KnownPeers::find(NodeId node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second.info;
}

std::optional<KnownPeers::Named> KnownPeers::worker_of(const rpc::EndpointIdentity& identity) const {
  const auto found = nodes_.find(node_id_of(identity.uuid));
  if (found == nodes_.end() || identity.cluster_id != cluster_) return std::nullopt;
  const auto& [id, node] = *found;
  const auto& theirs = identity.uuid.bytes;
  const auto& known = node.uuid.bytes;
  // worker_identity() has XORed the worker's index into the last two bytes.
  if (!std::equal(known.begin(), known.end() - 2, theirs.begin())) return std::nullopt;
  const auto worker = static_cast<uint32_t>((theirs[14] ^ known[14]) << 8 | (theirs[15] ^ known[15]));
  const PeerAddress address{id, worker};
  return Named{address, node.info, identity.incarnation == node.info.incarnation && check(address).ok()};
}

absl::Status KnownPeers::check(PeerAddress address) const {
  const PeerInfo* const node = find(address.node);
  if (node == nullptr) return absl::NotFoundError("the shard map here has no such node: wait for a newer map");
  const uint32_t workers = node->worker_count == 0 ? kPeerWorkersMax : std::min(node->worker_count, kPeerWorkersMax);
  if (address.worker < workers) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("node ", node->uuid, " has no worker ", address.worker,
                                                    ", by the shard map here it has at most ", workers,
                                                    ": wait for a newer map"));
}

}  // namespace skua::kv
