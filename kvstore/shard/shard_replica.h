// ShardReplica: connects one shard's replica (the state machine of kvstore/replication), the shard, which has the
// entries, and its peers.
//
//     peers --- on_message ---+                        +--> entries to the shard's log, or forgotten there
//     shard --- proposed -----+--> Replica --- flush --+--> messages, with entries' bytes as they lie in the shard
//             - log_moved ----+                        +--> commit_entries, lead, follow
//     control plane - set_view+                        +--> views to be made durable, reports
//
// An input from the shard only changes the replica. flush() then does what follows from it: at each tick, and before a
// view or a message is taken. Other inputs act at once, because no call of the shard is on the stack then.
// Time is that of a clock that goes on while the machine sleeps.
//
// Reads. A linearizable read looks at the value first and calls may_read() afterwards. If may_read() says no, confirm()
// tells later whether this replica was still the primary after the question. In tables that are read anywhere backups
// answer, too. A write that was acknowledged is in each member's log. So a backup shows the same as the primary for a
// key that no entry in its log is about to change (is_settled()), as long as the promises of all other members hold. A
// backup that cannot answer asks no other node: it sends the client to the primary.
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
#include "kvstore/shard/shard.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/types/machine_clock.h"
#include "kvstore/types/peer_info.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// What a replica needs from the rest of the node. Called on the worker's thread. Must not call back into the replica.
class ReplicaHost {
 public:
  /// Sends a message to the shard's replica at `to`. The message may be lost. If the link is broken, on_link() tells.
  virtual void send(ShardId shard, NodeId to, const ReplicaMessage& message) = 0;
  /// Sends an Append with its entries. The host unpins each entry when the transport has released its bytes. Returns
  /// how many entries, from the first on, are on their way.
  virtual size_t send_entries(ShardId shard, NodeId to, const Append& append, std::span<Entry* const> entries) = 0;
  /// Makes the view durable. view_persisted() follows.
  virtual void persist_view(ShardId shard, const View& view) = 0;
  /// This replica wants to acknowledge entries that are written but not synced; after a power cut it would be in doubt.
  /// unsynced_allowed() follows when that is stored durably.
  virtual void allow_unsynced(ShardId shard) = 0;
  /// The log has failed, and may have lost entries that were acknowledged without a sync. The replica's next life must
  /// begin in doubt.
  virtual void put_in_doubt(ShardId shard) = 0;
  /// The doubt of ReplicaNotes::doubt is over.
  virtual void restored(ShardId shard) = 0;
  /// Sends a report to the control plane. The same report may come again.
  virtual void report(ShardId shard, const ReplicaReport& report) = 0;
  /// The control plane has a newer view than this replica: fetch it.
  virtual void fetch_view(ShardId shard) = 0;
  /// The primary's log does not reach back to the end of this replica's log: copy the shard's state.
  virtual void fetch_snapshot(ShardId shard, NodeId from) = 0;
  /// This replica's state cannot be used any more.
  virtual void replica_failed(ShardId shard, const absl::Status& why) = 0;
  /// The node, as the shard map describes it. Null: it is not known, or is this node itself. Valid until the host
  /// returns to its loop.
  [[nodiscard]] virtual const PeerInfo* peer(NodeId node) const = 0;

 protected:
  ~ReplicaHost() = default;
};

/// Thread: the worker's.
class ShardReplica final : public EntryObserver {
 public:
  struct Options {
    ReplicaOptions replica;
    size_t keep_bytes = size_t{16} << 20;  ///< of entries that are kept for peers that lag
    size_t hold_bytes = size_t{64} << 20;  ///< of entries that are kept while copies of the database are made
    size_t confirms_max = 4096;            ///< reads that wait for a round of Confirm
  };

