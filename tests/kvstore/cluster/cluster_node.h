// A storage node: a machine whose disk outlives processes, a clock of its own, and a process with the production engine,
// log, memory tier and replicas (kvstore/shard/shard_replica.h) for all its shards on one worker. It is killed, paused
// and started again.
//
//    control plane --- map ---> wanted_shards() --> open, tell views, leave, replace       cluster_node_shards.cc
//         ^--- register, heartbeat, findings ---+                                          cluster_node_agent.cc
//    clients --- GET, PUT, ADD ---> engine, replica --> answers                            cluster_node_requests.cc
//    peers --- ReplicaMessage, copies of shards ---> replica                               cluster_node.cc
//
// What threads and files do in production (shard_manager.h, node_agent.h, snapshot_copy.h) is done here by events that take
// time; the rules are the same: wanted_shards() and ReplicaFindings are the production ones.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NODE_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NODE_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvstore/node/replica_findings.h"
#include "kvstore/node/shard_plan.h"
#include "kvstore/shard/shard_clock.h"
#include "kvstore/shard/shard_replica.h"
#include "kvstore/storage/reader_pool.h"
#include "tests/kvstore/cluster/control_process.h"
#include "tests/kvstore/replication/oracle.h"
#include "tests/kvstore/replication/sim_client.h"
#include "tests/kvstore/shard/crash_machine.h"

namespace skua::kv::sim {

struct AskCopy {};
/// A shard's database as it was at the source.
struct ShardCopy {
  std::shared_ptr<const Database> database;
  EntryId end;
};

/// Between two processes; it reaches no other.
struct NodeMessage {
  NodeId from = 0;
  uint64_t from_life = 0;
  NodeId to = 0;
  size_t shard = 0;
  std::variant<ReplicaMessage, AskCopy, ShardCopy> body;
  std::vector<ReplicaEntry> entries;
  std::deque<std::string> payloads;  // of the entries
};

class ClusterNode;

/// What is around a node.
class NodeSurroundings {
 public:
  virtual ~NodeSurroundings() = default;
  virtual void to_peer(ClusterNode& from, std::shared_ptr<const NodeMessage> message) = 0;
  virtual void to_control(ClusterNode& from, size_t control, const ControlRequest& request) = 0;
  virtual void to_client(ClusterNode& from, const ClientReply& reply) = 0;
  /// Its replica takes an entry for committed.
  virtual void entry_committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) = 0;
  /// Its replica of the shard has just been opened.
  virtual void shard_opened(ClusterNode& node, size_t shard) = 0;
  /// The map's view of a shard, as it is told.
  virtual void view_told(size_t shard, const View& view) = 0;
  /// It has ended itself, or its machine is off.
  virtual void process_ended(ClusterNode& node) = 0;
};

/// Of the simulation's only table.
inline constexpr uint32_t kTableId = 1;
[[nodiscard]] inline ShardId shard_id(size_t shard) {
  return {kTableId, static_cast<uint32_t>(shard)};
}

class ClusterNode final : public ReplicaHost {
 public:
  /// `number`: 1 or more.
  ClusterNode(SimKernel& kernel, Oracle& oracle, const ClusterSimOptions& options, NodeSurroundings& world,
              size_t number);
  ~ClusterNode();

  // --- Life

  /// False: the process ends at once, to be started again.
  bool start();
  enum class End : uint8_t { kKill, kPowerCut, kWiped };
  void stop(End how);
  /// The power fails within the next operations of its disk.
  void fail_soon(uint64_t operations) { machine_->end_after(operations, Machine::End::kPowerCut); }
  void pause_until(TimeNs time) { paused_until_ = std::max(paused_until_, time); }
  void change_clock();
  void hang_disk_until(TimeNs time) { disk_hangs_until_ = std::max(disk_hangs_until_, time); }
  void set_disk_full(bool full);
  void fail_syncs(bool fail);
  /// Inverts a bit of the log, while the process is down, where that cannot be taken for a torn end. False: there is no such place.
  bool rot();
  void heal();

  [[nodiscard]] bool is_up() const { return up_; }
  [[nodiscard]] uint64_t life() const { return life_; }
  [[nodiscard]] size_t number() const { return number_; }
  [[nodiscard]] NodeId id() const { return id_; }
  [[nodiscard]] ReplicaId replica_id() const { return {id_, info_.storage_incarnation}; }
  [[nodiscard]] const control::NodeInfo& info() const { return info_; }
  [[nodiscard]] TimeNs now() const;

  /// nullptr: it is down, or has not opened it.
  [[nodiscard]] const ShardReplica* replica(size_t shard) const;
  /// False: it is down, or its data are refused, or it has none.
  [[nodiscard]] bool has_data(size_t shard) const;
  /// Its log has the entry, as safe as `level` says.
  [[nodiscard]] bool holds(size_t shard, EntryId entry, Durability level) const;
  /// A power cut may have taken what it had acknowledged as written, and nobody has given it back yet.
  [[nodiscard]] bool is_doubtful(size_t shard) const;
  /// Its log's queue has the entry.
  [[nodiscard]] bool has_received(size_t shard, EntryId entry) const;
  [[nodiscard]] Database& database(size_t shard) { return machine_->database(shard_id(shard)); }
  /// Shards are refused, and it may yet be a member of their views.
  [[nodiscard]] bool has_damaged() const;
  [[nodiscard]] std::string describe(size_t shard) const;
  /// Of the items that the database has.
  [[nodiscard]] static uint64_t contents_of(const Database& database);

  // --- Input. The caller sees to it that the process runs.

