// Names of nodes and their workers: a uuid as text, as bytes, as views name a node, and as an endpoint's identity.
#ifndef SKUA_KVSTORE_PEERS_PEER_IDENTITY_H_
#define SKUA_KVSTORE_PEERS_PEER_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/replication/view.h"
#include "rpc/transport/descriptor.h"

namespace skua::kv {

/// INVALID_ARGUMENT names the text.
[[nodiscard]] absl::StatusOr<rpc::Uuid> parse_uuid(const std::string& text);

/// The first eight bytes of a node's uuid, the first one highest: nodes sort as their uuids' text.
[[nodiscard]] NodeId node_id_of(const rpc::Uuid& uuid);
/// 0: the text is no uuid.
[[nodiscard]] NodeId node_id_of(const std::string& uuid);

/// The endpoint's identity of a node's worker: worker 0 has the node's uuid, the others differ from it
/// in the last bytes. INVALID_ARGUMENT if a uuid is malformed.
[[nodiscard]] absl::StatusOr<rpc::EndpointIdentity> worker_identity(const std::string& node_uuid, uint64_t incarnation,
                                                                    const std::string& cluster_id, uint32_t worker);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_IDENTITY_H_
