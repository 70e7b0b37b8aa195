// What the control plane's core decides about.
#ifndef SKUA_CONTROL_CORE_EVENTS_H_
#define SKUA_CONTROL_CORE_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "control/core/cluster_state.h"
#include "control/core/node_status.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// What was found at an address when the control plane asked there who it is.
struct ClaimAnswer {
  std::string address;
  /// Somebody answered; `uuid` and `incarnation` are what it said.
  bool answered = false;
  std::string uuid{};
  uint64_t incarnation = 0;
  /// It said that it is another process than the claim's `instance`. Builds that do not say leave it false.
  bool other_instance = false;
  /// Why nobody answered, for people.
  std::string trouble{};
};

/// A node starts, or tells a restarted control plane that it is there.
struct RegisterNode {
  /// The cluster that the node's data directory belongs to; empty for a node that joins its first
  /// cluster.
  std::string cluster_id;
  NodeInfo node;
  uint64_t applied_revision = 0;
  /// What was found at the addresses that an earlier Decision::ask named.
  std::vector<ClaimAnswer> answers{};
};

struct NodeHeartbeat {
  std::string uuid;
  uint64_t incarnation = 0;
  std::string instance;
  /// The newest map whose shards the node serves.
  uint64_t applied_revision = 0;
  /// The node is shutting down and will not be heard of until it starts again.
  bool stopping = false;
  /// What keeps the node from doing all its work, for people; empty: nothing.
  std::string trouble{};
  /// Copies of shards that it is making.
  std::vector<CopyReport> copies{};
  /// Of its wall clock, before this process's.
  DurationNs clock_ahead_ns = 0;
  /// Shards that it cannot open, all of them.
  std::vector<ShardRef> unserved{};
};

/// Takes a node out of the cluster for good.
struct NodeLeave {
  std::string uuid;
  /// Set when the node itself asks; an operator leaves it empty and must have stopped the node.
  std::string instance;
  /// Give up the shards that the node owns, and their data.
  bool force = false;
};

struct CreateTable {
  std::string name;
  /// 0: kDefaultShardsPerWorker for each live worker.
  uint32_t shard_count = 0;
  /// An existing table of this name and shard count (or any, if shard_count is 0) is an answer, not
  /// an error.
  bool if_not_exists = false;
  /// 1 to kReplicasMax; 0: one, or whatever an existing table has.
  uint32_t replicas = 0;
  /// 1 to `replicas`; 0: more than half of them, or whatever an existing table has.
  uint32_t min_insync = 0;
  bool read_anywhere = false;
};

struct DropTable {
  std::string name;
};

/// A shard as a node knows it when it reports.
struct ShardAtEpoch {
  ShardKey shard;
  uint64_t epoch = 0;
};

/// A replica cannot work with another one: no heartbeats, no acknowledgements. A primary that accuses itself
/// cannot go on in this epoch.
struct Suspicion {
  std::string accused;
  /// Where both are members, or the accused is a learner.
  std::vector<ShardAtEpoch> shards;
  /// For people.
  std::string reason;
};

/// A learner follows its shard within a small gap. From the primary or from the learner itself.
struct CaughtUp {
  ShardAtEpoch shard;
  std::string learner;
};

/// While this attempt to join was set, the learner acknowledged everything there is. From the
/// primary.
struct JoinReady {
  ShardAtEpoch shard;
  std::string learner;
  uint64_t join = 0;
};

/// The sender's own replica, after a loss of power, may lack what it had acknowledged as written and not as
/// synced. It follows primaries, and leads nobody before one has told it that it has everything again. Repeated
/// until then (control/core/doubts.h).
struct Doubt {
  ShardAtEpoch shard;       ///< in the epoch that the replica knows
  uint64_t last_epoch = 0;  ///< of the last entry in its log
  uint64_t last_index = 0;
};

/// What a node's replicas noticed, all of it. Repeat it until the shard map shows that it was acted upon: nothing
/// of it is stored. A suspicion that the node's next report does not have is withdrawn.
struct ReplicaReport {
  std::string uuid;
  uint64_t incarnation = 0;
  std::string instance;
  std::vector<Suspicion> suspicions;
  std::vector<CaughtUp> caught_up;
  std::vector<JoinReady> join_ready;
  std::vector<Doubt> doubts{};

  [[nodiscard]] bool empty() const {
    return suspicions.empty() && caught_up.empty() && join_ready.empty() && doubts.empty();
  }
};

/// Makes the node empty, as far as others have room: leads no shard, then holds none. Lasts until
/// UndrainNode.
struct DrainNode {
  std::string uuid;
};

struct UndrainNode {
  std::string uuid;
};

/// Gives the replica on `from` to `to`, by way of a learner.
struct MoveShard {
  std::string table;
  uint32_t shard = 0;
  std::string from;
  std::string to;
};

/// Makes another live member the primary.
struct TransferPrimary {
  std::string table;
  uint32_t shard = 0;
  std::string to;
};

/// Goes on with what `node` has of a shard that no valid live member can serve. Acknowledged writes
/// may be lost.
struct ForceRecover {
  std::string table;
  uint32_t shard = 0;
  std::string node;
};

/// Time has passed. Send it a few times per suspect_after_ns.
struct Tick {};

using Event = std::variant<RegisterNode, NodeHeartbeat, NodeLeave, CreateTable, DropTable, ReplicaReport, DrainNode,
                           UndrainNode, MoveShard, TransferPrimary, ForceRecover, Tick>;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_EVENTS_H_
