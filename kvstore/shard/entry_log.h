// The entries of a replicated shard that this replica has.
//
//    primary    evaluated write -> entry -> log, peers
//    others     from the primary -> entry -> log
//
//    entries   | applied, kept for peers | committed | not committed |
//              first                     |           commit_limit    last
//
// An entry owns its bytes, because a peer may ask for it long after its write was answered. The code outside
// (kvstore/replication) decides which entries are committed, by what the logs of all replicas have.
#ifndef SKUA_KVSTORE_SHARD_ENTRY_LOG_H_
#define SKUA_KVSTORE_SHARD_ENTRY_LOG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "kvstore/shard/entry.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/shard_log.h"
#include "kvstore/shard/tail_rows.h"
#include "kvstore/shard/uncommitted_keys.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/storage/replica_rows.h"

namespace skua::kv {

/// What a replicated shard tells and asks about its entries. Called on the worker's thread, perhaps in the middle of a
/// call of the shard, so it must not call back.
class EntryObserver {
 public:
  /// The entry of a write is in the log's queue.
  virtual void proposed(const ReplicaEntry& entry) = 0;
  /// The log has written or synced entries, or has given some back. `refused`: the log had no room for entries, so the
  /// shard does not lead any more. The refused entries are dropped if they are not committed.
  virtual void log_moved(bool refused) = 0;
  /// Why no entry may have a mark now. Empty: entries may.
  [[nodiscard]] virtual std::string why_no_marks() const = 0;

 protected:
  ~EntryObserver() = default;
};

/// Thread: the worker's.
class EntryLog {
 public:
  /// `rows`: what the shard's database has in rows.
  EntryLog(ShardContext& shard, ShardLog& log, ReplicaRows&& rows);
  /// Entries that are still being sent to peers are released when they are unpinned.
  ~EntryLog();
  EntryLog(const EntryLog&) = delete;
  EntryLog& operator=(const EntryLog&) = delete;

  /// The epoch runs of the last barrier that was applied before the shard was opened (replica_rows.h); empty: none was.
  [[nodiscard]] const std::string& runs() const { return runs_; }

  /// `observer` lives until close(). Null: nobody is told.
  void set_observer(EntryObserver* observer) { observer_ = observer; }
  /// From now on the log's records have this epoch. An epoch lower than the current one changes nothing.
  void raise_epoch(uint64_t epoch) { log_.raise_epoch(epoch); }

  // --- Leading (Shard::lead(), Shard::follow())
  /// From now on writes become entries of `epoch`.
  void lead(uint64_t epoch);
  /// False: this replica did not lead.
  bool stop_leading() { return std::exchange(leading_, false); }
  /// While this replica leads and is `on_hold`, it refuses writes that are not entries yet, also those that wait for
  /// the database.
  void hold_writes(bool on_hold) { on_hold_ = on_hold; }
  /// Why no write may become an entry now. Empty: writes may.
  [[nodiscard]] std::string_view refusal() const;
  /// How often this replica began to lead. Between two times others may have led: a write of an earlier time may have
  /// been repeated there, and what was read for it may be old.
  [[nodiscard]] uint64_t leadership() const { return leadership_; }
  /// Why no entry may have a mark now (types/record_mark.h). Empty: entries may.
  [[nodiscard]] std::string why_no_marks() const {
    return observer_ == nullptr ? std::string() : observer_->why_no_marks();
  }
  /// Gives the entry of an evaluated write to the log. Errors: the log takes no record now; then nothing was given.
  [[nodiscard]] absl::Status propose(WriteOp& op);

  // --- New entries
  /// Appends an entry behind the last one: an entry from the primary, or this replica's own barrier. The bytes are
  /// copied. RESOURCE_EXHAUSTED: there is no room now. INVALID_ARGUMENT: it is not a valid next entry. Other errors:
  /// the shard or the log has failed.
  [[nodiscard]] absl::Status append(const ReplicaEntry& entry);
  /// False: too many bytes of entries wait to be committed, in the whole worker and in this shard. The primary must
  /// wait, or is faulty. `inherited`: the entry was made before its primary began to lead, or is the primary's barrier;
  /// more of these are taken.
  [[nodiscard]] bool has_room(bool inherited) const;
  /// Drops the entries behind `index`. They must not be committed, and the shard must not lead (checked).
  void truncate(uint64_t index);

  // --- What the log says
  /// The log has given the entry back. If it had no room for it, the shard does not lead any more.
  void take_back(Entry& entry);
  /// Everything that the log has written is synced.
  void synced();
  /// Tells the observer what was taken back and synced since the last call.
  void tell_log_moved();

  // --- Committed entries
  /// Entries up to this index are committed, and may be applied.
  [[nodiscard]] uint64_t commit_limit() const { return commit_limit_; }
  void commit(uint64_t index) { commit_limit_ = std::max(commit_limit_, std::min(index, shard_.at.last)); }
  [[nodiscard]] bool is_committed(uint64_t index) const { return index <= commit_limit_; }
  /// The entry is in memory.
  void applied(Entry& entry);

  // --- Entries kept for peers
  /// Null: the entry is not kept. Valid until the next call that changes the shard; if it is pinned, until unpin().
  [[nodiscard]] Entry* find(uint64_t index) const;
  /// Forgets the oldest entries, as far as the database has them. Entries below `needed_from` go while more than a
  /// quarter of `bytes_max` is kept, later entries while more than `bytes_max` is kept. Returns the first index that is
  /// kept.
  uint64_t trim(uint64_t needed_from, size_t bytes_max);

  // --- Reads of a replica that does not lead
  /// `on`: from now on is_settled() knows of single keys. Off: it does not.
  void watch_uncommitted(bool on);
  /// True: all entries are in memory.
  [[nodiscard]] bool is_settled() const { return shard_.at.committed == shard_.at.last; }
  /// True: no entry that is not in memory yet touches the key. Without watch_uncommitted(): as is_settled().
  [[nodiscard]] bool is_settled(std::string_view key) const {
    return is_settled() || (uncommitted_.active() && !uncommitted_.touches(key, shard_.at.committed));
  }

  // --- Rows
  [[nodiscard]] TailRows& rows() { return rows_; }
  /// The shard is being closed. The observer is not called any more.
  void close() {
    observer_ = nullptr;
    rows_.close(entries_);
  }
  /// See TailRows.
  [[nodiscard]] bool keep_pinning(uint64_t index) { return rows_.keep_pinning(index, entries_); }

 private:
  [[nodiscard]] absl::Status submit(Entry& entry);
  [[nodiscard]] absl::Status check(const ReplicaEntry& entry);
  void uncount(Entry& entry);

  ShardContext& shard_;
  ShardLog& log_;
  TailRows rows_;
  TailRows::Entries entries_;  // in the order of their indices, without gaps, up to the shard's last one
  size_t bytes_ = 0;           // of the payloads in entries_
  uint64_t commit_limit_ = 0;
  size_t uncommitted_bytes_ = 0;  // of entries that were counted
  UncommittedKeys uncommitted_;   // of entries that are not in memory, while a backup answers reads
  const std::string runs_;
  absl::flat_hash_set<std::string_view> keys_;  // scratch of check()

  EntryObserver* observer_ = nullptr;
  bool leading_ = false;
  uint64_t leadership_ = 0;
  bool on_hold_ = false;    // while leading: no new entries now
  uint64_t epoch_ = 0;      // while leading: the epoch of new entries
  bool log_moved_ = false;  // the observer is to be told
  bool log_refused_ = false;
  bool unsynced_ = false;  // the log has written entries that it has not synced
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ENTRY_LOG_H_
