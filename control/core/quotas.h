// Quotas: how much of each storage node one client may use, so that a client that asks for too much slows itself down
// and not the others.
//
// A quota names a client by the role and name in its certificates ("client/app-7"). All programs with such a
// certificate share the quota. It limits any of these, at each storage node:
//
//   operations_per_s   requests that the node reads, whatever their answer; each further key of a MULTI_GET and each
//                      further operation of a BATCH counts like a request
//   bytes_per_s        bytes of requests and of replies
//   sessions           sessions that stand at the same time
//   client_ids         numbers under which writes were sent to a worker within a minute. Each object of the client
//                      library has its own. A shard keeps the results of each for repetitions, and has no room for new
//                      ones if too many come within a minute (kvstore/completions)
//
//   skuactl quota set      SetQuota --> Changes::put_quotas --> store (skua/quotas) --> ClusterState::quotas
//                                                                                              |
//           +------------------------------ shard map, next revision (ShardMap::quotas) -------+
//           v
//   each storage node: compiles them for its workers (kvstore/service/quotas.h). A worker knows the identity that
//   opened a session. It counts the session's requests and replies in that identity's token buckets, and refuses a
//   request while a bucket is empty (RESOURCE_EXHAUSTED): the request was not executed, and clients try again after a
//   pause.
//
// A limit is that of each node, and not of the cluster: nodes do not tell each other what they have counted, so no
// request waits for another node. Likewise each of a node's workers has its share of the rates, and no lock. So a
// client gets the whole rate only if its keys are spread over all workers of all nodes, as they are by hash.
//
// Like grants (grants.h), quotas are durable and travel with the map. A node that the new map does not reach goes on
// with the quotas that it has.
//
// The rules here:
//   - Only identities of the role client have quotas. Nodes have none, because shards would lose their replicas, and
//     administrators have none, because they must be able to mend things.
//   - A quota is set as a whole: what the new one does not limit is not limited. It limits something.
//   - Names are checked where a call arrives. So is whether the cluster has certificates: without them sessions have no
//     identity, and nobody is limited.
//   - There are kQuotasMax quotas at most.
#ifndef SKUA_CONTROL_CORE_QUOTAS_H_
#define SKUA_CONTROL_CORE_QUOTAS_H_

#include <string>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"

namespace skua::control {

/// "1000 operations/s, 4 sessions".
[[nodiscard]] std::string quota_text(const Quota& quota);

/// OK: the client can have this quota. INVALID_ARGUMENT: no client's identity, too long, nothing is limited, or a limit
/// is beyond its bound.
[[nodiscard]] absl::Status check_quota(const std::string& principal, const Quota& quota);

/// INVALID_ARGUMENT: check_quota(). RESOURCE_EXHAUSTED: there are kQuotasMax quotas.
[[nodiscard]] Decision decide(const SetQuota& event, const ClusterState& state);

/// NOT_FOUND: the client has no quota.
[[nodiscard]] Decision decide(const RemoveQuota& event, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_QUOTAS_H_
