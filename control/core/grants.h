// Grants: which clients may read, write or scan a table.
//
// A table without grants is open: every client of the cluster may do everything with it. Its first grant closes it to
// all clients that have none. A grant names a client by the role and name in its certificates ("client/app-7") and has
// one or more rights:
//
//   read     keys that one names: GET, MULTI_GET
//   write    everything that changes keys: PUT, DELETE, PATCH, ADD, APPEND, EXPIRE, BATCH. Their answers tell of the
//            key what they always do: the new version, whether a condition holds, the sum of a counter
//   scan     all keys and values of a range, unasked: SCAN
//
// Grants limit clients only. Nodes, administrators and the control plane need no grant; a monitor reads no data anyway.
//
//   skuactl grant add      AddGrant --> Changes::put_grants --> store (skua/grants/<table id>) --> ClusterState::grants
//                                                                                                        |
//           +-------------------------------- shard map, next revision (MapTable::grants) ---------------+
//           v
//   each storage node: compiles them for its workers (kvstore/service/grants.h) before it serves the shards of that
//   map. A worker knows the identity that opened a session, and judges each request of the session by the table of its
//   shard.
//
// Like the list of who is revoked (revocation.h), grants are durable and travel with the map. A node that the new map
// does not reach goes on with the grants that it has. Grants belong to the table, not to its name: they go when it is
// dropped, and a new table of that name is open.
//
// The rules here:
//   - A table without its last grant is open to all clients, also to the one that lost the grant. So the caller must
//     say that this is meant (RemoveGrant::open_to_all).
//   - Only identities of the role client have grants. Names are checked where a call arrives. So is whether the cluster
//     has certificates, without which sessions have no identity. If a cluster with grants is started without
//     certificates, closed tables are closed to all sessions.
//   - There are kGrantsMax grants at most, one for each client and table.
#ifndef SKUA_CONTROL_CORE_GRANTS_H_
#define SKUA_CONTROL_CORE_GRANTS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"

namespace skua::control {

/// "read,write".
[[nodiscard]] std::string rights_text(Rights rights);

/// The rights in a text like "read,write". INVALID_ARGUMENT: no rights, or another word.
[[nodiscard]] absl::StatusOr<Rights> parse_rights(std::string_view text);

/// OK: "client/<name>". INVALID_ARGUMENT: not a client's identity, or too long. `limits` is what only clients have, for
/// the message: "Grants".
[[nodiscard]] absl::Status check_is_client(const std::string& principal, const char* limits);

/// OK: such a grant can be given or taken. INVALID_ARGUMENT: no client's identity, too long, or not rights.
[[nodiscard]] absl::Status check_grant(const std::string& principal, Rights rights);

/// Grants of all tables together.
[[nodiscard]] size_t grant_count(const ClusterState& state);

/// INVALID_ARGUMENT: check_grant(). NOT_FOUND: no such table. RESOURCE_EXHAUSTED: there are kGrantsMax grants.
[[nodiscard]] Decision decide(const AddGrant& event, const ClusterState& state);

/// INVALID_ARGUMENT: check_grant(). NOT_FOUND: no such table, or the client has none of these rights.
/// FAILED_PRECONDITION: it is the table's last grant.
[[nodiscard]] Decision decide(const RemoveGrant& event, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_GRANTS_H_
