// The control plane's decisions, without any I/O: the input is an event and the time, the output is a decision.
//
//                    step(event, now)                          committed(changes)
//      event ──────────────────────────> Decision ──> store ──────────────────────> state
//      (events.h)                        { status,    (compare-and-swap on the
//                                          changes }   map's revision)
//
// Tick and ReplicaReport propose the next steps for shards' views, in batches. When a Tick's changes have been
// committed, step with another Tick at once, until one proposes nothing.
//
// step() never changes the durable state: it proposes `Changes`, and the state changes only when the caller reports
// them committed. If the commit fails because another control process was faster, the caller reloads the state and asks
// again.
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
// Silence towards the control plane alone moves no shard: the node may still serve. Shards move when their replicas
// accuse each other (ReplicaReport) or when an operator asks; control/core/view_manager.h has the rules. A shard with
// one replica stays with its node. It is shown as unavailable while the node is silent, and is served again when the
// node is back. New tables are placed on live nodes only.
#ifndef SKUA_CONTROL_CORE_CLUSTER_CORE_H_
#define SKUA_CONTROL_CORE_CLUSTER_CORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/cluster_state.h"
#include "control/core/events.h"
#include "control/core/node_status.h"
#include "control/core/strangers.h"
#include "control/core/view_manager.h"
#include "rpc/base/clock.h"

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
};

struct CoreOptions {
  /// A node that is silent for longer is suspected.
  DurationNs suspect_after_ns = 3 * kSecond;
  ViewOptions views = {};
  /// Claims are proven at their addresses before they are accepted. If off, claims are accepted without proof: for
  /// simulations, in which nobody can be asked.
  bool claims_need_proof = false;
};

/// Thread: one at a time.
class ClusterCore {
 public:
  ClusterCore(CoreOptions options, ClusterState state, TimeNs now);

  /// Decides about one event. Liveness changes at once; everything durable waits for committed().
  Decision step(const Event& event, TimeNs now);

  /// The proposed changes are in the store: makes them the state.
  void committed(const Changes& changes, TimeNs now);

  /// Another process changed the store: replaces the durable state and keeps the nodes' liveness.
  void reload(ClusterState state, TimeNs now);

  [[nodiscard]] const ClusterState& state() const { return state_; }

  /// The node's status; nothing if it is not registered.
  [[nodiscard]] std::optional<NodeStatus> node_status(const std::string& uuid) const;

  /// Members of the table's shards that have not applied `revision` yet or cannot serve a shard, sorted by uuid. Empty
  /// for an unknown table.
  [[nodiscard]] std::vector<std::string> lagging_owners(TableId table, uint64_t revision) const;

  /// Number of the table's shards whose primary is alive and serves its data.
  [[nodiscard]] uint32_t available_shard_count(TableId table) const;

  /// Number of the table's shards that are settled: is_settled() in view_manager.h.
  [[nodiscard]] uint32_t settled_shard_count(TableId table) const;

  /// One line for each shard that nobody serves: which shard, why, what to do. At most `max` lines.
  [[nodiscard]] std::vector<std::string> shard_troubles(size_t max) const;

  /// One line for each other cluster whose nodes try to register here.
  [[nodiscard]] std::vector<std::string> stranger_troubles() const { return strangers_.troubles(state_, newest_); }

  /// Optional work for an operator: one line for each node that is gone and holds nothing. At most `max` lines.
  [[nodiscard]] std::vector<std::string> hints(size_t max) const;

  /// What keeps a draining node from being empty; "" if nothing does or the node is not draining.
  [[nodiscard]] std::string drain_progress(const std::string& uuid) const;

 private:
  Decision on(const RegisterNode& event, TimeNs now);
  Decision on(const NodeHeartbeat& event, TimeNs now);
  Decision on(const NodeLeave& event, TimeNs now);
  Decision on(const CreateTable& event, TimeNs now);
  Decision on(const DropTable& event, TimeNs now);
  Decision on(const ReplicaReport& event, TimeNs now);
  Decision on(const DrainNode& event, TimeNs now);
  Decision on(const UndrainNode& event, TimeNs now);
  Decision on(const MoveShard& event, TimeNs now);
  Decision on(const TransferPrimary& event, TimeNs now);
  Decision on(const ForceRecover& event, TimeNs now);
  Decision on(const RevokeIdentity& event, TimeNs now);
  Decision on(const UnrevokeIdentity& event, TimeNs now);
  Decision on(const AddGrant& event, TimeNs now);
  Decision on(const RemoveGrant& event, TimeNs now);
  Decision on(const SetQuota& event, TimeNs now);
  Decision on(const RemoveQuota& event, TimeNs now);
  Decision on(const AddJoinToken& event, TimeNs now);
  Decision on(const UseJoinToken& event, TimeNs now);
  Decision on(const RemoveJoinToken& event, TimeNs now);
  Decision on(const Tick& event, TimeNs now);

  /// An empty decision if the claim may be accepted; else a refusal, which may name addresses that must be asked first.
  [[nodiscard]] Decision judge_claim(const RegisterNode& event) const;
  void note_alive(const std::string& uuid, uint64_t applied_revision, TimeNs now, Decision& decision);
  void note_unserved(const NodeHeartbeat& event);
  void set_liveness(const std::string& uuid, Liveness to, Decision& decision);
  void move_shards_off_missing_workers(const NodeInfo& node, Changes& changes) const;
  /// OK if the message comes from the registered process of that node.
  [[nodiscard]] absl::Status check_process(const std::string& uuid, uint64_t incarnation,
                                           const std::string& instance) const;
  [[nodiscard]] absl::Status no_such_node(const std::string& uuid) const;
  [[nodiscard]] absl::Status no_such_table(const std::string& name) const;
  Decision set_draining(const std::string& uuid, bool draining);
  /// The shard's record, or the error that says why there is none.
  [[nodiscard]] absl::StatusOr<ShardAssignment> find_shard(const std::string& table, uint32_t shard) const;
  [[nodiscard]] ViewContext context(TimeNs now) const {
    return {state_, status_, options_.views, now, &views_.doubts()};
  }
  /// Adds the view manager's next steps to `decision`.
  void plan_views(TimeNs now, Decision& decision);
  /// A decision that changes this record.
  [[nodiscard]] Decision changed(ShardAssignment record) const;
  [[nodiscard]] absl::Status check_new_table(const CreateTable& event) const;
  [[nodiscard]] absl::Status no_live_nodes() const;
  /// A change that raises the map's revision; filled by the caller.
  [[nodiscard]] Changes next_changes() const;
  void match_status_to_state(TimeNs now);

  const CoreOptions options_;
  ClusterState state_;
  NodeStatuses status_;
  ViewManager views_;
  Strangers strangers_;
  /// The newest time seen, for calls without a time argument.
  TimeNs newest_ = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_CORE_H_
