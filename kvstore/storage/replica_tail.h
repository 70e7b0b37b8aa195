// What recovery makes of a replicated shard's log: entries that are known to be committed are applied, the others kept.
//
//    rows of the last recovery   81 82 83 84
//    records of the log                83 84 85 86 87      from its first record on the log is right: 83, 84 replace the rows
//    commit index in 87: 85      |--- applied ---| tail    the tail goes into rows again, until the primary has told
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
  /// `applied_index` is the database's.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows, uint64_t applied_index);

  /// Whether the shard is replicated, as far as is known yet.
  [[nodiscard]] bool active() const { return active_; }
  /// The entry that follows, or one that replaces what is from its index on. DATA_LOSS if it does neither.
  [[nodiscard]] absl::Status take(const RecordView& record);

  using Committed = absl::FunctionRef<void(uint64_t index, const ReplicaRows::Tail& entry)>;
  /// Visits what is committed and was not visited yet, in order. The entries stay where they are until release().
  void visit_committed(Committed visit);
  void release() { committed_.clear(); }
  /// Visits the entries that are not known to be committed, in order, and leaves them as they are.
  void visit_uncommitted(Committed visit) const {
    for (const auto& [index, entry] : rows_.tail) visit(index, entry);
  }

  /// Of the last entry there is.
  [[nodiscard]] uint64_t last_index() const { return rows_.tail.empty() ? applied_ : rows_.tail.rbegin()->first; }
  /// Rows to be written and deleted, so that the database has the tail and nothing else. Views into this object.
  [[nodiscard]] std::vector<AppliedEffect> rows();

 private:
  bool active_ = false;
  ReplicaRows rows_;
  std::set<uint64_t> in_database_;
  uint64_t applied_ = 0;  // or visited
  uint64_t commit_index_ = 0;
  std::deque<ReplicaRows::Tail> committed_;
  std::deque<std::pair<std::string, std::string>> encoded_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_REPLICA_TAIL_H_
