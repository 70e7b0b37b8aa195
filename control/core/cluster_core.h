// The control plane's decisions, without any I/O: an event and the time go in, a decision comes
// out.
//
//                    step(event, now)                          committed(changes)
//      event ──────────────────────────> Decision ──> store ──────────────────────> state
//      (register, heartbeat, leave,      { status,    (compare-and-swap on the
//       create table, drop table, tick)    changes }   map's revision)
//
// step() never changes what is durable: it proposes `Changes`, and the state moves only when the
// caller reports them committed. If the commit fails because another control process was faster,
// the caller reloads the state and asks again.
//
// A node's life, as far as this file knows it (soft state; none of it is stored):
//
//      register, heartbeat                   silence > suspect_after
//   ────────────────────────> kAlive ───────────────────────────────> kSuspected
//                              ^  │  heartbeat says "stopping"             │
//        heartbeat, register   │  └──────────────────────> kStopped        │
//                              └──────────────────────────────┴────────────┘
//   kUnknown: registered earlier, not heard of since this process started; suspected after the same silence
//
// A suspected node keeps its shards: with one replica there is nobody else who has the data. They
// are shown as unavailable and come back with the node. New tables are placed on live nodes only.
#ifndef SKUA_CONTROL_CORE_CLUSTER_CORE_H_
#define SKUA_CONTROL_CORE_CLUSTER_CORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "rpc/base/clock.h"

namespace skua::control {

enum class Liveness { kUnknown, kAlive, kSuspected, kStopped };

/// "unknown", "alive", "suspected" or "stopped".
[[nodiscard]] const char* liveness_name(Liveness liveness);

/// A node starts, or tells a restarted control plane that it is there.
struct RegisterNode {
  /// The cluster that the node's data directory belongs to; empty for a node that joins its first
  /// cluster.
  std::string cluster_id;
  NodeInfo node;
  uint64_t applied_revision = 0;
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
};

struct DropTable {
  std::string name;
};

/// Time has passed. Send it a few times per suspect_after_ns.
struct Tick {};

using Event = std::variant<RegisterNode, NodeHeartbeat, NodeLeave, CreateTable, DropTable, Tick>;

/// A node that was seen to come or go, for the log.
struct LivenessChange {
  std::string uuid;
  Liveness from = Liveness::kUnknown;
  Liveness to = Liveness::kUnknown;
};

struct Decision {
  /// Not OK: refused, with a message that says what to do; `changes` is then empty.
  absl::Status status;
  Changes changes;
  std::vector<LivenessChange> liveness_changes;
  /// The table that was created, found or dropped.
  std::optional<Table> table;
};

struct CoreOptions {
  /// A node that is silent for longer is suspected.
  DurationNs suspect_after_ns = 3 * kSecond;
};

/// What is known of a node beyond what is stored.
struct NodeStatus {
  Liveness liveness = Liveness::kUnknown;
  /// Time of the last sign of life, or of this process's start.
  TimeNs heard_ns = 0;
  uint64_t applied_revision = 0;
  /// As the node's last heartbeat said, at most kTroubleBytesMax of it.
  std::string trouble{};
};

/// Thread: none of its own; the caller's one thread.
class ClusterCore {
 public:
  ClusterCore(CoreOptions options, ClusterState state, TimeNs now);

  /// Decides about one event. Liveness changes at once; everything durable waits for committed().
  Decision step(const Event& event, TimeNs now);

  /// The proposed changes are in the store: makes them the state.
  void committed(const Changes& changes, TimeNs now);

  /// Another process changed the store: replaces the durable state, keeps what is known of nodes'
  /// lives.
  void reload(ClusterState state, TimeNs now);

  [[nodiscard]] const ClusterState& state() const { return state_; }

  /// Nothing for a node that is not registered.
  [[nodiscard]] std::optional<NodeStatus> node_status(const std::string& uuid) const;

  /// Owners of the table's shards that have not applied `revision` yet, sorted by uuid. Empty for
  /// an unknown table.
  [[nodiscard]] std::vector<std::string> lagging_owners(TableId table, uint64_t revision) const;

  /// Shards of the table whose primary is alive.
  [[nodiscard]] uint32_t available_shard_count(TableId table) const;

 private:
  Decision on(const RegisterNode& event, TimeNs now);
  Decision on(const NodeHeartbeat& event, TimeNs now);
  Decision on(const NodeLeave& event, TimeNs now);
  Decision on(const CreateTable& event, TimeNs now);
  Decision on(const DropTable& event, TimeNs now);
  Decision on(const Tick& event, TimeNs now);

  void note_alive(const std::string& uuid, uint64_t applied_revision, TimeNs now, Decision& decision);
  void set_liveness(const std::string& uuid, Liveness to, Decision& decision);
  void move_shards_off_missing_workers(const NodeInfo& node, Changes& changes) const;
  [[nodiscard]] absl::Status check_new_table(const CreateTable& event) const;
  [[nodiscard]] absl::Status no_live_nodes() const;
  /// A change that raises the map's revision; filled by the caller.
  [[nodiscard]] Changes next_changes() const;
  void match_status_to_state(TimeNs now);

  const CoreOptions options_;
  ClusterState state_;
  std::map<std::string, NodeStatus> status_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_CORE_H_
