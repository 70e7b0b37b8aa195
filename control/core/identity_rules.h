// Who may call itself a node of this cluster. The rules of docs/control-plane.md, "Identity", and
// their messages.
//
//   registered before?   incarnation      instance    first process        answer
//   ------------------   --------------   ---------   ------------------   ----------------------------------------------
//   no                   any              any         -                    accepted
//   yes                  same             same        -                    accepted (retry, or control restarted)
//   yes                  same             other       -                    refused: two copies of one data directory
//   yes                  older            any         -                    refused: old copy of a data directory
//   yes                  newer            any         gone                 accepted (restart; may have moved)
//   yes                  newer            any         alive, same address  accepted (one process can own the address)
//   yes                  newer            any         alive, elsewhere     refused: two copies of one data directory
#ifndef SKUA_CONTROL_CORE_IDENTITY_RULES_H_
#define SKUA_CONTROL_CORE_IDENTITY_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "control/core/cluster_core.h"

namespace skua::control {

/// The cluster id that a node or client believes in must be ours; empty means "whichever you are".
/// FAILED_PRECONDITION. `who` starts the message, for example "node 0b8f.. on host-7".
[[nodiscard]] absl::Status check_cluster(const std::string& who, const std::string& claimed_id,
                                         const ClusterState& state);

/// The peer's protocol range must meet ours. FAILED_PRECONDITION, naming both ranges.
[[nodiscard]] absl::Status check_versions(const std::string& who, VersionRange theirs);

/// Well-formed description: uuids, a dialable address, a sensible number of workers.
/// INVALID_ARGUMENT.
[[nodiscard]] absl::Status check_node_info(const NodeInfo& node);

/// The table above. ALREADY_EXISTS when the other process is alive (and the refusal may end when it
/// dies), FAILED_PRECONDITION when this process can never be accepted.
[[nodiscard]] absl::Status check_identity(const NodeInfo& newcomer, const NodeInfo& registered,
                                          const NodeStatus& status, TimeNs now, DurationNs suspect_after_ns);

/// Who a message speaks of: "node <uuid> (<address> on <host>, incarnation <n>)".
[[nodiscard]] std::string describe_node(const NodeInfo& node);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_IDENTITY_RULES_H_
