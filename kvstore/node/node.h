// Node: skuad without its main(). It consists of workers, storage, a gRPC server and the node's part in the cluster.
//
//   gRPC threads --- Bootstrap, Admin ---+            +--- worker 0 --- log thread 0, applier 0
//   NodeAgent's  --- register, heartbeat |            +--- worker 1 --- log thread 1, applier 1
//   map cache's  --- shard map ----> shard manager ---+        |
//                                        |                 reader pool (shared)
//                                        +--- opens, closes, deletes --- RocksDB engine (shared)
//
// Starting. The data directory says which cluster the node belongs to. If it names a cluster, the workers listen at
// once. Otherwise the node registers first, and starts its workers when it knows its cluster. Heartbeats continue
// meanwhile. Before workers start, the content of their logs is applied to the databases (recovery.h). The node serves
// shards as soon as it has its first shard map. If the control plane is unreachable, the node waits for it. A node that
// serves already goes on serving without the control plane.
//
// If the disk has no room to apply the logs, the node removes the logs' spare files. If that is not enough, the node
// registers, tells the control plane what is wrong and that it serves no shard, and tries again every kReopenPauseNs.
//
// Stopping. The order follows the dependencies between the parts (stop()):
//   1. gRPC server       accepts no new sessions
//   2. agent, map cache  take no new shard maps; the control plane is told that the node stops
//   3. shard manager     opens and closes no more shards
//   4. workers drain     new requests are refused (WRONG_SHARD, not executed); accepted ones are answered; copies end
//   5. engines stop      committed writes are applied and flushed; logs are closed
//   6. reader pool       ends: no reads are left
//   7. workers stop      last answers are sent; endpoints and transports end
//   8. databases close
//
// The parts of the class:
//    node.cc              starts, connects and stops what a node consists of
//    node_membership.cc   the node's part in the cluster: registration, shard maps, what the control plane is told
//    node_health.cc       what the node says of itself: counters, whether it lives and may get work
//
// What is done to the data directory before the workers start is NodeRecovery, copies of shards are NodeCopies.
#ifndef SKUA_KVSTORE_NODE_NODE_H_
#define SKUA_KVSTORE_NODE_NODE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/client/node_agent.h"
#include "control/client/shard_map_cache.h"
#include "control/server/bootstrap_server.h"
#include "kvstore/node/client_rules.h"
#include "kvstore/node/memory_watch.h"
#include "kvstore/node/node_copies.h"
#include "kvstore/node/node_options.h"
#include "kvstore/node/node_recovery.h"
#include "kvstore/node/replica_findings.h"
#include "kvstore/node/shard_manager.h"
#include "kvstore/node/storage_watch.h"
#include "kvstore/node/worker_poll.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/snapshot/snapshot_source.h"
#include "kvstore/worker/worker.h"
#include "rpc/base/health_check.h"
#include "rpc/base/hosted_loop.h"

namespace skua::kv {

/// Thread: start() and stop() on one thread; the other methods on any thread.
class Node final : private control::SessionAcceptor {
 public:
  ~Node() override { stop(); }

  /// Starts the node. It listens on its addresses and continues in the background, even while the control plane is
  /// unreachable. Errors name what was tried and the way out: ALREADY_EXISTS (a port is in use), FAILED_PRECONDITION
  /// (newer format), INVALID_ARGUMENT, INTERNAL.
  static absl::StatusOr<std::unique_ptr<Node>> start(NodeOptions options);

  /// Has other nodes lead the shards that this one leads, before it stops, and waits for that. The node serves
  /// meanwhile. The number of shards, or why not all were handed over (NodeAgent::yield()).
  [[nodiscard]] absl::StatusOr<size_t> yield(DurationNs limit_ns) { return agent_->yield(limit_ns); }

  /// Whether there are workers: not before the node knows its cluster, and has room for what its logs hold.
  [[nodiscard]] bool has_workers() { return !workers().empty(); }
  /// Runs `loop` on the thread of a worker (Worker::host()). The loop must end before stop(). UNAVAILABLE: there are no
  /// workers yet, or they are stopping.
  [[nodiscard]] absl::StatusOr<std::future<void>> host(uint32_t worker, HostedLoop& loop);

  /// Drains the workers and ends all threads. Idempotent. The destructor calls it.
  void stop();

