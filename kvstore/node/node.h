// Node: skuad without its main(): workers, storage, gRPC and the node's part in the cluster.
//
//   gRPC threads --- Bootstrap, Admin ---+            +--- worker 0 --- log thread 0, applier 0
//   NodeAgent's  --- register, heartbeat |            +--- worker 1 --- log thread 1, applier 1
//   map cache's  --- shard map ----> shard manager ---+        |
//                                        |                 reader pool (shared)
//                                        +--- opens, closes, deletes --- RocksDB engine (shared)
//
// Starting. The data directory says which cluster the node belongs to. If it does, the workers listen at once; a node
// that joins its first cluster registers first and starts its workers when it knows the cluster; heartbeats go on
// meanwhile. Before workers start, what their logs hold goes into the databases (recovery.h). Shards are served as soon
// as the first shard map is there. A control plane that is away is waited for, and once the node serves it goes on
// serving whatever happens to the control plane.
//
// A node whose disk has no room for what the logs hold gives up the logs' spare files. If that does not do, it
// registers, tells the control plane what is wrong and that it serves nothing, and tries again every kReopenPauseNs.
//
// Stopping, in the order in which parts depend on each other (stop()):
//   1. gRPC server       no new sessions
//   2. map cache, agent  no new maps; the control plane is told that the node stops
//   3. shard manager     no shard is opened or closed any longer
//   4. workers drain     requests are refused (WRONG_SHARD, not executed); accepted ones are answered; copies end
//   5. engines stop      what is committed is applied and flushed; logs are closed
//   6. reader pool       has nothing left to do
//   7. workers stop      answers leave; endpoints and transports go
//   8. databases close
#ifndef SKUA_KVSTORE_NODE_NODE_H_
#define SKUA_KVSTORE_NODE_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/log/durable_write.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/types/node_log.h"
#include "rpc/endpoint.h"
#include "rpc/transport/transport.h"

namespace skua::kv {

/// Makes the transport of a worker's endpoint, which is to call itself `self`. Errors name the address.
using TransportFactory =
    std::function<absl::StatusOr<std::unique_ptr<rpc::Transport>>(uint32_t worker, const rpc::EndpointIdentity& self)>;

struct NodeOptions {
  /// Exists, and is locked by the caller for as long as the node lives.
  std::string data_dir;
  /// Of the data directory; `cluster_id` is empty before the first cluster was joined.
  std::string node_uuid;
  std::string cluster_id;
  /// Of the data directory, for the control plane alone; may be empty.
  std::string secret;
  /// A fresh random UUID.
  std::string instance;
  /// The machine's name, for messages.
  std::string host;
  /// What fails together with this node; replicas of a shard avoid sharing one. May be empty.
  std::string zone;

  std::string control_address;
  /// Where the gRPC server listens; port 0 takes a free one.
  std::string grpc_address;
  /// What others are told instead of the host in `grpc_address`, an address or a name; empty: that host.
  std::string advertise_host;

  uint32_t workers = 1;
  int reader_threads = 2;
  TransportFactory make_transport;
  /// Make the transports once for nothing when the cluster is not known yet, to find out that their addresses are taken before
  /// anybody is told of the node. Off where making one proves nothing.
  bool probe_transports = true;
  rpc::EndpointOptions endpoint;
  ShardServer::Options server;
  RocksdbOptions storage;
  /// Shared by the workers: what they keep in memory, unapplied writes first.
  size_t memory_bytes = size_t{256} << 20;
  /// If given, the process is held to it (memory_watch.h); the other options are in accordance with it.
  std::optional<MemoryBudget> memory_budget;
  /// Identities are filled in.
  LogOptions log_files;
  LogIo log_io = LogIo::kAuto;
  /// Free space of the data directory's file system below which data may not grow (storage_watch.h).
  uint64_t disk_reserve_bytes = 0;

  /// Of copies of shards from other nodes, together.
  uint64_t copy_bytes_per_s = uint64_t{64} << 20;

  /// What is to be done while the disk has no room for the node's state file, which `why` tells: waits for a while, and
  /// says whether to try again. On start()'s thread. Empty: start() fails.
  std::function<bool(const absl::Status& why)> wait_for_room;
  /// Binds the data directory to the cluster. FAILED_PRECONDITION if it belongs to another.
  std::function<absl::Status(const std::string& cluster_id)> adopt_cluster;
  /// The node cannot go on: it was refused by the control plane, or cannot start its workers. Once,
  /// on a thread of the node; the receiver lets main call stop().
  std::function<void(const absl::Status&)> on_fatal;
  NodeLog log;
};

/// Thread: start() and stop() on one thread; the others any.
class Node {
 public:
  virtual ~Node() = default;

  /// Listens and goes on in the background, also while the control plane cannot be reached. Errors
  /// name what was tried and the way out: ALREADY_EXISTS (a port is in use), FAILED_PRECONDITION
  /// (newer format), INVALID_ARGUMENT, INTERNAL.
  static absl::StatusOr<std::unique_ptr<Node>> start(NodeOptions options);

  /// Drains and ends everything. Idempotent; also done by the destructor.
  virtual void stop() = 0;

  /// What the gRPC server is reached by.
  [[nodiscard]] virtual const std::string& grpc_address() const = 0;
  /// Counts up with each start.
  [[nodiscard]] virtual uint64_t incarnation() const = 0;
  /// The newest shard map that is fully served; 0 before the first.
  [[nodiscard]] virtual uint64_t applied_revision() const = 0;
  /// The workers' counters in Prometheus' text format.
  [[nodiscard]] virtual absl::StatusOr<std::string> metrics() = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_H_
