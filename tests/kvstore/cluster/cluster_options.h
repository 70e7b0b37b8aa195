// What a seed decides beforehand: the size of the cluster, the knobs of all parts, and which faults are at work how
// hard. Every seed has a random subset of them (swarm testing).
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_OPTIONS_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "control/core/cluster_core.h"
#include "kvstore/shard/shard_replica.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/worker/worker_replication.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sealed/packet_protection.h"
#include "tests/kvstore/replication/sim_client.h"
#include "tests/kvstore/replication/sim_network.h"

namespace skua::kv::sim {

struct ClusterSimOptions : NetworkOptions, ClientOptions {
  uint64_t seed = 0;

  // The cluster.
  size_t controls = 2;
  uint32_t replicas = 3;
  uint32_t min_insync = 1;
  DurationNs faulty_ns = 40 * kSecond;

  // The parts' own.
  ShardReplica::Options replica;
  LogOptions log;
  WorkerEngine::Options engine;
  control::CoreOptions core;
  DurationNs heartbeat_ns = 500 * kMillisecond;  // to the control plane
  DurationNs leader_lease_ns = 3 * kSecond;
  size_t text_bytes_max = 300;

  // Disks.
  DurationNs sync_ns = 300 * kMicrosecond;
  DurationNs disk_jitter_ns = kMillisecond;
  DurationNs apply_ns = 2 * kMillisecond;
  uint64_t disk_segments = 80;

  // Sessions.
  PeerLinksOptions links;
  rpc::PacketProtection packets = rpc::PacketProtection::kOff;
  DurationNs peer_timeout_ns = 5 * kSecond;

  // Faults: how often somewhere in the cluster; 0: never.
  DurationNs kill_every_ns = 0;
  DurationNs power_cut_every_ns = 0;
  DurationNs blackout_every_ns = 0;
  DurationNs wipe_every_ns = 0;
  DurationNs rot_every_ns = 0;
  DurationNs down_ns = kSecond;
  DurationNs pause_every_ns = 0;
  DurationNs pause_ns = kSecond;
  DurationNs partition_every_ns = 0;
  DurationNs partition_ns = kSecond;
  DurationNs clog_every_ns = 0;
  DurationNs stall_every_ns = 0;
  DurationNs hang_every_ns = 0;
  DurationNs full_every_ns = 0;
  DurationNs sync_error_every_ns = 0;
  DurationNs control_crash_every_ns = 0;
  DurationNs control_pause_every_ns = 0;
  DurationNs store_down_every_ns = 0;
  DurationNs transfer_every_ns = 0;
  DurationNs coup_every_ns = 0;  // a primary is cut off and replaced while it counts on its lease
  DurationNs move_every_ns = 0;
  DurationNs drain_every_ns = 0;
  DurationNs fork_every_ns = 0;
  double commit_unknown = 0;
  double commit_late = 0;  // of the unknown ones that are executed
  bool clocks_drift = false;
  bool clocks_step = false;

  /// How safe a write is when it is acknowledged.
  [[nodiscard]] Durability write_level() const { return engine.durability; }

  /// Of the endpoint of a node or client, in one of its lives.
  [[nodiscard]] rpc::EndpointOptions endpoint_of(size_t number, uint64_t life = 1) const;
  /// Nothing is copied by the shipped code here.

  [[nodiscard]] static ClusterSimOptions from_seed(uint64_t seed);
  [[nodiscard]] std::string describe() const;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_OPTIONS_H_
