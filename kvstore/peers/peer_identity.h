// Names of nodes and their workers. A node's uuid exists as text, as bytes, as a NodeId (the name in views), and as
// part of a worker's endpoint identity.
#ifndef SKUA_KVSTORE_PEERS_PEER_IDENTITY_H_
#define SKUA_KVSTORE_PEERS_PEER_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/replication/view.h"
#include "rpc/transport/descriptor.h"

namespace skua::kv {

/// Parses a uuid. INVALID_ARGUMENT: the text is not a uuid; the message names the text.
[[nodiscard]] absl::StatusOr<rpc::Uuid> parse_uuid(const std::string& text);

/// The first eight bytes of a node's uuid as a big-endian number. So nodes sort by id as they sort by the text of their
/// uuids.
[[nodiscard]] NodeId node_id_of(const rpc::Uuid& uuid);
/// As above, from text. 0: the text is not a uuid.
[[nodiscard]] NodeId node_id_of(const std::string& uuid);

/// The endpoint identity of a worker. Worker 0 has the uuid of the node. For the others the worker's index is XORed
/// into the last two bytes. INVALID_ARGUMENT: a uuid is malformed.
[[nodiscard]] absl::StatusOr<rpc::EndpointIdentity> worker_identity(const std::string& node_uuid, uint64_t incarnation,
                                                                    const std::string& cluster_id, uint32_t worker);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_IDENTITY_H_
