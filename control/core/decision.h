// The core's answer to an event (cluster_core.h).
//
// Most decisions only read: they are functions `decide(event, ...)` of the durable state or, if they depend on who is
// alive, of a ViewContext. They are declared where their subject is:
//
//   tables.h               CreateTable, DropTable
//   cluster_operations.h   NodeLeave, DrainNode, UndrainNode, MoveShard, TransferPrimary, ForceRecover
//   revocation.h           RevokeIdentity, UnrevokeIdentity
//   grants.h               AddGrant, RemoveGrant
//   quotas.h               SetQuota, RemoveQuota
//   join_tokens.h          AddJoinToken, UseJoinToken, RemoveJoinToken
//
// Events that also change what the core knows of nodes (registrations, heartbeats, reports, ticks) are ClusterCore's.
#ifndef SKUA_CONTROL_CORE_DECISION_H_
#define SKUA_CONTROL_CORE_DECISION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "control/core/node_status.h"

namespace skua::control {

/// A change of a node's liveness, for the log.
struct LivenessChange {
  std::string uuid;
  Liveness from = Liveness::kUnknown;
  Liveness to = Liveness::kUnknown;
};

struct Decision {
  /// Not OK: the event was refused; the message says what to do. `changes` is then empty.
  absl::Status status;
  Changes changes;
  /// Not empty: the event is a claim, and the nodes at these addresses must first be asked who they are. Step again
  /// with the answers.
  std::vector<std::string> ask;
  std::vector<LivenessChange> liveness_changes;
  /// The table that was created, found or dropped.
  std::optional<Table> table;
  /// Whose certificate the join token gives that was used or taken back.
  std::string principal{};
  /// The event needs more than one transaction: when `changes` are committed, step it again.
  bool unfinished = false;
};

/// The event is refused for this reason, which is not OK.
[[nodiscard]] Decision refused(absl::Status status);

/// Keeps as many of the changed shards as one transaction takes. True: some are left for another one.
[[nodiscard]] bool keep_first_shards(Changes& changes);

/// A change of `state` that raises the map's revision, to be filled by the caller.
[[nodiscard]] Changes next_changes(const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_DECISION_H_
