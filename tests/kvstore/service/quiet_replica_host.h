// The host of a server's replicas, for tests: the network takes all messages and tells nothing.
#ifndef SKUA_TESTS_KVSTORE_SERVICE_QUIET_REPLICA_HOST_H_
#define SKUA_TESTS_KVSTORE_SERVICE_QUIET_REPLICA_HOST_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvstore/shard/shard_replica.h"

namespace skua::kv::testing {

/// Tests override what they look at. Thread: the worker's.
struct QuietReplicaHost : ReplicaHost {
  void send(ShardId, NodeId, const ReplicaMessage&) override {}
  size_t send_entries(ShardId, NodeId, const Append&, std::span<Entry* const> entries) override {
    return entries.size();
  }
  void persist_view(ShardId, const View& view) override { to_persist.push_back(view.epoch); }
  void allow_unsynced(ShardId) override {}
  void put_in_doubt(ShardId) override {}
  void restored(ShardId) override {}
  void report(ShardId, const ReplicaReport&) override {}
  void fetch_view(ShardId) override {}
  void fetch_snapshot(ShardId, NodeId) override {}
  void replica_failed(ShardId, const absl::Status& why) override { ADD_FAILURE() << why; }
  [[nodiscard]] const PeerInfo* peer(NodeId) const override { return nullptr; }

  std::vector<uint64_t> to_persist;  ///< epochs
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_SERVICE_QUIET_REPLICA_HOST_H_
