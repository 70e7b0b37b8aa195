// Every bound of the control plane's state. Reaching one is a refusal that names it, never an
// abort.
#ifndef SKUA_CONTROL_CORE_CLUSTER_LIMITS_H_
#define SKUA_CONTROL_CORE_CLUSTER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::control {

/// Nodes whose addresses have the same host.
inline constexpr size_t kNodesPerHostMax = 128;
inline constexpr size_t kNodesMax = 1024;
inline constexpr uint32_t kWorkersPerNodeMax = 256;
inline constexpr size_t kTablesMax = 1024;
inline constexpr uint32_t kShardsPerTableMax = 4096;
inline constexpr uint32_t kReplicasMax = 5;
inline constexpr size_t kZoneMax = 64;
/// Shards that one report of a node may name.
inline constexpr size_t kReportShardsMax = 65'536;
/// All tables together: keeps the whole map, which is sent at every change, below a mebibyte or so.
inline constexpr size_t kShardsMax = 65'536;
inline constexpr size_t kTableNameMax = 128;
inline constexpr size_t kClusterNameMax = 128;
inline constexpr size_t kAddressMax = 256;
/// Of what a node says keeps it from doing its work; the rest is cut off.
inline constexpr size_t kTroubleBytesMax = 2048;
/// Of copies that a node makes, and of what it says about each.
inline constexpr size_t kCopiesShownMax = 16;
inline constexpr size_t kCopyTextMax = 200;
/// Of why a node cannot open a shard, and how many of a node's shards the status says it of.
inline constexpr size_t kUnservedWhyMax = 300;
inline constexpr size_t kUnservedWhysShownMax = 64;
/// Nodes of other clusters that are remembered because they asked here, and for how long.
inline constexpr size_t kStrangersMax = 16;
inline constexpr DurationNs kStrangersKeptNs = 60 * kSecond;
/// Silent for so long and without a shard: the status proposes to remove such a node.
inline constexpr DurationNs kForgottenNodeNs = 60 * kSecond;
/// Wall clocks that differ by more are spoken of. Values with a time to live expire by the clock of whoever is their
/// primary.
inline constexpr DurationNs kClockAheadMax = 5 * kSecond;
/// How far a claim's process and storage incarnation may be beyond what is known of the node, which counts one up at a
/// time: a claim with a number out of reach would bar the node itself for good.
inline constexpr uint64_t kIncarnationStepMax = 65'536;
/// Shards per live worker of a table created without a shard count.
inline constexpr uint32_t kDefaultShardsPerWorker = 2;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_LIMITS_H_
