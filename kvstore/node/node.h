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
#ifndef SKUA_KVSTORE_NODE_NODE_H_
#define SKUA_KVSTORE_NODE_NODE_H_

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/program_security.h"
#include "control/security/credentials.h"
#include "kvstore/log/durable_write.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/types/node_log.h"
#include "rpc/base/health_check.h"
#include "rpc/base/hosted_loop.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sealed/packet_protection.h"
#include "rpc/transport/transport.h"

namespace skua::kv {

/// Creates the transport of a worker's endpoint. `self` is the identity that the endpoint tells its peers. Errors name
/// the address.
using TransportFactory =
    std::function<absl::StatusOr<std::unique_ptr<rpc::Transport>>(uint32_t worker, const rpc::EndpointIdentity& self)>;

struct NodeOptions {
  /// Exists. The caller holds its lock for as long as the node lives.
  std::string data_dir;
  /// From the data directory. `cluster_id` is empty until the node has joined its first cluster.
  std::string node_uuid;
  std::string cluster_id;
  /// From the data directory. Only the control plane is told the secret. May be empty.
  std::string secret;
  /// A random UUID, new in each process.
  std::string instance;
  /// Host name of this machine, for messages.
  std::string host;
  /// Failure domain of this node, such as a rack. Replicas of a shard avoid sharing a zone. May be empty.
  std::string zone;

  std::string control_address;
  /// What to show the control plane, other nodes and clients; null: without TLS. Its name is `node_uuid`.
  control::CredentialsPtr credentials;
  /// Where the gRPC server listens. Port 0 takes a free port.
  std::string grpc_address;
  /// Address or name that others are told instead of the host in `grpc_address`. Empty: they are told that host.
  std::string advertise_host;

  uint32_t workers = 1;
  int reader_threads = 2;
  TransportFactory make_transport;
  /// Needs `credentials` unless it is kOff (rpc::choose_protection()).
  rpc::PacketProtection packets = rpc::PacketProtection::kOff;
  DurationNs packet_key_lifetime_ns = rpc::kPacketKeyLifetime;  ///< of keys by which the node sends
  /// Whom the node lets in, for the status.
  control::Admission admission = control::Admission::kUnknown;
  /// While the cluster is unknown: create the transports once and discard them. So the node finds addresses in use
  /// before anybody learns of the node. Off if the addresses have been checked before, or if creating a transport
  /// checks nothing.
  bool probe_transports = true;
  rpc::EndpointOptions endpoint;
  ShardServer::Options server;
  RocksdbOptions storage;
  /// Memory tier of all workers together, in bytes; each worker gets an equal part. Unapplied writes have precedence in
  /// it.
  size_t memory_bytes = size_t{256} << 20;
  /// If given, MemoryWatch keeps the process within it (memory_watch.h). The other options must agree with it.
  std::optional<MemoryBudget> memory_budget;
  /// The node fills in the identities.
  LogOptions log_files;
  LogIo log_io = LogIo::kAuto;
  /// Bytes. While the file system of the data directory has less free space, data may not grow (storage_watch.h).
  uint64_t disk_reserve_bytes = 0;

  /// Rate at which shards are copied from other nodes, all copies together.
  uint64_t copy_bytes_per_s = uint64_t{64} << 20;

  /// Called on the thread of start() while the disk has no room for the node's state file. `why` is the error. It waits
  /// for a while and returns whether to try again. Empty: start() fails.
  std::function<bool(const absl::Status& why)> wait_for_room;
  /// Records in the data directory that it belongs to the cluster. FAILED_PRECONDITION: it belongs to another one.
  std::function<absl::Status(const std::string& cluster_id)> adopt_cluster;
  /// The node cannot continue: the control plane refused it, or its workers cannot start. Called once, on a thread of
  /// the node. The receiver must not call stop() itself but let main do so, because stop() joins that thread.
  std::function<void(const absl::Status&)> on_fatal;
  NodeLog log;
};

/// Thread: start() and stop() on one thread; the other methods on any thread.
class Node {
 public:
  virtual ~Node() = default;

  /// Starts the node. It listens on its addresses and continues in the background, even while the control plane is
  /// unreachable. Errors name what was tried and the way out: ALREADY_EXISTS (a port is in use), FAILED_PRECONDITION
  /// (newer format), INVALID_ARGUMENT, INTERNAL.
  static absl::StatusOr<std::unique_ptr<Node>> start(NodeOptions options);

  /// Has other nodes lead the shards that this one leads, before it stops, and waits for that. The node serves
  /// meanwhile. The number of shards, or why not all were handed over (NodeAgent::yield()).
  [[nodiscard]] virtual absl::StatusOr<size_t> yield(DurationNs limit_ns) = 0;

  /// Whether there are workers: not before the node knows its cluster, and has room for what its logs hold.
  [[nodiscard]] virtual bool has_workers() = 0;
  /// Runs `loop` on the thread of a worker (Worker::host()). The loop must end before stop(). UNAVAILABLE: there are no
  /// workers yet, or they are stopping.
  [[nodiscard]] virtual absl::StatusOr<std::future<void>> host(uint32_t worker, HostedLoop& loop) = 0;

  /// Drains the workers and ends all threads. Idempotent. The destructor calls it.
  virtual void stop() = 0;

  /// Address under which others reach the gRPC server.
  [[nodiscard]] virtual const std::string& grpc_address() const = 0;
  /// +1 at each start.
  [[nodiscard]] virtual uint64_t incarnation() const = 0;
  /// Revision of the newest shard map whose shards are all served here. 0: none yet.
  [[nodiscard]] virtual uint64_t applied_revision() const = 0;
  /// The workers' counters in Prometheus' text format. Waits for the workers, for kWorkerAnswerTimeoutNs at most.
  /// skua_worker_up says which of them answered; the others' counters are left out.
  [[nodiscard]] virtual std::string metrics() = 0;
  /// Whether the node may get work: it is registered, has applied its map, opens all its shards, and none of its
  /// replicas is catching up. Waits for nothing.
  [[nodiscard]] virtual std::vector<HealthCheck> readiness() = 0;
  /// Whether all workers answer. Waits for them, for kWorkerAnswerTimeoutNs at most. A node that has no workers yet is
  /// alive.
  [[nodiscard]] virtual bool is_alive() = 0;
};

/// What Node::metrics() says before there is a node. Pure.
[[nodiscard]] std::string metrics_of_starting_node();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_H_
