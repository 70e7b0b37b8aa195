// The control plane's decisions, without any I/O: the input is an event and the time, the output is a decision.
//
//                    step(event, now)                          committed(changes)
//      event ──────────────────────────> Decision ──> store ──────────────────────> state
//      (events.h)                        { status,    (compare-and-swap on the
//                                          changes }   map's revision)
//
// The core itself knows who is alive and what nodes reported. Decisions that only read this (decision.h has the list)
// and what the status shows of it (cluster_progress.h) are functions of their own.
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
//                              │  └──────────────────────> kStopped        │ heartbeat, register
//                              │            register          │            │
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
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"
#include "control/core/node_status.h"
#include "control/core/strangers.h"
#include "control/core/view_context.h"
#include "control/core/view_manager.h"
#include "control/core/view_options.h"
#include "rpc/base/clock.h"

namespace skua::control {

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

  /// Decides about one event. Liveness changes at once, but for a process that registers; that, and everything durable,
  /// waits for committed().
  Decision step(const Event& event, TimeNs now);

  /// The proposed changes are in the store: makes them the state. A process that registered by them is alive from now
  /// on; that is what it returns.
  std::vector<LivenessChange> committed(const Changes& changes, TimeNs now);

  /// Another process changed the store: replaces the durable state and keeps the nodes' liveness.
  void reload(ClusterState state, TimeNs now);

  [[nodiscard]] const ClusterState& state() const { return state_; }

  /// What the functions of cluster_progress.h look at, at the newest time seen. Refers to the core: use it before the
  /// core changes.
  [[nodiscard]] ViewContext context() const { return context(newest_); }

  /// The node's status; nothing if it is not registered.
  [[nodiscard]] std::optional<NodeStatus> node_status(const std::string& uuid) const;

  /// One line for each other cluster whose nodes try to register here.
  [[nodiscard]] std::vector<std::string> stranger_troubles() const { return strangers_.troubles(state_, newest_); }

 private:
  Decision on(const RegisterNode& event, TimeNs now);
  Decision on(const NodeHeartbeat& event, TimeNs now);
  Decision on(const ReplicaReport& event, TimeNs now);
  Decision on(const Tick& event, TimeNs now);
  /// The other events: decide() of the state, or of the context if the decision depends on who is alive.
  template <typename ReadingEvent>
  Decision on(const ReadingEvent& event, TimeNs now) const;

  void note_alive(const std::string& uuid, uint64_t applied_revision, TimeNs now, std::vector<LivenessChange>& changed);
  void note_registered(const RegisteredProcess& process, TimeNs now, std::vector<LivenessChange>& changed);
  void note_unserved(const NodeHeartbeat& event);
  void set_liveness(const std::string& uuid, Liveness to, std::vector<LivenessChange>& changed);
  /// Null if the node is not registered.
  [[nodiscard]] const NodeInfo* find_node(const std::string& uuid) const;
  /// OK if the message comes from the registered process of that node.
  [[nodiscard]] absl::Status check_process(const std::string& uuid, uint64_t incarnation,
                                           const std::string& instance) const;
  /// OK unless the node has said goodbye and not registered since.
  [[nodiscard]] absl::Status check_not_stopped(const std::string& uuid) const;
  [[nodiscard]] ViewContext context(TimeNs now) const {
    return {state_, status_, options_.views, now, &views_.doubts()};
  }
  /// Adds the view manager's next steps to `decision`.
  void plan_views(TimeNs now, Decision& decision);
  /// Nodes that are new in the state get a status, those that are gone lose it, and revoked ones are not alive.
  void match_status_to_state(TimeNs now);

  const CoreOptions options_;
  ClusterState state_;
  NodeStatuses status_;
  ViewManager views_;
  Strangers strangers_;
  /// The newest time seen, for context().
  TimeNs newest_ = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_CORE_H_
