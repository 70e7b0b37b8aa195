// What a seed decides beforehand: the size of the world, the knobs of all parts, and which faults are at work how hard.
// Every seed has a random subset of them (swarm testing): a fixed menu in every seed hides what only shows when
// something is missing.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_REPLICATION_OPTIONS_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_REPLICATION_OPTIONS_H_

#include <cstdint>
#include <string>

#include "kvstore/replication/replica.h"
#include "rpc/base/clock.h"
#include "tests/kvstore/replication/sim_client.h"
#include "tests/kvstore/replication/sim_network.h"

namespace skua::kv::sim {

struct ReplicationSimOptions : NetworkOptions, ClientOptions {
  uint64_t seed = 0;

  // The world.
  size_t replicas = 3;                  // wanted
  DurationNs faulty_ns = 30 * kSecond;  // then everything heals

  // The protocol.
  ReplicaOptions replica;
  uint32_t min_insync = 1;
  Durability durability = Durability::kSync;
  size_t pending_max = 64;
  uint64_t retention_entries = 100;  // for peers that lag
  DurationNs flush_ns = kSecond;
  DurationNs stall_after_ns = 100 * kMillisecond;
  DurationNs give_up_disk_ns = 4 * kSecond;  // a process whose log hangs for so long ends itself
  double lazy_apply = 0;

  bool tells_breaks = false;  // a connection whose other end died is noticed

  // Disks.
  DurationNs write_ns = 20 * kMicrosecond;
  DurationNs sync_ns = 200 * kMicrosecond;
  DurationNs disk_jitter_ns = kMillisecond;

  // Faults: how often somewhere in the world; 0: never.
  DurationNs kill_every_ns = 0;
  DurationNs power_cut_every_ns = 0;
  DurationNs blackout_every_ns = 0;  // power cut of all nodes
  DurationNs disk_replaced_every_ns = 0;
  DurationNs down_ns = kSecond;
  DurationNs pause_every_ns = 0;
  DurationNs pause_ns = kSecond;
  DurationNs partition_every_ns = 0;
  DurationNs partition_ns = kSecond;
  DurationNs clog_every_ns = 0;
  DurationNs stall_every_ns = 0;
  DurationNs hang_every_ns = 0;
  DurationNs full_every_ns = 0;
  DurationNs manager_crash_every_ns = 0;
  DurationNs store_down_every_ns = 0;
  DurationNs transfer_every_ns = 0;
  DurationNs coup_every_ns = 0;     // a primary is cut off and replaced while it counts on its lease
  DurationNs see_saw_every_ns = 0;  // from one that leads to one that lags, and back
  double cas_unknown = 0;
  double cas_late = 0;  // of the unknown ones that are executed: much later
  bool two_managers = true;
  bool clocks_drift = false;
  double bad_manager_choice = 0;  // changes views for no reason

  [[nodiscard]] static ReplicationSimOptions from_seed(uint64_t seed);
  [[nodiscard]] std::string describe() const;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_REPLICATION_OPTIONS_H_
