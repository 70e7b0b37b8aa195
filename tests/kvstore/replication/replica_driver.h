// Joins one replica with its storage, its clients and its peers, as a node of the store does.
//
// What a driver must respect
//   - an Output is carried out in order: view, truncate, append, messages. When the log refuses, the messages of that
//     Output are not sent (they acknowledge what is not there), and log_refused_after() is told.
//   - a message has the ReplicaId that sent it; when a later process of the sender was heard, messages of an earlier one
//     are dropped
//   - whenever a call leaves the replica not open(), everything that waits for it is forgotten: proposed entries (their
//     clients learn nothing), sampled reads, rounds of Confirm
//   - reads: sample, then ask, within one leadership (primary) or epoch (backup). A condition that does not hold is an
//     entry without effect, so it needs no lease.
//   - acknowledgements wait for members.size() >= min_insync
//   - the state is flushed only as far as the log is durable, the log trimmed only as far as the state is flushed
//   - a snapshot is asked about (snapshot_fit) at the moment it replaces the state
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_DRIVER_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_DRIVER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/model_storage.h"
#include "tests/kvstore/replication/replication_options.h"
#include "tests/kvstore/replication/shard_state.h"
#include "tests/kvstore/replication/sim_client.h"

namespace skua::kv::sim {

class ReplicaDriver;

/// What a driver's process gives it. Times are of the node's clock.
class DriverHost {
 public:
  virtual ~DriverHost() = default;
  [[nodiscard]] virtual TimeNs now() const = 0;
  virtual void send(size_t shard, NodeId to, const ReplicaMessage& message, std::vector<LogEntry> entries) = 0;
  virtual void report(size_t shard, const ReplicaReport& report) = 0;
  virtual void ask_view(size_t shard) = 0;
  virtual void ask_snapshot(size_t shard, NodeId source) = 0;
  virtual void send_snapshot(size_t shard, NodeId to, const ShardState& state, EntryId base) = 0;
  virtual void reply(const ClientReply& reply) = 0;
  /// Runs unless the process ends before.
  virtual void later(DurationNs after, absl::AnyInvocable<void()> then) = 0;
  /// A replica takes this entry for committed.
  virtual void committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) = 0;
  virtual void fail_process() = 0;
};

class Oracle;

class ReplicaDriver final : public ShardStorage::Sink {
 public:
  ReplicaDriver(SimKernel& kernel, Oracle& oracle, const ReplicationSimOptions& options, DriverHost& host, size_t shard,
                ReplicaId self, ShardStorage& storage);

  // --- Input

  void on_view(const View& view);
  void on_message(ReplicaId from, const ReplicaMessage& message, const std::vector<LogEntry>& entries);
  void on_request(const ClientRequest& request);
  void on_snapshot_asked(NodeId from);
  void on_snapshot(const ShardState& state, EntryId base);
  void peer_failed(NodeId peer);
  void log_moved() override;
  void view_durable(uint64_t epoch) override;

  [[nodiscard]] const Replica& replica() const { return replica_; }
  [[nodiscard]] const ShardState& state() const { return state_; }
  /// For the end of a run.
  void catch_up() { apply(); }

 private:
  struct Pending {
    uint64_t index = 0;
    ClientRequest request;
    LogEntry entry;
  };
  struct Read {
    ClientRequest request;
    Item item;
    uint64_t shown_before = 0;
    uint64_t round = 0;
  };

  ReplicaDriver(SimKernel& kernel, Oracle& oracle, const ReplicationSimOptions& options, DriverHost& host, size_t shard,
                ReplicaId self, ShardStorage& storage, ShardStorage::Found found);

  // replica_driver.cc
  void take(ReplicaOutput& out, const Append* append = nullptr, const std::vector<LogEntry>* entries = nullptr);
  [[nodiscard]] bool to_log(const LogEntry& entry, ReplicaOutput& out);
  [[nodiscard]] bool log_what_was_taken(ReplicaOutput& out, const Append* append, const std::vector<LogEntry>* entries);
  void send_all(const ReplicaOutput& out);
  void settle();
  void follow_commit();
  void apply();
  void keep_house();
  void fetch_snapshot();
  void set_timer();

  // replica_driver_clients.cc
  void on_read(const ClientRequest& request);
  void check_read(Read read, uint64_t term);
  void on_write(const ClientRequest& request);
  [[nodiscard]] bool is_repeated(const ClientRequest& request);
  [[nodiscard]] LogEntry evaluate(const ClientRequest& request) const;
  [[nodiscard]] bool is_dirty(uint32_t key) const;
  [[nodiscard]] Read sample(const ClientRequest& request);
  void answer(const Read& read, Probe how, const char* how_text);
  void acknowledge(const ClientRequest& request, int64_t result, uint64_t index);
  void redirect(const ClientRequest& request);
  void settle_clients();
  [[nodiscard]] uint64_t term() const;

  SimKernel& kernel_;
  Oracle& oracle_;
  const ReplicationSimOptions& options_;
  DriverHost& host_;
  const size_t shard_;
  const ReplicaId self_;
  ShardStorage& storage_;
  ShardState state_;
  Replica replica_;

  uint64_t seen_commit_ = 0;
  TimeNs timer_at_ = kTimeNever;
  TimeNs flush_at_ = 0;
  TimeNs snapshot_until_ = 0;
  bool was_open_ = false;
  uint64_t leadership_ = 0;  // counts those of this replica
  std::deque<Pending> pending_;
  std::deque<Read> confirming_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_REPLICA_DRIVER_H_
