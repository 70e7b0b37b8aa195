// How a storage node describes itself to a peer before the first packet of a session; see
// control/proto/bootstrap.proto.
#ifndef SKUA_CONTROL_CORE_BOOTSTRAP_H_
#define SKUA_CONTROL_CORE_BOOTSTRAP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace skua::control {

/// How an endpoint is reached over one transport. Only that transport understands the bytes: queue pair numbers and
/// GIDs; MAC, IP and port; host and port.
struct TransportDescriptor {
  /// "tcp", "dpdk", "verbs", ...
  std::string kind;
  std::string bytes;

  friend bool operator==(const TransportDescriptor&, const TransportDescriptor&) = default;
};

struct WorkerDescription {
  uint32_t worker = 0;
  /// In the node's order of preference.
  std::vector<TransportDescriptor> transports;

  friend bool operator==(const WorkerDescription&, const WorkerDescription&) = default;
};

struct NodeDescription {
  std::string node_uuid;
  uint64_t incarnation = 0;
  /// Empty until the node has joined a cluster.
  std::string cluster_id;
  std::vector<WorkerDescription> workers;
  /// Bits whose meaning the store gives them (kvstore/types/features.h).
  uint64_t features = 0;

  friend bool operator==(const NodeDescription&, const NodeDescription&) = default;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_BOOTSTRAP_H_
