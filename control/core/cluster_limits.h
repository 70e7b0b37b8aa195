// All bounds of the control plane's state. A request that would exceed a bound is refused with a message that names the
// bound; the process never aborts for it.
#ifndef SKUA_CONTROL_CORE_CLUSTER_LIMITS_H_
#define SKUA_CONTROL_CORE_CLUSTER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::control {

/// Nodes with the same host in their addresses.
inline constexpr size_t kNodesPerHostMax = 128;
inline constexpr size_t kNodesMax = 1024;
inline constexpr uint32_t kWorkersPerNodeMax = 256;
inline constexpr size_t kTablesMax = 1024;
inline constexpr uint32_t kShardsPerTableMax = 4096;
inline constexpr uint32_t kReplicasMax = 5;
inline constexpr size_t kZoneMax = 64;
/// Shards that one report of a node may name.
inline constexpr size_t kReportShardsMax = 65'536;
/// Shards of all tables together. Keeps the whole map, which is sent at every change, below about a mebibyte.
inline constexpr size_t kShardsMax = 65'536;
inline constexpr size_t kTableNameMax = 128;
inline constexpr size_t kClusterNameMax = 128;
/// Shards that one change moves off a node, or takes from one that is removed: a store's transaction has a limit, and a
/// node may have a part in all shards.
inline constexpr size_t kShardsPerChangeMax = 2048;
/// Revoked identities, and bytes of each one's role and name. The list is sent with each map.
inline constexpr size_t kDeniedMax = 1024;
inline constexpr size_t kPrincipalMax = 160;
/// Grants of all tables together: one for each client and table (grants.h). They are sent with each map, too.
inline constexpr size_t kGrantsMax = 4096;
/// Clients with quotas (quotas.h). They are sent with each map, too.
inline constexpr size_t kQuotasMax = 1024;
/// The highest limits of a quota: of operations or bytes a second, of sessions, and of client ids (a shard keeps no
/// more clients).
inline constexpr uint64_t kQuotaOperationsMax = 1'000'000'000;
inline constexpr uint64_t kQuotaBytesMax = uint64_t{1} << 40;
inline constexpr uint32_t kQuotaSessionsMax = 65'536;
inline constexpr uint32_t kQuotaClientIdsMax = 65'536;
/// Join tokens that are good or were used and have not expired, and how long one may be good.
inline constexpr size_t kJoinTokensMax = 256;
inline constexpr int64_t kJoinTokenSecondsMax = 7 * 86'400;
inline constexpr size_t kAddressMax = 256;
/// Bytes of a node's trouble text (what keeps it from doing its work); the rest is cut off.
inline constexpr size_t kTroubleBytesMax = 2048;
/// Copies of a node that are shown, and bytes of each one's text.
inline constexpr size_t kCopiesShownMax = 16;
inline constexpr size_t kCopyTextMax = 200;
/// Bytes of the reason why a node cannot open a shard, and shards of a node whose reason is shown.
inline constexpr size_t kUnservedWhyMax = 300;
inline constexpr size_t kUnservedWhysShownMax = 64;
/// How many nodes of other clusters that tried to register here are remembered, and for how long.
inline constexpr size_t kStrangersMax = 16;
inline constexpr DurationNs kStrangersKeptNs = 60 * kSecond;
/// The status proposes to remove a node that has been silent for this long and has no shard.
inline constexpr DurationNs kForgottenNodeNs = 60 * kSecond;
/// The status reports wall clocks that differ by more. They matter because a value with a time to live expires by the
/// clock of its shard's primary.
inline constexpr DurationNs kClockAheadMax = 5 * kSecond;
/// How far a claim's process and storage incarnation may exceed the node's known ones. A node counts them up by one, so
/// if a much higher number were accepted from a false claim, the node itself could never register again.
inline constexpr uint64_t kIncarnationStepMax = 65'536;
/// Shards per live worker, for a table created without a shard count.
inline constexpr uint32_t kDefaultShardsPerWorker = 2;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_LIMITS_H_
