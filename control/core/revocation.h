// Revocation: identities that the cluster does not let in any more, whatever their certificates say.
//
// An identity is named by its role and name: "client/app-7", "node/5f0f4f5e-..". The revocation is of all certificates
// of the identity, also of those that are issued later. To come back, it needs another name or must leave the list.
//
//   skuactl cert revoke         RevokeIdentity --> Changes::put_denied --> store (skua/denied) --> ClusterState::denied
//                                                                                                        |
//           +-------------------------------- shard map, next revision (ShardMap::denied) ---------------+
//           v                           v                                                                v
//   each storage node             each client                                                 the control plane
//   refuses its gRPC calls        opens no session to a                                       refuses its gRPC calls,
//   closes its sessions           node on the list,                                           ends its watches, takes
//   drops its links to a          closes those that                                           a node on the list for
//   node on the list              there are                                                   one that is not alive
//
// The list is part of the cluster's state: it is durable, survives a change of the leader, and is the same everywhere
// once the map has arrived. It travels with the map because the map already has what this needs: an order (revisions),
// a push to all who watch, and a copy that stays in force while the control plane is away. A node that the new map does
// not reach goes on with the old list, until it does.
//
// Each call is judged, also on a connection from before (control/security/deny_list.h), and once more when its turn
// comes (Controller::submit). Sessions of the data path carry no certificate. The node remembers which identity opened
// a session (kvstore/service/session_owners.h), and closes it. A new session needs a gRPC call, which is refused.
//
// The core sees identities as text. Where a call arrives it is checked that a text is a name, and that nobody revokes
// himself. Here are the bounds (kDeniedMax names of kPrincipalMax bytes), and one rule: the role control cannot be
// revoked, because nodes and clients learn the list from it. A stolen key of the control plane needs a new authority.
#ifndef SKUA_CONTROL_CORE_REVOCATION_H_
#define SKUA_CONTROL_CORE_REVOCATION_H_

#include <string>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"

namespace skua::control {

/// The identity of a node: "node/<uuid>".
[[nodiscard]] std::string node_principal(const std::string& uuid);

/// What the status says of a node on the list.
[[nodiscard]] std::string revoked_trouble(const std::string& uuid);

/// OK: `principal` may be put on the state's list. INVALID_ARGUMENT: no identity, too long, or of the role control.
/// RESOURCE_EXHAUSTED: the list is full.
[[nodiscard]] absl::Status check_revocation(const std::string& principal, const ClusterState& state);

/// PERMISSION_DENIED if the identity is on the state's list. Nobody ("") is on it.
[[nodiscard]] absl::Status check_allowed(const std::string& principal, const ClusterState& state);
/// PERMISSION_DENIED if the node is on the state's list.
[[nodiscard]] absl::Status check_node_allowed(const std::string& uuid, const ClusterState& state);

/// Errors of check_revocation().
[[nodiscard]] Decision decide(const RevokeIdentity& event, const ClusterState& state);

/// NOT_FOUND: the identity is not revoked.
[[nodiscard]] Decision decide(const UnrevokeIdentity& event, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_REVOCATION_H_
