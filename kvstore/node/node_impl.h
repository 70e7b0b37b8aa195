// The implementation of Node:
//
//    node.cc              starts, connects and stops what a node consists of
//    node_membership.cc   the node's part in the cluster: registration, shard maps, what the control plane is told
//    node_health.cc       what the node says of itself: counters, whether it lives and may get work
//
// What is done to the data directory before the workers start is NodeRecovery, copies of shards are NodeCopies.
#ifndef SKUA_KVSTORE_NODE_NODE_IMPL_H_
#define SKUA_KVSTORE_NODE_NODE_IMPL_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/client/node_agent.h"
#include "control/client/shard_map_cache.h"
#include "control/server/bootstrap_server.h"
#include "kvstore/node/client_rules.h"
#include "kvstore/node/memory_watch.h"
#include "kvstore/node/node.h"
#include "kvstore/node/node_copies.h"
#include "kvstore/node/node_limits.h"
#include "kvstore/node/node_recovery.h"
#include "kvstore/node/replica_findings.h"
#include "kvstore/node/shard_manager.h"
#include "kvstore/node/storage_watch.h"
#include "kvstore/node/worker_poll.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/snapshot/snapshot_source.h"
#include "kvstore/worker/worker.h"

namespace skua::kv {

class NodeImpl final : public Node, private control::SessionAcceptor {
 public:
  explicit NodeImpl(NodeOptions options)
      : options_(std::move(options)), readers_({.threads = options_.reader_threads}) {}

  ~NodeImpl() override { stop(); }

  absl::Status start();
  absl::StatusOr<size_t> yield(DurationNs limit_ns) override { return agent_->yield(limit_ns); }
  void stop() override;
  const std::string& grpc_address() const override { return advertised_address_; }
  uint64_t incarnation() const override { return incarnation_; }
  uint64_t applied_revision() const override { return applied_revision_.load(); }
  bool has_workers() override { return !workers().empty(); }
  absl::StatusOr<std::future<void>> host(uint32_t worker, HostedLoop& loop) override;
  std::string metrics() override;
  std::vector<HealthCheck> readiness() override;
  bool is_alive() override;

 private:
  // SessionAcceptor, on gRPC's threads.
  control::NodeDescription describe() override;
  std::optional<bool> is_instance(const std::string& instance) override { return instance == options_.instance; }
  absl::StatusOr<std::string> open_session(uint32_t worker, const control::TransportDescriptor& caller,
                                           const std::string& offer, const control::SessionCaller& who) override;

  absl::Status make_transports(const std::string& cluster_id);
  absl::StatusOr<Recovered> recover(const std::string& cluster_id);
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
  absl::Status join(const control::Registration& registration);
  void follow_map();
  void tell_copies(uint32_t worker, const std::vector<CopyProgress>& copies);
  void fatal(const absl::Status& status);
  void log(LogSeverity severity, const std::string& line) const {
    if (options_.log) options_.log(severity, line);
  }

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

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_IMPL_H_
