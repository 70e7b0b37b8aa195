// Recovers the log of a replicated shard. Entries that are known to be committed are applied, the others are kept in
// rows.
//
//    rows of the last recovery   81 82 83 84
//    records of the log                83 84 85 86 87      the records replace the rows from 83 on
//    commit index in 87: 85      |--- applied ---| tail    86 and 87 become rows, until the primary says more
//
#ifndef SKUA_KVSTORE_STORAGE_REPLICA_TAIL_H_
#define SKUA_KVSTORE_STORAGE_REPLICA_TAIL_H_

#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/log/record.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// Thread: one at a time.
class ReplicaTail {
 public:
  /// Loads the rows of a database. `applied_index` is that of the database. DATA_LOSS if a row is damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows, uint64_t applied_index);

  /// True if the shard is known by now to be replicated.
  [[nodiscard]] bool active() const { return active_; }

  using Visit = absl::FunctionRef<void(uint64_t index, int64_t time_ms, ByteSpan payload)>;
  /// Takes the next record of the shard, and visits what is known by it to be committed, in order: payloads without
  /// their entries' heads. Of a shard that is not replicated that is the record itself; of one that is, the record must
  /// be the entry that follows the last one, or one that replaces the entries from its index on: DATA_LOSS if it is
  /// neither. The payloads of entries stay valid until release().
  [[nodiscard]] absl::Status take(const RecordView& record, Visit visit);
  void release() { committed_.clear(); }
  /// Visits the entries that are not known to be committed, in order, and leaves them as they are.
  void visit_uncommitted(Visit visit) const {
    for (const auto& [index, entry] : rows_.tail) visit(index, entry.time_ms, as_byte_span(entry.payload));
  }

  /// Index of the last entry that was taken, loaded or applied.
  [[nodiscard]] uint64_t last_index() const { return rows_.tail.empty() ? applied_ : rows_.tail.rbegin()->first; }
  /// The rows to write and to delete, so that the database has exactly the tail. Views into this object, valid until
  /// the next call of rows().
  [[nodiscard]] std::vector<AppliedEffect> rows();

 private:
  bool active_ = false;
  ReplicaRows rows_;
  std::set<uint64_t> in_database_;  // indices of the tail rows that the database had at load()
  uint64_t applied_ = 0;            // index of the last entry that was applied, or visited
  uint64_t commit_index_ = 0;
  std::deque<ReplicaRows::Tail> committed_;
  std::deque<std::pair<std::string, std::string>> encoded_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_REPLICA_TAIL_H_
