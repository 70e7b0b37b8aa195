// SimWorker: a node's production worker without its thread. It has what worker.h has: an endpoint of the RPC engine,
// the ShardServer with engine, log and memory tier, and WorkerReplication with its links to peers. Whoever owns it
// takes its turns.
//
//    ShardLifecycle --WorkerCommands--> SimWorker --+--> ShardServer
//                                     |        +--> WorkerReplication --> Endpoint --> SimWire
//                                     +--> SimWorkerHost: what simulations want to see
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_SIM_WORKER_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_SIM_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/peers/peer_bootstrap.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/worker/worker_commands.h"
#include "kvstore/worker/worker_replication.h"
#include "rpc/endpoint.h"
#include "tests/kvstore/cluster/sim_wire.h"

namespace skua::kv::sim {

/// Who wants to see what becomes of the shards. Called inside WorkerCommands's methods.
class SimWorkerHost {
 public:
  virtual void opened(ShardId id, const ReplicaNotes& notes) = 0;
  virtual void told(ShardId id, const View& view) = 0;
  /// The replica may have changed.
  virtual void changed(ShardId id) = 0;
  /// False: the disk hangs, and reads of databases wait.
  [[nodiscard]] virtual bool disk_reads() const = 0;
  /// There is something for the worker to do.
  virtual void stirred() = 0;
  /// As ReplicationEvents says it.
  virtual absl::StatusOr<std::unique_ptr<ShardCopy>> build_copy(ShardId id, const std::string& path,
                                                                const std::string& directory) = 0;
  virtual void install_copy(ShardId id, const std::string& path) = 0;
  virtual void copying_says(const std::string& line) = 0;

 protected:
  ~SimWorkerHost() = default;
};

struct SimWorkerOptions {
  ReplicaId self;
  rpc::EndpointIdentity identity;
  Address address = 0;
  rpc::EndpointOptions endpoint;
  ShardServer::Options server;
  PeerLinksOptions links;
  CopyResources copying;
};

class SimWorker final : public WorkerCommands {
 public:
  /// All arguments outlive the worker.
  SimWorker(SimWire& wire, const SimWorkerOptions& options, PeerBootstrap& bootstrap, SimWorkerHost& host, OpenLog log);
  /// As kill -9: what is under way comes back as failed, and nobody hears of it. The log's disk must have failed
  /// before.
  ~SimWorker() override;
  SimWorker(const SimWorker&) = delete;
  SimWorker& operator=(const SimWorker&) = delete;

  /// One turn of the worker's loop, as in worker.cc.
  struct Turn {
    size_t work = 0;         // what was done
    DurationNs wait_ns = 0;  // how long the next turn may wait, by the machine's boot clock
  };
  Turn take_turn();

  [[nodiscard]] ShardServer& server() { return *server_; }
  [[nodiscard]] const ShardServer& server() const { return *server_; }
  [[nodiscard]] rpc::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] const rpc::Endpoint& endpoint() const { return *endpoint_; }
  [[nodiscard]] const PeerLinksCounters& links() const { return replication_->counters(); }
  /// Sends messages of replicas to peers.
  [[nodiscard]] ReplicaHost& peers() { return *replication_; }

  // WorkerCommands, at once.
  void expect(ShardId id, uint64_t epoch) override;
  void serve(ShardId id, ShardDb& db) override;
  void serve_replica(ShardId id, ShardDb& db, const ReplicaNotes& notes) override;
  void set_view(ShardId id, const View& view, const ReplicaPlaces& places) override;
  void view_persisted(ShardId id, uint64_t epoch) override;
  void unsynced_allowed(ShardId id) override;
  void set_peers(std::vector<PeerInfo> peers) override;
  void set_failed(ShardId id, std::string why) override;
  void remove(ShardId id, std::function<void()> on_idle) override;
  void set_map_revision(uint64_t revision) override;

 private:
  void enter() {
    wire_.enter();
    host_.stirred();
  }

  SimWire& wire_;
  SimWorkerHost& host_;
  const ReplicaId self_;
  const Address address_;
  bool ending_ = false;
  ReaderPool readers_{{.threads = 0, .queue_jobs_max = 64}};
  std::shared_ptr<rpc::SimTransport> transport_;
  std::shared_ptr<rpc::Transport> protected_;
  std::unique_ptr<WorkerReplication> replication_;  // replication and server outlive the endpoint
  std::unique_ptr<ShardServer> server_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_SIM_WORKER_H_
