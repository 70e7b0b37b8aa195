// Who may call itself a node of this cluster. The rules of docs/control-plane.md, "Identity", and
// their messages.
//
// A registration is a claim: anybody can send it. First the table, then proof: what the claim says is asked for at the
// address that the claim names (addresses_to_ask), and a process that still stands at the registered address keeps its
// place.
//
//   registered before?   incarnation      instance    first process        answer
//   ------------------   --------------   ---------   ------------------   ----------------------------------------------
//   no                   any              any         -                    accepted if proven
//   yes                  same             same        -                    accepted (retry, or control restarted)
//   yes                  same             other       -                    refused: two copies of one data directory
//   yes                  older            any         -                    refused: old copy of a data directory
//   yes                  newer            any         gone                 accepted if proven (restart; may have moved)
//   yes                  newer            any         alive, same address  accepted if proven (only one has the address)
//   yes                  newer            any         alive, elsewhere     refused: two copies of one data directory
//   yes                  far newer        any         any                  refused (kIncarnationStepMax)
//
// A node that registered with a secret is only who knows it; a node of an older release, which has none, only where
// it is registered. So a node that is down, hangs or is cut off is nobody else's.
#ifndef SKUA_CONTROL_CORE_IDENTITY_RULES_H_
#define SKUA_CONTROL_CORE_IDENTITY_RULES_H_

#include <string>
#include <vector>

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

/// A newcomer finds room in the cluster, and among the nodes of its host. RESOURCE_EXHAUSTED.
[[nodiscard]] absl::Status check_room(const NodeInfo& newcomer, const ClusterState& state);

/// No other node may have the same first eight bytes: data nodes tell each other apart by them. FAILED_PRECONDITION.
[[nodiscard]] absl::Status check_unlike_others(const NodeInfo& newcomer, const ClusterState& state);

/// Where to ask before a claim that passed check_identity() is taken; `registered` is null for a newcomer. Nothing for
/// the process that is registered, where it is: nobody else knows its instance. The claim's own address otherwise, and
/// the registered one if a process that is only not heard of may stand there.
[[nodiscard]] std::vector<std::string> addresses_to_ask(const NodeInfo& newcomer, const NodeInfo* registered,
                                                        const NodeStatus& status);

/// `answers` has one for each of addresses_to_ask(). ALREADY_EXISTS: another process answers there (and the refusal
/// may end when that process does). UNAVAILABLE: nobody answers at the claimed address.
[[nodiscard]] absl::Status check_proof(const NodeInfo& newcomer, const NodeInfo* registered,
                                       const std::vector<ClaimAnswer>& answers);

/// OK if a message comes from the registered process of that node; `registered` is null for an unknown one. NOT_FOUND:
/// it must register. FAILED_PRECONDITION: another process has replaced it.
[[nodiscard]] absl::Status check_process(const NodeInfo* registered, const std::string& uuid, uint64_t incarnation,
                                         const std::string& instance, const std::string& cluster_id);

/// Who a message speaks of: "node <uuid> (<address> on <host>, incarnation <n>)".
[[nodiscard]] std::string describe_node(const NodeInfo& node);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_IDENTITY_RULES_H_
