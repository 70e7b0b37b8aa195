// ShardReplica: the pure replica (kvstore/replication) of one shard, its entries in the worker's engine, and its peers.
//
//     peers --- on_message ---+                        +--> entries to the engine's log, or forgotten there
//     engine --- proposed ----+--> Replica --- flush --+--> messages, with entries' bytes as they lie in the engine
//              - log_moved ---+                        +--> commit_entries, lead, follow
//     control plane - set_view+                        +--> views to be made durable, reports
//
// Inputs only change the replica; what follows from them is done by flush(), after each burst and tick, or at once where
// nothing of the engine is on the stack. Time is that of a clock that goes on while the machine sleeps.
//
// Reads. A linearizable read looks at the value first and asks may_read() afterwards. If that says no, confirm() tells later
// whether this replica was still the primary after the question. In tables that are read anywhere backups answer, too: a write
// that was acknowledged is in each member's log, so a key that nothing in the log is about to change (is_settled()) shows here
// what it shows at the primary, as long as the promises of all other members hold. Nobody is asked instead: who cannot answer
// sends clients to the primary.
#ifndef SKUA_KVSTORE_SHARD_SHARD_REPLICA_H_
#define SKUA_KVSTORE_SHARD_SHARD_REPLICA_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kvstore/replication/replica.h"
#include "kvstore/shard/replica_notes.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/barrier.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// What a replica needs of its surroundings. Called on the worker's thread; must not call back into the replica.
class ReplicaHost {
 public:
  /// A message to the replica of the shard at `to`. May be lost; a way that is broken is told by peer_failed().
  virtual void send(ShardId shard, NodeId to, const ReplicaMessage& message) = 0;
  /// An Append with its entries, which the host unpins when the wire has let go of them. How many of them, from the first on, are
  /// on their way.
  virtual size_t send_entries(ShardId shard, NodeId to, const Append& append,
                              std::span<ReplicaRecord* const> entries) = 0;
  /// view_persisted() follows when the view is durable.
  virtual void persist_view(ShardId shard, const View& view) = 0;
  /// From now on this replica acknowledges what is written and not synced: a power cut would put it in doubt.
  /// unsynced_allowed() follows when that is written down durably.
  virtual void allow_unsynced(ShardId shard) = 0;
  /// The log has failed, and may have lost what was acknowledged without a sync: the next life begins in doubt.
  virtual void put_in_doubt(ShardId shard) = 0;
  /// ReplicaNotes::doubt is over.
  virtual void restored(ShardId shard) = 0;
  /// To the control plane; the same may come again.
  virtual void report(ShardId shard, const ReplicaReport& report) = 0;
  /// The control plane has a newer view than this replica.
  virtual void fetch_view(ShardId shard) = 0;
  /// The log of the primary does not reach back to this replica's end: its state must be copied.
  virtual void fetch_snapshot(ShardId shard, NodeId from) = 0;
  /// This replica's state is of no use any more.
  virtual void replica_failed(ShardId shard, const absl::Status& why) = 0;

 protected:
  ~ReplicaHost() = default;
};

/// Thread: the worker's.
class ShardReplica {
 public:
  struct Options {
    ReplicaOptions replica;
    size_t keep_bytes = size_t{16} << 20;  ///< of entries, for peers that lag
    size_t hold_bytes = size_t{64} << 20;  ///< of entries, while learners get copies of the database
    size_t confirms_max = 4096;            ///< reads that wait for a round
  };

