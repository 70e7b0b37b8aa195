// OwnLog: what a replica knows of its own log.
//
//    base               commit_index      durable   written   received = last_index
//     |--- committed --------|--- may still be replaced -------------|
//     ^ first_available: older entries cannot be read any more
//
// It knows identities, levels and the commit index; the driver has the bytes. Rules:
//   - The last entry is always received: an entry is in the log's queue when it is added here.
//   - Levels never name entries that the log does not have. Levels of entries that were replaced do not count.
//   - An Append fits if its `prev` is in this log, or is committed: committed entries agree with every primary's log.
//     From the first entry on that differs, the primary's entries replace the log's.
//   - A snapshot that ends below the commit index has nothing new. If the log has the snapshot's last entry, the
//     entries behind it stay. Otherwise the log's entries were never committed, and none stays.
//
// A value type. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_OWN_LOG_H_
#define SKUA_KVSTORE_REPLICATION_OWN_LOG_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/messages.h"

namespace skua::kv {

/// What installing a snapshot would do to a replica's log.
enum class SnapshotFit : uint8_t {
  kNone,         ///< it must not be installed: it has nothing new, or this replica is the primary
  kKeepsLog,     ///< the log's entries behind the snapshot stay
  kReplacesLog,  ///< no entry of the log stays
};

class OwnLog {
 public:
  /// What an Append did to the log.
  struct Change {
    std::optional<uint64_t> truncate_after;  ///< the entries behind this one were dropped first
    uint64_t accept_first = 0;               ///< the Append's entries from this index on are new; 0: none
  };

  /// A log whose entries are all durable. The base is committed, whatever `commit_index` says. The log must have the
  /// entry `commit_index` (checked).
  OwnLog(EpochHistory entries, uint64_t commit_index);

  [[nodiscard]] const EpochHistory& entries() const { return entries_; }
  [[nodiscard]] uint64_t last_index() const { return entries_.last_index(); }
  [[nodiscard]] const LogLevels& levels() const { return levels_; }
  [[nodiscard]] uint64_t commit_index() const { return commit_index_; }
  /// The commit index that others may hear of: no higher than what reads show here.
  [[nodiscard]] uint64_t told_commit_index() const { return std::min(commit_index_, shown_); }
  [[nodiscard]] uint64_t first_available() const { return first_available_; }

  /// Adds an entry behind the last one.
  void append(uint64_t epoch);
  /// Keeps the runs few enough for a message, as far as the commit index allows. To be called after entries of a new
  /// epoch were added.
  void compact_runs() { entries_.compact_to(EpochHistory::kRunsMax, commit_index_); }
  /// Drops the entries behind `index`, which must not be below the base.
  void truncate_after(uint64_t index);
  /// The log's report of its levels.
  void set_levels(const LogLevels& levels) { levels_ = levels.up_to(last_index()); }
  /// The commit index never falls.
  void commit(uint64_t index) { commit_index_ = std::max(commit_index_, index); }
  void set_shown(uint64_t index) { shown_ = index; }
  void set_first_available(uint64_t index) { first_available_ = index; }

  /// Whether the entry before those of the Append is in this log, or committed.
  [[nodiscard]] bool continues(const Append& append) const;
  /// Takes over the entries of an Append that continues this log.
  Change follow(const Append& theirs);

  /// Never says that the replica is a primary: the caller knows that.
  [[nodiscard]] SnapshotFit snapshot_fit(EntryId base) const;
  /// The state is now that of a snapshot that ends with `base`; `fit` is what snapshot_fit() said, but not kNone.
  void install_snapshot(EntryId base, SnapshotFit fit);

 private:
  EpochHistory entries_;
  LogLevels levels_;
  uint64_t commit_index_ = 0;
  uint64_t shown_ = UINT64_MAX;
  uint64_t first_available_ = 1;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_OWN_LOG_H_
