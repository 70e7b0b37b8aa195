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
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "kvstore/shard/entry.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/shard_log.h"
#include "kvstore/shard/tail_rows.h"
#include "kvstore/shard/uncommitted_keys.h"
#include "kvstore/storage/replica_rows.h"

namespace skua::kv {

/// The state that a replicated shard finds when it is opened (replica_rows.h).
struct ReplicaStart {
  uint64_t applied_index = 0;
  std::string runs;  ///< epoch runs of the last barrier that was applied; empty: none was applied
  /// Entries behind applied_index that are in this replica's log. Views, until the shard changes next.
  std::vector<ReplicaEntry> tail{};
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

  /// The state that the shard was opened with. Call it before the shard changes.
  [[nodiscard]] ReplicaStart start() const;

  // --- New entries
  /// Gives the entry to the log, behind the last one. Errors: the log takes no record now; the caller keeps the entry.
  [[nodiscard]] absl::Status submit(Entry& entry);
  /// OK, or INVALID_ARGUMENT: why `entry`, from a peer, cannot be an entry here.
  [[nodiscard]] absl::Status check(const ReplicaEntry& entry);
  /// The entry came from a peer: until it is committed, it counts for has_room().
  void count(Entry& entry);
  /// False: too many bytes of entries wait to be committed, in the whole worker and in this shard. The primary must
  /// wait, or is faulty. `inherited`: the entry was made before its primary began to lead, or is the primary's barrier;
  /// more of these are taken.
  [[nodiscard]] bool has_room(bool inherited) const;
  /// Drops the entries behind `index`, which must not be committed.
  void truncate(uint64_t index);

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
  [[nodiscard]] uint64_t first_index() const;
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
  void close() { rows_.close(entries_); }
  /// See TailRows.
  [[nodiscard]] bool keep_pinning(uint64_t index) { return rows_.keep_pinning(index, entries_); }

 private:
  void uncount(Entry& entry);

  ShardContext& shard_;
  ShardLog& log_;
  TailRows rows_;
  TailRows::Entries entries_;  // in the order of their indices, without gaps, up to the shard's last one
  size_t bytes_ = 0;           // of the payloads in entries_
  uint64_t commit_limit_ = 0;
  size_t uncommitted_bytes_ = 0;                // of entries that were counted
  UncommittedKeys uncommitted_;                 // of entries that are not in memory, while a backup answers reads
  const std::string runs_;                      // of the last barrier that was applied before the shard was opened
  absl::flat_hash_set<std::string_view> keys_;  // scratch of check()
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ENTRY_LOG_H_
