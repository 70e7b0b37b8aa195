// Which processes may register as nodes of this cluster: the rules of docs/control-plane.md, "Identity", and their
// error messages.
//
// A registration is a claim, since anybody can send it. First the table below decides. Then the claim must be proven:
// the process at the claim's address is asked who it is (addresses_to_ask). If the registered address is another one,
// it is asked, too: if another process of the node still answers there, the claim is refused.
//
//   registered before?   incarnation      instance    first process        answer
//   ------------------   --------------   ---------   ------------------   ------------------------------------------
//   no                   any              any         -                    accepted if proven
//   yes                  same             same        -                    accepted (retry, or control restarted)
//   yes                  same             other       -                    refused: two copies of one data directory
//   yes                  older            any         -                    refused: old copy of a data directory
//   yes                  newer            any         gone                 accepted if proven (restart; may have moved)
//   yes                  newer            any         alive, same address  accepted if proven (one process per address)
//   yes                  newer            any         alive, elsewhere     refused: two copies of one data directory
//   yes                  far newer        any         any                  refused (kIncarnationStepMax)
//
// If a node is registered with a secret, a claim must have the same secret. A claim without a secret, from a process of
// an older release, must name the registered address. So no other process can take the identity of a node that is down,
// hangs or is cut off.
#ifndef SKUA_CONTROL_CORE_IDENTITY_RULES_H_
#define SKUA_CONTROL_CORE_IDENTITY_RULES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"
#include "control/core/node_status.h"
#include "control/core/protocol_version.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// FAILED_PRECONDITION if the cluster id that a node or client names is not ours; an empty one is accepted. `who`
/// starts the message, for example "node 0b8f.. on host-7".
[[nodiscard]] absl::Status check_cluster(const std::string& who, const std::string& claimed_id,
                                         const ClusterState& state);

/// FAILED_PRECONDITION, naming both ranges, if the peer's protocol versions and ours have none in common.
[[nodiscard]] absl::Status check_versions(const std::string& who, VersionRange theirs);

/// INVALID_ARGUMENT if the description is not well-formed: uuids, an address that can be dialed, the number of workers.
[[nodiscard]] absl::Status check_node_info(const NodeInfo& node);

/// Applies the table above. ALREADY_EXISTS: another process of the node is alive; the claim may succeed when that
/// process has ended. FAILED_PRECONDITION: this process can never be accepted.
[[nodiscard]] absl::Status check_identity(const NodeInfo& newcomer, const NodeInfo& registered,
                                          const NodeStatus& status, TimeNs now, DurationNs suspect_after_ns);

/// RESOURCE_EXHAUSTED if the cluster, or the newcomer's host, already has its maximum of nodes.
[[nodiscard]] absl::Status check_room(const NodeInfo& newcomer, const ClusterState& state);

/// FAILED_PRECONDITION if another node's uuid has the same first eight bytes: data nodes tell each other apart by them.
[[nodiscard]] absl::Status check_unlike_others(const NodeInfo& newcomer, const ClusterState& state);

/// The addresses to ask before a claim that passed check_identity() is accepted. `registered` is null for a newcomer.
/// None for the registered process at its registered address: nobody else knows its instance. Otherwise the claim's
/// address, and also the registered address, if that is another one and the registered process did not say that it
/// stops.
[[nodiscard]] std::vector<std::string> addresses_to_ask(const NodeInfo& newcomer, const NodeInfo* registered,
                                                        const NodeStatus& status);

/// Judges the answers; `answers` has one for each of addresses_to_ask(). ALREADY_EXISTS: another process answers there;
/// the claim may succeed when that process has ended. UNAVAILABLE: nobody answers at the claimed address.
[[nodiscard]] absl::Status check_proof(const NodeInfo& newcomer, const NodeInfo* registered,
                                       const std::vector<ClaimAnswer>& answers);

/// An empty decision if the claim, which passed check_identity(), is proven. Else a refusal; if addresses must be asked
/// that the event has no answer from, Decision::ask names them.
[[nodiscard]] Decision judge_claim(const RegisterNode& event, const NodeInfo* registered, const NodeStatus& status);

/// OK if a message comes from the node's registered process. `registered` is null for an unknown node. NOT_FOUND: the
/// process must register. FAILED_PRECONDITION: another process has replaced it.
[[nodiscard]] absl::Status check_process(const NodeInfo* registered, const std::string& uuid, uint64_t incarnation,
                                         const std::string& instance, const std::string& cluster_id);

/// The node's name in messages: "node <uuid> (<address> on <host>, incarnation <n>)".
[[nodiscard]] std::string describe_node(const NodeInfo& node);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_IDENTITY_RULES_H_
