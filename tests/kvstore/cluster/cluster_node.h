// A storage node: a machine whose disk outlives processes, clocks of its own, and a process with one production worker
// (sim_worker.h) and the production decisions about its shards (ShardLifecycle, ReplicaFindings). The process is
// killed, paused and started again.
//
//    control plane --- map ---> ShardLifecycle --> open, tell views, leave, replace        cluster_node_shards.cc
//         ^--- register, heartbeat, findings ---+                                          cluster_node_agent.cc
//    clients, peers --- SimWire ---> SimWorker                                             cluster_node.cc: poll()
//    peers --- offers of sessions ---> its endpoint                                        cluster_node_peers.cc
//                                                  +--- the oracle looks ---+              cluster_node_views.cc
//
//    copies: SnapshotSource, SnapshotCopies over SimFileTree                               cluster_node_copies.cc
//
// Events do here what threads do in production (worker.h, shard_manager.h, node_agent.h), and they take time.
//
// Sessions deliver each message once. So the node also gives its peers messages of replicas once more, and late: a
// peer sends again what it does not hear of, and such copies arrive at any time.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NODE_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NODE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/node/replica_findings.h"
#include "kvstore/node/shard_lifecycle.h"
#include "kvstore/snapshot/snapshot_copy.h"
#include "kvstore/snapshot/snapshot_source.h"
#include "kvstore/types/machine_clock.h"
#include "tests/kvstore/cluster/cluster_names.h"
#include "tests/kvstore/cluster/control_process.h"
#include "tests/kvstore/cluster/sim_copying.h"
#include "tests/kvstore/cluster/sim_files.h"
#include "tests/kvstore/cluster/sim_worker.h"
#include "tests/kvstore/replication/oracle.h"
#include "tests/kvstore/replication/sim_client.h"
#include "tests/kvstore/shard/crash_machine.h"

namespace skua::kv::sim {

/// What does not go over sessions: a message of a replica that arrives once more. Between two processes; it reaches no
/// other.
struct NodeMessage {
  ReplicaId from;
  uint64_t from_life = 0;
  NodeId to = 0;
  size_t shard = 0;
  ReplicaMessage body;
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
  /// Asks another node's bootstrap service. `done` runs once, with the answer or an error.
  virtual void describe(ClusterNode& from, const std::string& address, PeerBootstrap::DescribeFn done) = 0;
  virtual void open_session(ClusterNode& from, const control::OpenSessionRequest& request,
                            PeerBootstrap::OpenSessionFn done) = 0;
  [[nodiscard]] virtual bool is_healed() const = 0;
  /// Its replica takes an entry for committed.
  virtual void entry_committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) = 0;
  /// Its replica of the shard has just been opened.
  virtual void shard_opened(ClusterNode& node, size_t shard) = 0;
  /// The map's view of a shard, as it is told.
  virtual void view_told(size_t shard, const View& view) = 0;
  /// It has ended itself, or its machine is off.
  virtual void process_ended(ClusterNode& node) = 0;
};

