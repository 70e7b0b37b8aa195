// Three nodes that hold one shard, with engines, logs and databases as they are, stepped on one thread under one seed; a
// dumb control plane that knows everything; clients that count and put. Processes are killed, machines lose power, messages are
// lost and late, learners copy the shard.
//
// What is checked: a write that was acknowledged is there, once; counters are exact; in the end all replicas' databases are equal;
// and any replica that may answer a read has what was acknowledged, whether it leads or not.
// The protocol's own rules are looked at more closely in tests/kvstore/replication.
#ifndef SKUA_TESTS_KVSTORE_SERVER_REPLICA_WORLD_H_
#define SKUA_TESTS_KVSTORE_SERVER_REPLICA_WORLD_H_

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kvstore/engine/reader_pool.h"
#include "kvstore/server/shard_replica.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/engine/crash_machine.h"

namespace skua::kv::sim {

class ReplicaWorld {
 public:
  explicit ReplicaWorld(uint64_t seed);
  ~ReplicaWorld();

  /// Runs to the end or to the first broken promise, which it returns.
  std::optional<std::string> run();

  struct Tally {
    uint64_t acknowledged = 0, retries = 0, kills = 0, power_cuts = 0, views = 0, joins = 0, snapshots = 0,
             messages = 0, reads = 0, backup_reads = 0, unsettled = 0;
    void add(const Tally& other);
  };
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  static constexpr size_t kNodes = 3;

  struct Message {
    NodeId from = 0;
    ReplicaMessage body;
    std::vector<ReplicaEntry> entries;
    std::deque<std::string> payloads;
  };

  /// One life after the other of a node.
  struct Node final : ReplicaHost {
    Node(ReplicaWorld& owner, NodeId self, uint64_t seed);
    void send(ShardId shard, NodeId to, const ReplicaMessage& message) override;
    size_t send_entries(ShardId shard, NodeId to, const Append& append,
                        std::span<ReplicaRecord* const> entries) override;
    void persist_view(ShardId shard, const View& view) override;
    void report(ShardId shard, const ReplicaReport& report) override;
    void fetch_view(ShardId shard) override;
    void fetch_snapshot(ShardId shard, NodeId from) override;
    void replica_failed(ShardId shard, const absl::Status& why) override;

    ReplicaWorld& world;
    const NodeId id;
    Machine machine;
    uint64_t life = 0;
    View persisted;
    std::deque<absl::AnyInvocable<void()>> tasks;
    std::unique_ptr<ReaderPool> readers;
    std::unique_ptr<ShardDb> db;
    std::unique_ptr<WorkerEngine> engine;
    EngineShard* shard = nullptr;
    std::unique_ptr<ShardReplica> replica;
    bool copying = false;
  };

  struct Client {
    RequestId id{};
    bool busy = false;
    std::string key;
    std::string value;
    bool counts = false;
    WriteOp op;
    std::map<std::string, int64_t> added;
    std::map<std::string, std::string> put;
  };

  [[nodiscard]] Node* node(NodeId id);
  void at(TimeNs when, absl::AnyInvocable<void()> what);
  bool start(Node& node);
  void open(Node& node);
  void crash(Node& node);
  void copy_shard(Node& node, NodeId from);
  void step(Node& node);
  void deliver(NodeId to, Message message);
  void act(Client& client);
  void read(Client& client);
  void written(Client& client);
  void hear(NodeId from, const ReplicaReport& report);
  void replace_primary();
  void change(const View& next);
  void tell(Node& node);
  void keep_house();
  void check_end();
  [[nodiscard]] std::string describe() const;
  void broken(std::string what);

  Rng rng_;
  TimeNs now_ = kSecond;
  std::multimap<TimeNs, absl::AnyInvocable<void()>> events_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::array<Client, 4> clients_;
  View view_;
  uint64_t next_join_ = 1;
  bool faults_ = true;
  double loss_ = 0;
  double refusals_ = 0;  // of messages with entries
  DurationNs delay_ns_ = 0;
  double crash_chance_ = 0;
  ShardReplica::Options replica_options_;
  LogOptions log_options_;
  WorkerEngine::Options engine_options_;
  std::optional<std::string> broken_;
  Tally tally_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_SERVER_REPLICA_WORLD_H_