  /// `shard` has just been opened in `engine`. DATA_LOSS if what the engine has is no replica's.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardReplica>> create(const Options& options, ShardId id,
                                                                            ReplicaId self, const ReplicaNotes& notes,
                                                                            WorkerEngine& engine, EngineShard& shard,
                                                                            ReplicaHost& host, TimeNs now);
  ShardReplica(const ShardReplica&) = delete;
  ShardReplica& operator=(const ShardReplica&) = delete;
  /// Answers reads that wait.
  ~ShardReplica();

  // --- Input
  void set_view(const View& view, TimeNs now);
  void view_persisted(uint64_t epoch, TimeNs now);
  void unsynced_allowed(TimeNs now);
  /// `entries`: an Append's.
  void on_message(NodeId from, const ReplicaMessage& message, std::span<const ReplicaEntry> entries, TimeNs now);
  void peer_failed(NodeId peer, TimeNs now);
  /// There is room, again or for the first time, on the way to the peer.
  void peer_ready(NodeId peer, TimeNs now);
  /// From the engine, perhaps in the middle of one of its calls: flush() follows.
  void proposed(const ReplicaEntry& entry, TimeNs now);
  void log_moved(bool refused);
  void flush(TimeNs now);
  void tick(TimeNs now);
  /// When tick() must come next even if nothing happens.
  [[nodiscard]] TimeNs wake_at() const;
  /// The node goes down: no further write is taken, and those under way are answered.
  void retire();

  // --- Reads and writes
  /// The shard's primary, ready for requests.
  [[nodiscard]] bool is_serving() const { return leading_ && replica_.open(); }
  [[nodiscard]] bool takes_writes() const { return is_serving() && replica_.can_propose(); }
  /// A backup that answers reads, of what is_settled().
  [[nodiscard]] bool reads_as_backup() const { return watches_; }
  [[nodiscard]] bool is_settled(std::string_view key) const { return WorkerEngine::is_settled(shard_, key); }
  [[nodiscard]] bool is_settled() const { return WorkerEngine::is_settled(shard_); }
  /// Whether what was read before this call, in this epoch, is linearizable. Cheap.
  [[nodiscard]] bool may_read(TimeNs now) const { return (leading_ || watches_) && replica_.may_serve_read(now); }
  /// `done(true)`: what is read from now on is at least as new as when this was called. `done(false)`: not the primary, or too
  /// many wait. Perhaps before it returns.
  using Confirmed = absl::AnyInvocable<void(bool)>;
  void confirm(Confirmed done, TimeNs now);

  // --- Copies of the database
  /// It leads, though perhaps not ready for requests: a member that lost what it had acknowledged may need a copy before it is. The
  /// database and the entries kept are all that was committed.
  [[nodiscard]] bool gives_copies() const { return !failed_ && replica_.role() == ReplicaRole::kPrimary; }
  /// From now on entries that the database does not have yet are kept, up to Options::hold_bytes, so that whoever gets a copy
  /// of it finds what follows. To be given back.
  [[nodiscard]] uint64_t hold_entries();
  void release_entries(uint64_t hold);
  /// For `reader`, which has a copy of the database and the entries up to `after`: pins committed ones that follow, about `bytes_max`
  /// at most, and keeps those behind them for a while, up to Options::hold_bytes. The header that says which they are.
  /// UNAVAILABLE: not the primary, or not ready. OUT_OF_RANGE: what follows is not kept any more. INVALID_ARGUMENT: it is
  /// ahead.
  [[nodiscard]] absl::StatusOr<Append> read_tail(NodeId reader, uint64_t after, size_t bytes_max, TimeNs now,
                                                 std::vector<ReplicaRecord*>& pinned);

  [[nodiscard]] const Replica& replica() const { return replica_; }
  [[nodiscard]] ShardId id() const { return id_; }
  /// Why it does not serve, for clients. A read that was refused because of may_read() is not explained.
  [[nodiscard]] std::string why_not() const;

 private:
  struct Waiter {
    uint64_t round = 0;
    Confirmed done;
  };

  ShardReplica(const Options& options, ShardId id, ReplicaId self, Replica::Restart restart, bool may_unsync,
               WorkerEngine& engine, EngineShard& shard, ReplicaHost& host, TimeNs now);
  void act(std::span<const ReplicaEntry> entries, TimeNs now);
  void change_epoch();
  void withdraw(TimeNs now);
  void accept(std::span<const ReplicaEntry> entries, TimeNs now);
  void append_barrier(TimeNs now);
  void join_sends();
  void send_entries(const ReplicaOutput::Send& send);
  void report_progress(TimeNs now);
  void note_unsynced();
  void sync_now_and_then(TimeNs now);
  void follow_commits();
  void watch();
  void answer_confirmed();
  void note_pause(TimeNs now);
  void trim(TimeNs now);

  const Options options_;
  const ShardId id_;
  const NodeId self_;
  WorkerEngine& engine_;
  EngineShard& shard_;
  ReplicaHost& host_;
  Replica replica_;
  ReplicaOutput out_;
  uint64_t epoch_ = 0;  // the engine's
  bool leading_ = false;
  bool dirty_ = false;    // flush() has something to do
  bool watches_ = false;  // as a backup, for reads
  bool log_moved_ = false;
  bool log_refused_ = false;
  bool failed_ = false;
  enum class Unsynced : uint8_t { kRefused, kAsked, kAllowed };
  Unsynced unsynced_ = Unsynced::kRefused;  // acknowledgements of what is written and not synced
  TimeNs next_sync_ns_ = 0;
  TimeNs next_report_ns_ = 0;
  TimeNs ticked_ns_ = 0;
  std::multiset<uint64_t> holds_;  // first indices that copies need
  struct TailReader {
    uint64_t needs_from = 0;
    TimeNs asked_ns = 0;
  };
  std::map<NodeId, TailReader> tail_readers_;
  std::deque<Waiter> waiters_;
  std::vector<ReplicaRecord*> pinned_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_REPLICA_H_
