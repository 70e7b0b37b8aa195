// A node: a disk that outlives processes, a clock of its own, and a process with a ReplicaDriver for each shard, which
// is killed, paused and started again.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SIM_NODE_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SIM_NODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "tests/kvstore/replication/model_storage.h"
#include "tests/kvstore/replication/oracle.h"
#include "tests/kvstore/replication/replica_driver.h"
#include "tests/kvstore/replication/view_manager_model.h"

namespace skua::kv::sim {

struct AskSnapshot {};
struct Snapshot {
  ShardState state;
  EntryId base;
};

/// Between two processes; neither outlives its session.
struct PeerMessage {
  ReplicaId from;
  uint64_t from_life = 0;
  NodeId to = 0;
  uint64_t to_life = 0;
  size_t shard = 0;
  std::variant<ReplicaMessage, AskSnapshot, Snapshot> body;
  std::vector<LogEntry> entries;
};

/// What is around a node.
class NodeWorld {
 public:
  virtual ~NodeWorld() = default;
  virtual void to_peer(const PeerMessage& message) = 0;  // fills in to_life
  virtual void to_managers(NodeId from, std::function<void(ViewManagerModel&)> what) = 0;
  virtual void to_client(NodeId from, const ClientReply& reply) = 0;
  virtual void entry_committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) = 0;
  virtual void process_failed(NodeId node) = 0;
};

class SimNode final : public DriverHost {
 public:
  SimNode(SimKernel& kernel, Oracle& oracle, const ReplicationSimOptions& options, NodeWorld& world, NodeId id);

  // --- Life

  void start();
  /// `loses`: it comes back in another incarnation.
  void stop(bool power_cut, bool loses, bool other_disk);
  void pause_until(TimeNs time) { disk_.paused_until = std::max(disk_.paused_until, time); }
  void change_clock_rate();
  [[nodiscard]] bool is_up() const { return up_; }
  [[nodiscard]] uint64_t life() const { return disk_.life; }
  [[nodiscard]] ReplicaId id() const { return {id_, incarnation_}; }
  [[nodiscard]] DiskModel& disk() { return disk_; }
  [[nodiscard]] const ModelStorage& storage(size_t shard) const { return *storages_[shard]; }
  /// nullptr: down.
  [[nodiscard]] ReplicaDriver* driver(size_t shard) const { return up_ ? drivers_[shard].get() : nullptr; }

  /// Runs in this process, when it is not paused, if it still lives.
  void run(TimeNs at, absl::AnyInvocable<void()> then);

  // --- Input

  void on_peer(const PeerMessage& message);
  void on_view(size_t shard, const View& view);
  void on_request(const ClientRequest& request);
  void on_peer_failed(NodeId peer);

  // --- DriverHost

  [[nodiscard]] TimeNs now() const override;
  void send(size_t shard, NodeId to, const ReplicaMessage& message, std::vector<LogEntry> entries) override;
  void report(size_t shard, const ReplicaReport& report) override;
  void ask_view(size_t shard) override;
  void ask_snapshot(size_t shard, NodeId source) override;
  void send_snapshot(size_t shard, NodeId to, const ShardState& state, EntryId base) override;
  void reply(const ClientReply& reply) override;
  void later(DurationNs after, absl::AnyInvocable<void()> then) override;
  void committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) override;
  void fail_process() override;

 private:
  void say_alive();
  void check_epoch_durable(size_t shard, const ReplicaMessage& message);
  void send_body(size_t shard, NodeId to, std::variant<ReplicaMessage, AskSnapshot, Snapshot> body,
                 std::vector<LogEntry> entries);

  SimKernel& kernel_;
  Oracle& oracle_;
  const ReplicationSimOptions& options_;
  NodeWorld& world_;
  const NodeId id_;
  uint64_t incarnation_ = 1;
  bool up_ = false;
  bool failing_ = false;
  DiskModel disk_;
  std::vector<std::unique_ptr<ModelStorage>> storages_;
  std::vector<std::unique_ptr<ReplicaDriver>> drivers_;
  std::map<NodeId, uint64_t> heard_lives_;
  std::vector<TimeNs> asked_view_;

  // local = clock_base_ + (true - clock_since_) * (1 + rate / 10^6)
  TimeNs clock_base_ = 0;
  TimeNs clock_since_ = 0;
  int64_t clock_ppm_ = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SIM_NODE_H_