  /// Makes a replica of `shard`, which was just opened. Host and clock outlive the replica. So does the shard, or it is
  /// closed right after the replica's end. DATA_LOSS: the shard's data are not those of a replica.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardReplica>> create(const Options& options, ReplicaId self,
                                                                            const ReplicaNotes& notes, Shard& shard,
                                                                            ReplicaHost& host,
                                                                            const MachineClock& clock);
  ShardReplica(const ShardReplica&) = delete;
  ShardReplica& operator=(const ShardReplica&) = delete;
  /// Answers the waiting confirm() calls with false.
  ~ShardReplica();

  // --- Input
  /// A view from the control plane.
  void set_view(const View& view, TimeNs now);
  /// The view of this epoch, or of a later one, is durable.
  void view_persisted(uint64_t epoch, TimeNs now);
  /// It is durable that this replica may acknowledge entries that are not synced: the answer to allow_unsynced().
  void unsynced_allowed(TimeNs now);
  /// A message from the replica `from` (see Replica). `entries`: those of an Append; empty for other messages. They are
  /// copied.
  ///
  /// INVALID_ARGUMENT: an entry cannot be taken here, however often it is sent: the message says why.
  [[nodiscard]] absl::Status on_message(const ReplicaId& from, const ReplicaMessage& message,
                                        std::span<const ReplicaEntry> entries, TimeNs now);
  /// What has become of the link to a peer: Replica::peer_failed, peer_ready or peer_has_room.
  using LinkInput = void (Replica::*)(NodeId peer, TimeNs now, ReplicaOutput& out);
  void on_link(NodeId peer, LinkInput input, TimeNs now);
  /// From the shard, perhaps in the middle of one of its calls. What follows from it is done by flush().
  void proposed(const ReplicaEntry& entry) override;
  void log_moved(bool refused) override;
  /// Names a member or learner of the view whose build is too old.
  [[nodiscard]] std::string why_no_marks() const override;
  /// Does what follows from the inputs of the shard.
  void flush(TimeNs now);
  /// Call at wake_at(), or more often.
  void tick(TimeNs now);
  /// The time at which tick() must be called even if nothing happens before.
  [[nodiscard]] TimeNs wake_at() const;
  /// The replica ends: no further write is taken, uncommitted writes are answered, and waiting confirm() calls get
  /// false.
  void retire();

  // --- Reads and writes
  /// True: this replica is the shard's primary, and ready for requests.
  [[nodiscard]] bool is_serving() const { return leading_ && replica_.open(); }
  [[nodiscard]] bool takes_writes() const { return is_serving() && replica_.can_propose(); }
  /// True: this replica is a backup that answers reads of keys for which is_settled() is true.
  [[nodiscard]] bool reads_as_backup() const { return watches_; }
  [[nodiscard]] bool is_settled(std::string_view key) const { return shard_.entries().is_settled(key); }
  [[nodiscard]] bool is_settled() const { return shard_.entries().is_settled(); }
  /// True: a value that was read in this epoch, before this call, is linearizable. Cheap.
  [[nodiscard]] bool may_read(TimeNs now) const { return (leading_ || watches_) && replica_.may_serve_read(now); }
  /// Asks the members whether this replica is still the primary. `done(true)`: it was still the primary after the call.
  /// So a value that was read before the call is not stale, and what is read from now on is at least as new as the
  /// state at the call. `done(false)`: this is not the primary, or too many reads wait. `done` may run before confirm()
  /// returns.
  using Confirmed = absl::AnyInvocable<void(bool)>;
  void confirm(Confirmed done, TimeNs now);

  // --- Copies of the database
  /// True: this replica is the primary, perhaps not ready for requests yet. A member that lost entries which it had
  /// acknowledged may need a copy before the primary gets ready. The database and the kept entries have everything that
  /// was committed.
  [[nodiscard]] bool gives_copies() const { return !failed_ && replica_.role() == ReplicaRole::kPrimary; }
  /// From now on entries that the database does not have yet are kept, up to Options::hold_bytes. So whoever gets a
  /// copy of the database finds the entries that follow. Returns a hold, to be given back by release_entries().
  [[nodiscard]] uint64_t hold_entries() { return *holds_.insert(shard_.db().applied_index() + 1); }
  void release_entries(uint64_t hold);
  /// For node `reader`, which has a copy of the database and the entries up to `after`. Pins the committed entries that
  /// follow, up to about `bytes_max` bytes, and adds them to `pinned`; the caller unpins them. Keeps the entries from
  /// `after` + 1 on for a while, up to Options::hold_bytes. Returns the header of an Append with the pinned entries.
  /// UNAVAILABLE: this replica does not lead. OUT_OF_RANGE: the next entries are not kept any more. INVALID_ARGUMENT:
  /// `after` is not committed here.
  [[nodiscard]] absl::StatusOr<Append> read_tail(NodeId reader, uint64_t after, size_t bytes_max, TimeNs now,
                                                 std::vector<Entry*>& pinned);

  [[nodiscard]] const Replica& replica() const { return replica_; }
  [[nodiscard]] ShardId id() const { return shard_.db().id(); }
  /// Says to clients why this replica does not serve. Empty: it serves, or it leads and may_read() refused; that is not
  /// explained.
  [[nodiscard]] std::string why_not() const;

 private:
  struct Waiter {
    uint64_t round = 0;
    Confirmed done;
  };

  ShardReplica(const Options& options, ReplicaId self, Replica::Restart restart, bool may_unsync, Shard& shard,
               ReplicaHost& host, const MachineClock& clock);
  void act(std::span<const ReplicaEntry> entries, TimeNs now);
  void change_epoch();
  void withdraw(TimeNs now);
  void accept(std::span<const ReplicaEntry> entries, TimeNs now);
  void append_barrier(TimeNs now);
  void join_sends();
  void pin_entries(uint64_t first, uint64_t last, size_t bytes_max, std::vector<Entry*>& pinned) const;
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
  const NodeId self_;
  Shard& shard_;
  ReplicaHost& host_;
  const MachineClock& clock_;
  Replica replica_;
  ReplicaOutput out_;
  uint64_t epoch_ = 0;    // the epoch that the shard was told
  absl::Status refusal_;  // of the message that is being handled: see on_message()
  bool leading_ = false;
  bool dirty_ = false;    // flush() has something to do
  bool watches_ = false;  // as a backup that answers reads: the shard watches uncommitted keys
  bool log_moved_ = false;
  bool log_refused_ = false;
  bool failed_ = false;
  enum class Unsynced : uint8_t { kRefused, kAsked, kAllowed };
  Unsynced unsynced_ = Unsynced::kRefused;  // may entries be acknowledged that are not synced?
  TimeNs next_sync_ns_ = 0;
  TimeNs next_report_ns_ = 0;
  TimeNs ticked_ns_ = 0;
  std::multiset<uint64_t> holds_;  // the first index that each copy needs
  struct TailReader {
    uint64_t needs_from = 0;
    TimeNs asked_ns = 0;
  };
  std::map<NodeId, TailReader> tail_readers_;
  std::deque<Waiter> waiters_;
  std::vector<Entry*> pinned_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_REPLICA_H_
