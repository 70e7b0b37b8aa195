// The shards that a worker holds: from the moment a shard is assigned to the worker until its database may be closed.
//
//    expect() ---> opening --- serve(), serve_replica() ---> serving --- remove() ---> leaving ---> on_idle
//                    `------- set_failed() ---> failed                (requests still use it)
//
// A shard is served in one epoch of its assignment. remove() takes a shard from the table at once. Requests that are
// being served keep the shard (HeldShard::use_count). `on_idle` runs when the last of them is answered and the engine
// has closed the shard. Only then may the database be closed.
#ifndef SKUA_KVSTORE_SERVICE_HELD_SHARDS_H_
#define SKUA_KVSTORE_SERVICE_HELD_SHARDS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "kvstore/service/grants.h"
#include "kvstore/service/shard_table.h"
#include "kvstore/service/stats.h"
#include "kvstore/shard/shard_clock.h"
#include "kvstore/shard/shard_replica.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/machine_clock.h"

namespace skua::kv {

/// A shard as its worker sees it.
struct HeldShard {
  enum class State : uint8_t {
    kOpening,  // assigned to this worker; its data are not open yet
    kServing,
    kFailed,  // its data cannot be opened; HeldShard::why has the reason
  };

  ShardId id;
  uint64_t epoch = 0;
  /// Requests that name this epoch are served without further checks. 0: each request needs the full checks of
  /// Admission: always if the shard is replicated, or if `checks_caller`.
  uint64_t plain_epoch = 0;
  State state = State::kOpening;
  /// Who asks matters: the table has grants, or there are quotas.
  bool checks_caller = false;
  const ClosedTable* grants = nullptr;  ///< of the table; null: it is open to all. Valid until the grants change
  std::string why;
  Shard* shard = nullptr;                 ///< kServing; owned by the engine
  std::unique_ptr<ShardReplica> replica;  ///< kServing, and replicated
  /// The epoch in which the shard answers requests. A replica may already have another epoch than `epoch`.
  [[nodiscard]] uint64_t read_epoch() const { return replica == nullptr ? epoch : replica->replica().view().epoch; }
  [[nodiscard]] bool reads_as_backup() const { return replica != nullptr && replica->reads_as_backup(); }
  /// Requests that use the shard. Replies are not counted, because a caller may keep them for ever.
  size_t use_count = 0;
  uint64_t removed_ms = 0;  ///< unix time
  /// Set when the shard is removed. At use_count 0 the engine is asked to close the shard; then this runs.
  absl::AnyInvocable<void()> on_idle;
};

/// Thread: the worker's. Methods that take an id ignore ids that are not held.
class HeldShards {
 public:
  struct Options {
    ShardReplica::Options replica;
    ReplicaHost* replica_host = nullptr;                  ///< outlives the shards; null: no shard is replicated
    const MachineClock* clock = &MachineClock::system();  ///< outlives the shards
  };

  explicit HeldShards(const Options& options) : options_(options) {}
  /// Must come before any other call. `engine` outlives the last call.
  void set_engine(WorkerEngine& engine) { engine_ = &engine; }
  [[nodiscard]] WorkerEngine& engine() const { return *engine_; }

  /// Tells the engine the time, now and then. `now`: the endpoint's.
  void tell_time(TimeNs now) {
    if (now >= next_time_ns_) [[unlikely]] {
      tell_time_now(now);
    }
  }
  /// What tell_time() was told last, to the millisecond. Thread: any.
  [[nodiscard]] const std::atomic<TimeNs>& told_time() const { return told_time_; }
  /// The time of replicas, which goes on while the machine sleeps.
  [[nodiscard]] TimeNs boot_ns() const { return options_.clock->boot_ns(); }
  /// Gives replicas the time. Returns how long they can wait for the next call.
  [[nodiscard]] DurationNs tick();

