// What a node is told at its start.
#ifndef SKUA_KVSTORE_NODE_NODE_OPTIONS_H_
#define SKUA_KVSTORE_NODE_NODE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/program_security.h"
#include "control/security/credentials.h"
#include "kvstore/log/durable_write.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/types/node_log.h"
#include "rpc/base/clock.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sealed/packet_protection.h"
#include "rpc/transport/transport.h"

namespace skua::kv {

/// Creates the transport of a worker's endpoint. `self` is the identity that the endpoint tells its peers. Errors name
/// the address.
using TransportFactory =
    std::function<absl::StatusOr<std::unique_ptr<rpc::Transport>>(uint32_t worker, const rpc::EndpointIdentity& self)>;

/// Settings of the operator that the node uses unchanged. Exception: sizes and identities in `log_files`.
struct NodeSettings {
  /// Exists when the node starts. The caller holds its lock for as long as the node lives.
  std::string data_dir;
  /// Failure domain of this node, such as a rack. Replicas of a shard avoid sharing a zone. May be empty.
  std::string zone;
  std::string control_address;
  /// Where the gRPC server listens. Port 0 takes a free port.
  std::string grpc_address;
  /// Address or name that others are told instead of the host in `grpc_address`. Empty: they are told that host.
  std::string advertise_host;
  uint32_t workers = 1;
  int reader_threads = 2;
  DurationNs packet_key_lifetime_ns = rpc::kPacketKeyLifetime;  ///< of keys by which the node sends
  /// The node fills in the identities.
  LogOptions log_files;
  LogIo log_io = LogIo::kAuto;
};

struct NodeSecurity {
  /// What to show the control plane, other nodes and clients; null: without TLS. Its name is the node's uuid.
  control::CredentialsPtr credentials;
  /// Whom the node lets in, for the status.
  control::Admission admission = control::Admission::kUnknown;
  /// Needs `credentials` unless it is kOff (rpc::choose_protection()).
  rpc::PacketProtection packets = rpc::PacketProtection::kOff;
};

struct NodeOptions : NodeSettings, NodeSecurity {
  /// From the data directory. `cluster_id` is empty until the node has joined its first cluster.
  std::string node_uuid;
  std::string cluster_id;
  /// From the data directory. Only the control plane is told the secret. May be empty.
  std::string secret;
  /// A random UUID, new in each process.
  std::string instance;
  /// Host name of this machine, for messages.
  std::string host;
  TransportFactory make_transport;
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
  NodeLog log = [](LogSeverity, const std::string&) {};
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_OPTIONS_H_