class ClusterNode final : public MachineClock,
                          private ReplicaHost,
                          private PeerBootstrap,
                          private SimWorkerHost,
                          private ShardLifecycleHost {
 public:
  /// `number`: 1 or more.
  ClusterNode(SimKernel& kernel, Oracle& oracle, SimWire& wire, const ClusterSimOptions& options,
              NodeSurroundings& world, size_t number);
  ~ClusterNode() override;

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
  /// The readers of databases have much other work.
  void keep_readers_busy_until(TimeNs time) { readers_busy_until_ = std::max(readers_busy_until_, time); }
  void set_disk_full(bool full);
  void fail_syncs(bool fail);
  /// Inverts a bit of the log, while the process is down, where that cannot be taken for a torn end. False: there is no
  /// such place.
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

  /// Has everything applied that is committed: a shard's batch may wait for more effects.
  void hurry_applier();

  // --- Input. The caller sees to it that the process runs.

  /// Runs in this process, when it is not paused, if it still lives.
  void run(TimeNs at, absl::AnyInvocable<void()> then);
  void on_peer(const NodeMessage& message);
  void on_control(const ControlReply& reply);
  void on_map(const MapPtr& map);
  /// An answer of another node's bootstrap service was posted to the worker.
  void bootstrapped() { kick(); }

  // --- The bootstrap service

  [[nodiscard]] control::NodeDescription description() const;
  [[nodiscard]] std::string accept_offer(const std::string& offer);

  // --- MachineClock

  [[nodiscard]] uint64_t unix_ms() const override;
  [[nodiscard]] TimeNs boot_ns() const override { return now(); }

 private:
  // PeerBootstrap
  void describe(const std::string& grpc_address, const std::string& cluster_id, DescribeFn done) override;
  void open_session(const control::OpenSessionRequest& request, OpenSessionFn done) override;

  // ReplicaHost: what the replicas of the worker want. Messages go on to WorkerReplication.
  void send(ShardId shard, NodeId to, const ReplicaMessage& message) override;
  size_t send_entries(ShardId shard, NodeId to, const Append& append, std::span<Entry* const> entries) override;
  void persist_view(ShardId shard, const View& view) override;
  void allow_unsynced(ShardId shard) override;
  void put_in_doubt(ShardId shard) override;
  void restored(ShardId shard) override;
  void report(ShardId shard, const ReplicaReport& report) override;
  void fetch_view(ShardId shard) override;
  void fetch_snapshot(ShardId shard, NodeId from) override;
  void replica_failed(ShardId shard, const absl::Status& why) override;
  [[nodiscard]] const PeerInfo* peer(NodeId node) const override;

  // SimWorkerHost
  void opened(ShardId id, const ReplicaNotes& notes) override;
  void told(ShardId id, const View& view) override { world_.view_told(id.shard, view); }
  void changed(ShardId id) override { observe(id.shard); }
  void stirred() override { kick(); }
  absl::StatusOr<std::unique_ptr<ShardCopy>> build_copy(ShardId id, const std::string& path,
                                                        const std::string& directory) override;
  void install_copy(ShardId id, const std::string& path) override;
  [[nodiscard]] bool disk_reads() const override;
  void copying_says(const std::string& line) override;

  // ShardLifecycleHost
  void database_opened(ShardId id, ShardDb& db, uint32_t worker) override;
  void released_by_worker(ShardId id) override;
  ShardViews take_adopted() override;
  absl::Status ingest_copy(ShardId id, const std::string& path) override;
  absl::Status discard_copy(const std::string& path) override;
  void map_applied(uint64_t revision) override { applied_revision_ = revision; }
  void unserved_changed(const std::map<ShardId, UnservedShard>& unserved) override;

  /// An operator restarts a process that has failed after this time at the latest.
  static constexpr DurationNs kRepairMax = 4 * kSecond;

  /// What the oracle has seen of a shard.
  struct Seen {
    uint64_t last = 0;
    uint64_t commit = 0;
    uint64_t epoch = 0;
  };

  // cluster_node.cc
  void new_machine();
  void start_worker(OpenLog log);
  void later(DurationNs after, absl::AnyInvocable<void()> then);
  void kick(DurationNs after = 0);
  void poll();
  void step_log();
  void step_applier();
  void set_timer(DurationNs wait_ns);
  void plan_disk();
  void end_process(Machine::End how);
  void count_probes() const;
  [[nodiscard]] DurationNs passes(DurationNs by_boot_clock) const;
  void restart_by_operator(DurationNs after);
  [[nodiscard]] const WorkerEngine& engine() const { return worker_->server().engine(); }
  /// As the worker holds the shard, with a replica; null: it does not.
  [[nodiscard]] const HeldShard* serving(size_t shard) const;

  // cluster_node_peers.cc
  void send_again(ShardId shard, NodeId to, const ReplicaMessage& message, std::span<Entry* const> entries);
  void check_epoch_durable(size_t shard, const ReplicaMessage& message);

  // cluster_node_views.cc
  void observe_all();
  void observe(size_t shard);
  [[nodiscard]] ShardViews durable_views() const;
  [[nodiscard]] LogEntry entry_of(const ReplicaEntry& entry) const;

  // cluster_node_shards.cc
  [[nodiscard]] absl::Status read_files();
  void start_lifecycle();
  /// Something is to be told to the lifecycle.
  void tell_news();
  void step_lifecycle(DurationNs after);

  // cluster_node_copies.cc
  struct Copying {
    explicit Copying(const SimDiskTasks::Schedule& later) : disk(later), builder(later) {}
    std::unique_ptr<SnapshotSource> source;
    SimDiskTasks disk;
    SimDiskTasks builder;
    CopySlots slots{2};
  };
  [[nodiscard]] absl::Status start_copying();
  [[nodiscard]] CopyResources copy_resources();
  [[nodiscard]] absl::StatusOr<SnapshotSource::Exported> export_snapshot(ShardId id, const std::string& path);
  [[nodiscard]] static ClusterId cluster_bytes();

  // cluster_node_agent.cc
  void agent_tick();
  void hurry_agent();
  void ask_control(std::optional<control::Event> event, uint64_t number);
  void ask_map();

  SimKernel& kernel_;
  Oracle& oracle_;
  SimWire& wire_;
  const ClusterSimOptions& options_;
  NodeSurroundings& world_;
  const size_t number_;

  // What outlives the process: files.
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<SimFiles> files_;
  std::unique_ptr<SimFileTree> tree_;  // of copies
  control::NodeInfo info_;
  NodeId id_ = 0;
  uint64_t boot_ = 1;  // of the machine
  uint64_t wipes_ = 0;

  // The process.
  uint64_t life_ = 0;
  bool up_ = false;
  TimeNs paused_until_ = 0;
  std::map<ShardId, absl::Status> refused_;  // when the process started
  NodeState state_;
  ShardViews views_;  // as the files had them after views_read_ changes
  uint64_t views_read_ = 0;
  std::optional<UnsyncedShards> unsynced_;
  std::unique_ptr<ShardLifecycle> lifecycle_;  // has the databases, which the worker uses
  std::unique_ptr<SimWorker> worker_;
  ShardNews news_;
  std::unique_ptr<Copying> copying_;
  std::vector<Seen> seen_;  // by shard
  uint64_t applied_revision_ = 0;
  std::vector<control::ShardRef> unserved_;
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
  bool step_scheduled_ = false;
  bool log_scheduled_ = false;
  bool applier_scheduled_ = false;
  bool log_failed_ = false;
  TimeNs timer_at_ = kTimeNever;  // by the kernel's time
  TimeNs housekeeping_ns_ = 0;

  // The disk.
  TimeNs disk_hangs_until_ = 0;
  TimeNs readers_busy_until_ = 0;

  // boot clock = clock_base_ + (true - clock_since_) * (1 + rate / 10^6); the wall clock steps
  TimeNs clock_base_ = 0;
  TimeNs clock_since_ = 0;
  int64_t clock_ppm_ = 0;
  int64_t wall_off_ms_ = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NODE_H_
