// Keeps a storage node in the cluster: registers it, sends heartbeats, registers again after a
// control plane restart.
//
//              refused for good ──> on_refused, end
//                 │
//   Register ─────┼── OK ──> on_registered ──> Heartbeat every interval ──┬── OK: again
//      ^          │                              ^                        ├── cannot be reached: again, for ever
//      ├── cannot be reached: back off           └────────────────────────┤
//      └──────────────────────────────── "register again" <───────────────┤
//                                                                         └── replaced by a newer process ──> on_refused, end
//
// The node goes on serving whatever happens here; only on_refused tells it to stop: then another
// process has its identity, or it must not be part of this cluster.
#ifndef SKUA_CONTROL_CLIENT_NODE_AGENT_H_
#define SKUA_CONTROL_CLIENT_NODE_AGENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/cluster_state.h"
#include "control/core/events.h"
#include "control/core/node_status.h"
#include "control/core/program_security.h"
#include "control/security/credentials.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// What the control plane said to a successful registration.
struct Registration {
  /// A node that had none must store it in its data directory.
  std::string cluster_id;
  std::string cluster_name;
  uint32_t protocol_version = 0;
  uint64_t map_revision = 0;
};

struct NodeAgentOptions {
  /// "host:port" of skua-control; of several, with commas between them.
  std::string control_address;
  /// What to show it; null: nothing, without TLS.
  CredentialsPtr credentials = nullptr;
  /// The cluster that the data directory belongs to; empty for a node that joins its first.
  std::string cluster_id = "";
  /// `instance` must be a fresh random UUID in each process.
  NodeInfo node;
  /// Whom the node lets in.
  ProgramSecurity security{};
  /// How long to go on when another live process has the identity: a predecessor that was killed
  /// looks alive until its heartbeats are missed.
  DurationNs duplicate_grace_ns = 5 * kSecond;
  DurationNs call_timeout_ns = 2 * kSecond;
  /// Between two heartbeats while the node yields.
  DurationNs yield_interval_ns = 50 * kMillisecond;
  /// A goodbye that takes longer is given up: silence says the same a little later.
  DurationNs goodbye_timeout_ns = 500 * kMillisecond;
  /// Registered, for the first time or again; of registrations that come while it runs it is told the last. It may take
  /// as long as it needs, because it has a thread of its own: heartbeats go on meanwhile. stop() waits for it. The
  /// other callbacks run on the agent's thread. Each may be empty, none may call stop().
  std::function<void(const Registration&)> on_registered = nullptr;
  /// Final: the node must stop. Not called if stop() came first.
  std::function<void(const absl::Status&)> on_refused = nullptr;
  /// The control plane cannot be reached or has a problem; once per change of the reason, OK when
  /// it is over.
  std::function<void(const absl::Status&)> on_trouble = nullptr;
  /// Its wall clock and the control plane's differ by much, and what to do; once per change, empty when it is over.
  std::function<void(const std::string&)> on_clock = nullptr;
  /// The shard map's revision, after each heartbeat. Not before on_registered has returned for the first time.
  std::function<void(uint64_t)> on_map_revision = nullptr;
};

/// Thread: any, for all methods.
class NodeAgent {
 public:
  explicit NodeAgent(NodeAgentOptions options);
  /// stop().
  ~NodeAgent();
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  /// Starts the agent's thread. Once.
  void start();

  /// Waits for the first registration. The refusal's status if refused; DEADLINE_EXCEEDED with the
  /// last trouble; CANCELLED after stop().
  absl::StatusOr<Registration> wait_registered(DurationNs timeout_ns) const;

  /// The node serves all its shards of this map. Goes out with a heartbeat at once.
  void set_applied_revision(uint64_t revision);

  /// What keeps the node from doing all its work, for people; empty: nothing. Goes out with every heartbeat, and at
  /// once when it changes. Thread: any.
  void set_trouble(const std::string& trouble);

  /// Shards that the map gives to this node and whose data it cannot open, all of them; replaces what was said before.
  /// Goes out with every heartbeat, and at once when it changes: the control plane then takes the node for one that
  /// does not serve them. Thread: any.
  void set_unserved(std::vector<ShardRef> unserved);

  /// Copies of shards that the node is making, all of them. Go out with every heartbeat.
  void set_copies(std::vector<CopyReport> copies);

  /// What the node's replicas notice of others, all of it; replaces what was said before, here and in the control
  /// plane. Goes out at once and again with every heartbeat. An empty report takes everything back, and goes out until
  /// the control plane has heard it. The node's identity is filled in here. Acting on it is the control plane's: watch
  /// the shard map.
  void set_findings(ReplicaReport findings);

  /// Asks the control plane to have other members lead the shards that this node leads, because it stops soon, and
  /// waits until they do. The node goes on meanwhile. The number of shards that it led, or: UNAVAILABLE, because the
  /// control plane cannot be reached or does not know the node now; DEADLINE_EXCEEDED; CANCELLED after stop(). Shards
  /// that no other member can lead now are not waited for. A control plane of an older build hands over nothing: 0.
  absl::StatusOr<size_t> yield(DurationNs limit_ns);

  /// Takes the node out of the cluster for good and ends the agent. FAILED_PRECONDITION while it
  /// owns shards, unless `force`, which gives their data up; then the agent goes on.
  absl::Status leave(bool force);

  /// Tells the control plane that the node stops (one short try), ends the thread. Idempotent.
  void stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_NODE_AGENT_H_