  /// Runs in this process, when it is not paused, if it still lives.
  void run(TimeNs at, absl::AnyInvocable<void()> then);
  void on_peer(const NodeMessage& message);
  void on_peer_failed(NodeId peer);
  void on_request(const ClientRequest& request);
  void on_control(const ControlReply& reply);
  void on_map(const MapPtr& map);

  // --- ReplicaHost

  void send(ShardId shard, NodeId to, const ReplicaMessage& message) override;
  size_t send_entries(ShardId shard, NodeId to, const Append& append, std::span<ReplicaRecord* const> entries) override;
  void persist_view(ShardId shard, const View& view) override;
  void allow_unsynced(ShardId shard) override;
  void put_in_doubt(ShardId shard) override;
  void restored(ShardId shard) override;
  void report(ShardId shard, const ReplicaReport& report) override;
  void fetch_view(ShardId shard) override;
  void fetch_snapshot(ShardId shard, NodeId from) override;
  void replica_failed(ShardId shard, const absl::Status& why) override;

 private:
  enum class Phase : uint8_t { kClosed, kServing, kFailed, kLeaving };
  /// One of this process's shards.
  struct Held {
    Phase phase = Phase::kClosed;
    std::unique_ptr<ShardDb> db;
    EngineShard* shard = nullptr;
    std::unique_ptr<ShardReplica> replica;
    std::optional<View> told;  // of the map
    size_t uses = 0;           // by requests
    bool closing = false;
    bool opening = false;
    TimeNs copy_asked_ns = 0;
    std::optional<ShardCopy> replacement;
    // What the oracle has seen.
    uint64_t seen_last = 0;
    uint64_t seen_commit = 0;
    uint64_t seen_epoch = 0;
  };
  struct Request;

  // cluster_node.cc
  void later(DurationNs after, absl::AnyInvocable<void()> then);
  void kick(DurationNs after = 0);
  void poll();
  void run_tasks();
  void step_log();
  void step_applier();
  void set_timer();
  void send_body(size_t shard, NodeId to, std::variant<ReplicaMessage, AskCopy, ShardCopy> body);
  void check_epoch_durable(size_t shard, const ReplicaMessage& message) const;
  void observe(size_t shard);
  [[nodiscard]] LogEntry entry_of(const ReplicaEntry& entry) const;
  void end_process(Machine::End how);
  void disown_damaged();
  [[nodiscard]] Held& held(size_t shard) { return held_[shard]; }

  // cluster_node_shards.cc
  void reconcile();
  void open(size_t shard, const WantedShard& wanted);
  void open_replica(size_t shard);
  void tell_view(size_t shard, const View& view);
  void leave(size_t shard);
  void close_if_idle(size_t shard);
  void closed(size_t shard);
  [[nodiscard]] bool is_given_up(size_t shard, const View& view) const;
  void take_fork(size_t shard, const View& view);
  void drop_damaged(size_t shard, const View& view);
  void destroy(size_t shard);
  void on_copy_asked(size_t shard, NodeId from);
  void on_copy(size_t shard, NodeId from, const ShardCopy& copy);

  // cluster_node_agent.cc
  void agent_tick();
  void hurry_agent();
  void ask_control(std::optional<control::Event> event, uint64_t number);
  void ask_map();

  // cluster_node_requests.cc
  void read(Request& request);
  void found(Request& request);
  void check_read(Request& request);
  void write(Request& request);
  void written(WriteOp& op);
  void redirect(Request& request);
  void serve(Request& request, const char* how);
  void answer(Request& request, const ClientReply& reply);

  SimKernel& kernel_;
  Oracle& oracle_;
  const ClusterSimOptions& options_;
  NodeSurroundings& world_;
  const size_t number_;

  // What outlives the process: files.
  std::unique_ptr<Machine> machine_;
  control::NodeInfo info_;
  NodeId id_ = 0;
  std::map<size_t, View> views_;         // durable
  std::map<size_t, uint64_t> unsynced_;  // durable, as kvstore/node/unsynced_shards.h
  uint64_t boot_ = 1;                    // of the machine
  uint64_t wipes_ = 0;

  // The process.
  uint64_t life_ = 0;
  bool up_ = false;
  TimeNs paused_until_ = 0;
  std::map<ShardId, absl::Status> refused_;
  std::deque<absl::AnyInvocable<void()>> tasks_;
  std::unique_ptr<ReaderPool> readers_;
  std::unique_ptr<WorkerEngine> engine_;
  std::vector<Held> held_;
  std::list<std::unique_ptr<Request>> requests_;
  std::unique_ptr<ReplicaFindings> findings_;
  control::ReplicaReport report_;
  MapPtr map_;
  std::map<NodeId, uint64_t> heard_lives_;

  // The agent.
  bool registered_ = false;
  size_t control_ = 0;
  uint64_t asked_ = 0;    // the last request's number
  uint64_t awaited_ = 0;  // 0: no answer is waited for
  uint64_t agent_round_ = 0;
  TimeNs map_asked_ns_ = 0;

  // Events under way.
  bool poll_scheduled_ = false;
  bool log_scheduled_ = false;
  bool applier_scheduled_ = false;
  bool log_failed_ = false;
  TimeNs timer_at_ = kTimeNever;
  TimeNs housekeeping_ns_ = 0;

  // The disk.
  TimeNs disk_hangs_until_ = 0;

  // boot clock = clock_base_ + (true - clock_since_) * (1 + rate / 10^6); the wall clock steps
  TimeNs clock_base_ = 0;
  TimeNs clock_since_ = 0;
  int64_t clock_ppm_ = 0;
  int64_t wall_off_ms_ = 0;
  LivedTime lived_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NODE_H_