  /// Address under which others reach the gRPC server.
  [[nodiscard]] const std::string& grpc_address() const { return advertised_address_; }
  /// +1 at each start.
  [[nodiscard]] uint64_t incarnation() const { return incarnation_; }
  /// Revision of the newest shard map whose shards are all served here. 0: none yet.
  [[nodiscard]] uint64_t applied_revision() const { return applied_revision_.load(); }
  /// The workers' counters in Prometheus' text format. Waits for the workers, for kWorkerAnswerTimeoutNs at most.
  /// skua_worker_up says which of them answered; the others' counters are left out.
  [[nodiscard]] std::string metrics();
  /// Whether the node may get work: it is registered, has applied its map, opens all its shards, and none of its
  /// replicas is catching up. Waits for nothing.
  [[nodiscard]] std::vector<HealthCheck> readiness();
  /// Whether all workers answer. Waits for them, for kWorkerAnswerTimeoutNs at most. A node that has no workers yet is
  /// alive.
  [[nodiscard]] bool is_alive() { return poll_workers().silent.empty(); }

 private:
  explicit Node(NodeOptions options) : options_(std::move(options)), readers_({.threads = options_.reader_threads}) {}

  // SessionAcceptor, on gRPC's threads.
  control::NodeDescription describe() override;
  std::optional<bool> is_instance(const std::string& instance) override { return instance == options_.instance; }
  absl::StatusOr<std::string> open_session(uint32_t worker, const control::TransportDescriptor& caller,
                                           const std::string& offer, const control::SessionCaller& who) override;

  absl::Status start_parts();
  absl::Status make_transports(const std::string& cluster_id);
  [[nodiscard]] absl::StatusOr<SnapshotSource::Exported> export_snapshot(ShardId id, const std::string& path);
  absl::StatusOr<Recovered> recover_when_there_is_room(const std::string& cluster_id);
  void note_no_room(const absl::Status& why);
  void tell_no_room();
  absl::Status start_workers(const std::string& cluster_id, Recovered recovered);
  void watch_storage(std::vector<Worker*> workers);
  void tell_storage(const std::string& trouble, const std::map<ShardId, UnservedShard>& unserved);
  [[nodiscard]] ReplicationEvents replication_events(uint32_t worker);
  void make_map_cache(const std::string& cluster_id);
  void take_map(std::shared_ptr<const control::ShardMap> map);
  void follow_rules(const control::ShardMap& map);
  [[nodiscard]] std::vector<Worker*> workers();
  [[nodiscard]] WorkerAnswers poll_workers();
  void note_map(const control::ShardMap& map);
  absl::Status start_grpc();
  void start_agent();
  void registered(const control::Registration& registration);
  void follow_map();
  void tell_copies(uint32_t worker, const std::vector<CopyProgress>& copies);
  void fatal(const absl::Status& status);
  void log(LogSeverity severity, const std::string& line) const { options_.log(severity, line); }

  const NodeOptions options_;
  const DirectoryFiles files_{options_.data_dir};
  const SteadyClock clock_;
  NodeRecovery recovery_{options_, files_, clock_};  // used by start()'s thread first, then by registered()'s
  uint64_t incarnation_ = 0;
  std::string advertised_address_;
  std::atomic<uint64_t> applied_revision_{0};
  std::atomic<uint64_t> newest_revision_{0};  // of the maps that came
  std::atomic<uint32_t> learning_shards_{0};  // shards whose replica here is catching up, by the newest map
  std::atomic<bool> has_registered_{false};
  WorkerPoll poll_{kWorkerAnswerTimeoutNs};
  ClientRules client_rules_{options_.workers};  // used by the map cache's thread only
  std::atomic<bool> fatal_told_{false};

  // Members are destroyed in reverse order of declaration. So each member is declared before its users.
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<MemoryWatch> memory_watch_;
  std::unique_ptr<ShardManager> manager_;  // owns the databases, which workers use until they stop
  ReaderPool readers_;
  ReplicaFindings findings_{[this](control::ReplicaReport findings) {
    const std::lock_guard lock(mutex_);
    if (agent_ != nullptr) agent_->set_findings(std::move(findings));
  }};
  std::unique_ptr<PeerBootstrap> bootstrap_;
  std::unique_ptr<NodeCopies> copies_;

  /// Guards joined_, stopping_ and no_room_, and the creation of agent_. Guards workers_ and description_
  /// against gRPC's threads while the node joins its first cluster or waits for room. Workers are added once and stay
  /// until stop().
  std::mutex mutex_;
  std::condition_variable stop_;
  bool joined_ = false;
  bool stopped_ = false;  // thread: start()'s and stop()'s
  bool stopping_ = false;
  /// They listen already; each is handed to its worker when the worker is created.
  std::vector<std::unique_ptr<rpc::Transport>> transports_;
  std::string no_room_;  // trouble that the control plane is told; empty: none
  control::NodeDescription description_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<StorageWatch> watch_;

  std::unique_ptr<grpc::Service> admin_;
  std::unique_ptr<control::BootstrapServer> grpc_;
  std::unique_ptr<control::ShardMapCache> map_cache_;
  std::unique_ptr<control::NodeAgent> agent_;
};

/// What Node::metrics() says before there is a node. Pure.
[[nodiscard]] std::string metrics_of_starting_node();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_H_