  // --- Life
  /// Holds the shard as one that is being opened. If the shard is held already, gives it a new epoch.
  void expect(ShardId id, uint64_t epoch);
  /// From now on the shard is served from `db` and from the engine's memory and log. `db` stays open until `on_idle` of
  /// remove() has run.
  void serve(ShardId id, ShardDb& db);
  /// The same for a replica. `self` is this node; `notes` has the last view that was made durable here.
  void serve_replica(ShardId id, ShardDb& db, ReplicaId self, const ReplicaNotes& notes);
  /// The shard's data cannot be opened. Requests are answered with the reason `why`.
  void set_failed(ShardId id, std::string why);
  /// No further request of the shard is served. `on_idle` runs once, when nothing uses the database any longer and the
  /// database has everything; at once if the shard was never served.
  void remove(ShardId id, absl::AnyInvocable<void()> on_idle);
  /// From now on no request is served.
  void drain();
  [[nodiscard]] bool is_draining() const { return is_draining_; }

  /// Replaces the grants, of the shards that are held and of those to come.
  void set_grants(std::shared_ptr<const Grants> grants);
  /// Whether clients have quotas.
  void set_quotas_in_force(bool in_force);

  // --- Use
  /// The shard as it is held here; null: it is not.
  [[nodiscard]] HeldShard* find(ShardId id) const { return table_.find(id); }
  static void use(HeldShard& shard) { ++shard.use_count; }
  /// A request does not use the shard any more.
  void release(HeldShard& shard) {
    --shard.use_count;
    if (shard.on_idle) [[unlikely]] {
      forget_if_idle(shard);
    }
  }
  [[nodiscard]] size_t count() const { return table_.size(); }
  [[nodiscard]] bool has_replicas() const { return replica_count_ > 0; }
  [[nodiscard]] std::vector<LeavingShard> leaving() const;
  /// Shards that are open, and are not served: no replica could be made of their data.
  [[nodiscard]] std::vector<TroubledShard> without_replica() const;

  // --- Inputs of replicas: see ShardReplica.
  /// Sets the shard's epoch, too.
  void set_view(ShardId id, const View& view);
  void view_persisted(ShardId id, uint64_t epoch);
  void unsynced_allowed(ShardId id);
  /// `entries`: those of an Append. `now`: the endpoint's. NOT_FOUND: there is no replica of the shard here (yet).
  /// INVALID_ARGUMENT: as ShardReplica::on_message().
  [[nodiscard]] absl::Status on_replica_message(ShardId id, const ReplicaId& from, const ReplicaMessage& message,
                                                std::span<const ReplicaEntry> entries, TimeNs now);
  void on_link(NodeId peer, ShardReplica::LinkInput input);
  /// The shard's replica stops sending and taking messages and writes, because its data are about to be replaced. Until
  /// the shard is served again.
  void retire(ShardId id);

  // --- For copies of databases, like the methods of ShardReplica
  /// The state of the shard's replica; null: there is none here.
  [[nodiscard]] const Replica* replica(ShardId id) const;
  /// UNAVAILABLE: this node does not lead the shard, or the shard is not open yet.
  [[nodiscard]] absl::StatusOr<uint64_t> hold_entries(ShardId id);
  void release_entries(ShardId id, uint64_t hold);
  [[nodiscard]] absl::StatusOr<Append> read_tail(ShardId id, NodeId reader, uint64_t after, size_t bytes_max,
                                                 std::vector<Entry*>& pinned);

 private:
  void tell_time_now(TimeNs now);
  [[nodiscard]] ShardReplica* replica_of(ShardId id) const;
  void forget_if_idle(HeldShard& shard);
  void set_checks(HeldShard& shard) const;

  const Options options_;
  WorkerEngine* engine_ = nullptr;
  ShardTable<HeldShard> table_;
  std::vector<std::unique_ptr<HeldShard>> shards_;  // also removed ones that requests still use
  size_t replica_count_ = 0;                        // of shards_
  std::shared_ptr<const Grants> grants_ = std::make_shared<const Grants>();
  bool quotas_in_force_ = false;
  bool is_draining_ = false;
  TimeNs next_time_ns_ = 0;  // when the engine is told the time next
  std::atomic<TimeNs> told_time_{0};
  LivedTime lived_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_HELD_SHARDS_H_
