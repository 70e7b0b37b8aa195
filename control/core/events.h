// The events that the control plane's core decides about.
#ifndef SKUA_CONTROL_CORE_EVENTS_H_
#define SKUA_CONTROL_CORE_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "control/core/cluster_state.h"
#include "control/core/node_status.h"
#include "control/core/program_security.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// The answer from an address at which the control plane asked which node is there.
struct ClaimAnswer {
  std::string address;
  /// Somebody answered; `uuid` and `incarnation` are what it said.
  bool answered = false;
  std::string uuid{};
  uint64_t incarnation = 0;
  /// The answer says that its process is not the claim's `instance`. False for builds that do not answer this.
  bool other_instance = false;
  /// Why nobody answered, for people.
  std::string trouble{};
};

/// A node has started, or tells a restarted control plane that it is there.
struct RegisterNode {
  /// The cluster that the node's data directory belongs to; empty for a node that joins its first
  /// cluster.
  std::string cluster_id;
  NodeInfo node;
  uint64_t applied_revision = 0;
  /// The answers from the addresses that an earlier Decision::ask named.
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
  /// Copies of shards that the node is making.
  std::vector<CopyReport> copies{};
  /// How much the node's wall clock is ahead of this process's.
  DurationNs clock_ahead_ns = 0;
  /// All shards that the node cannot open.
  std::vector<ShardRef> unserved{};
  ProgramSecurity security{};
  /// The node stops soon: other members shall lead the shards that it leads.
  bool yielding = false;
};

/// Takes a node out of the cluster for good.
struct NodeLeave {
  std::string uuid;
  /// Set if the node itself asks. An operator leaves it empty, and must have stopped the node before.
  std::string instance;
  /// Give up the shards that the node owns, with their data.
  bool force = false;
};

struct CreateTable {
  std::string name;
  /// 0: kDefaultShardsPerWorker for each live worker.
  uint32_t shard_count = 0;
  /// An existing table of this name is not an error if it agrees with the values that are not 0 here.
  bool if_not_exists = false;
  /// 1 to kReplicasMax; 0: one, or the existing table's value.
  uint32_t replicas = 0;
  /// 1 to `replicas`; 0: more than half of them, or the existing table's value.
  uint32_t min_insync = 0;
  bool read_anywhere = false;
  bool hash_tags = false;
};

struct DropTable {
  std::string name;
};

/// A shard and the epoch that the reporting node knows.
struct ShardAtEpoch {
  ShardKey shard;
  uint64_t epoch = 0;
};

/// A replica cannot work with another one: heartbeats or acknowledgements are missing. A primary that accuses itself
/// cannot go on in this epoch.
struct Suspicion {
  std::string accused;
  /// The shards in which both are members, or the accused is a learner.
  std::vector<ShardAtEpoch> shards;
  /// For people.
  std::string reason;
};

/// A learner follows its shard with a small lag. Sent by the primary or by the learner itself.
struct CaughtUp {
  ShardAtEpoch shard;
  std::string learner;
};

/// During this attempt to join the learner has acknowledged everything that it needs to be a member. Sent by the
/// primary.
struct JoinReady {
  ShardAtEpoch shard;
  std::string learner;
  uint64_t join = 0;
};

/// After a power cut the sender's own replica may lack entries that it had acknowledged as written but not as synced.
/// It follows primaries, and must not lead until a primary says that it has everything again. Repeated until then
/// (control/core/doubts.h).
struct Doubt {
  ShardAtEpoch shard;       ///< with the epoch that the replica knows
  uint64_t last_epoch = 0;  ///< epoch of the last entry in its log
  uint64_t last_index = 0;  ///< index of that entry
};

/// Everything that a node's replicas have to report. The node repeats it until the shard map shows the result, because
/// reports are not stored. A suspicion that is missing in the node's next report is withdrawn.
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

/// Makes the node empty, as far as other nodes have room: first it leads no shard any more, then it holds none. Lasts
/// until UndrainNode.
struct DrainNode {
  std::string uuid;
};

struct UndrainNode {
  std::string uuid;
};

/// Moves the replica on `from` to `to`: `to` first becomes a learner.
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

/// For a shard that no valid live member can serve: goes on with the data that `node` has. Acknowledged writes may be
/// lost.
struct ForceRecover {
  std::string table;
  uint32_t shard = 0;
  std::string node;
};

/// Lets an identity ("client/app-7") in no longer: revocation.h. One that is revoked already is no error.
struct RevokeIdentity {
  std::string principal;
};

/// Takes an identity off the list.
struct UnrevokeIdentity {
  std::string principal;
};

/// Gives a client ("client/app-7") rights to a table: grants.h. Rights that it has already are no error.
struct AddGrant {
  std::string principal;
  std::string table;
  Rights rights = 0;
};

/// Takes rights to a table from a client.
struct RemoveGrant {
  std::string principal;
  std::string table;
  Rights rights = 0;
  /// The table may be left without grants, which opens it to all clients.
  bool open_to_all = false;
};

/// Limits how much of each node a client may use: quotas.h. The quota replaces one that the client has.
struct SetQuota {
  std::string principal;
  Quota quota;
};

struct RemoveQuota {
  std::string principal;
};

/// Lets whoever has a secret get one certificate: join_tokens.h.
struct AddJoinToken {
  std::string secret_hash;  ///< SHA-256, hexadecimal
  std::string principal;
  int64_t expires_s = 0;  ///< seconds since 1970, as all times of join tokens
  int64_t now_s = 0;
};

/// Somebody shows a secret, and wants the certificate that goes with it for a key.
struct UseJoinToken {
  std::string secret_hash;
  std::string key_hash;     ///< SHA-256 of the public key, hexadecimal
  std::string wanted_role;  ///< what the joiner is; empty: whatever the token is for
  std::string wanted_name;  ///< likewise
  int64_t now_s = 0;
};

/// Takes a token back.
struct RemoveJoinToken {
  std::string token_id;  ///< join_token_id()
  int64_t now_s = 0;
};

/// Time has passed. Send it a few times per suspect_after_ns.
struct Tick {};

using Event =
    std::variant<RegisterNode, NodeHeartbeat, NodeLeave, CreateTable, DropTable, ReplicaReport, DrainNode, UndrainNode,
                 MoveShard, TransferPrimary, ForceRecover, RevokeIdentity, UnrevokeIdentity, AddGrant, RemoveGrant,
                 SetQuota, RemoveQuota, AddJoinToken, UseJoinToken, RemoveJoinToken, Tick>;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_EVENTS_H_
