// KnownPeers: the nodes of the cluster that a worker knows, by the shard map, and which identities of endpoints are of
// their workers.
//
//    shard map -- set(), drop() -->  node: uuid, address, incarnations, how many workers
//    session   -- worker_of() ---->  the node and worker that its identity names, or none
//
// An identity is a claim (peer_proofs.h): all that is said here is whom it names.
//
// Thread: the worker's.
#ifndef SKUA_KVSTORE_PEERS_KNOWN_PEERS_H_
#define SKUA_KVSTORE_PEERS_KNOWN_PEERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/peers/peer_address.h"
#include "kvstore/types/peer_info.h"
#include "rpc/transport/descriptor.h"

namespace skua::kv {

class KnownPeers {
 public:
  /// A worker that an identity names. `node` is valid until the next set() or drop().
  struct Named {
    PeerAddress address;
    const PeerInfo& node;
    bool is_current = false;  ///< the node may have this worker, and the identity has the incarnation known here
  };

  /// `cluster_id` is a uuid (checked).
  explicit KnownPeers(const std::string& cluster_id);

  /// Makes a node known or updates it. An incarnation older than the known one is ignored. Returns the node if it is
  /// new, or has a new incarnation, uuid or address: links to it lead elsewhere now. INVALID_ARGUMENT: its uuid is
  /// malformed.
  absl::StatusOr<std::optional<NodeId>> set(const PeerInfo& info);
  void drop(NodeId node) { nodes_.erase(node); }

  /// Null: the node is not known.
  [[nodiscard]] const PeerInfo* find(NodeId node) const;
  /// The worker of a known node that the identity names, in any incarnation.
  [[nodiscard]] std::optional<Named> worker_of(const rpc::EndpointIdentity& identity) const;
  /// OK: the node is known, and may have this worker. Else NOT_FOUND or FAILED_PRECONDITION.
  [[nodiscard]] absl::Status check(PeerAddress address) const;

 private:
  struct Node {
    PeerInfo info;
    rpc::Uuid uuid;
  };

  const std::string cluster_id_;
  rpc::Uuid cluster_;
  std::map<NodeId, Node> nodes_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_KNOWN_PEERS_H_
