#include "kvstore/replication/own_log.h"

#include <utility>

#include "rpc/base/check.h"

namespace skua::kv {

OwnLog::OwnLog(EpochHistory entries, uint64_t commit_index)
    : entries_(std::move(entries)),
      levels_(LogLevels::all(entries_.last_index())),
      commit_index_(std::max(commit_index, entries_.base().index)),
      first_available_(entries_.base().index + 1) {
  SKUA_CHECK(commit_index_ <= entries_.last_index(), "what is committed is in the log");
}

void OwnLog::append(uint64_t epoch) {
  entries_.append(epoch);
  levels_.received = entries_.last_index();
}

void OwnLog::truncate_after(uint64_t index) {
  entries_.truncate(index);
  levels_ = levels_.up_to(index);
}

bool OwnLog::continues(const Append& append) const {
  return append.prev.index <= commit_index_ || entries_.epoch_of(append.prev.index) == append.prev.epoch;
}

OwnLog::Change OwnLog::follow(const Append& theirs) {
  Change change;
  const uint64_t end = theirs.prev.index + theirs.epochs.size();
  const auto epoch_at = [&](uint64_t at) { return theirs.epochs[at - theirs.prev.index - 1]; };
  // Committed entries need not be compared.
  uint64_t index = std::max(theirs.prev.index, commit_index_) + 1;
  while (index <= end && entries_.epoch_of(index) == epoch_at(index)) ++index;
  if (index > end) return change;
  if (index <= last_index()) {
    truncate_after(index - 1);
    change.truncate_after = index - 1;
  }
  change.accept_first = index;
  for (; index <= end; ++index) append(epoch_at(index));
  compact_runs();
  return change;
}

SnapshotFit OwnLog::snapshot_fit(EntryId base) const {
  if (base.index < commit_index_) return SnapshotFit::kNone;
  return entries_.epoch_of(base.index) == base.epoch ? SnapshotFit::kKeepsLog : SnapshotFit::kReplacesLog;
}

void OwnLog::install_snapshot(EntryId base, SnapshotFit fit) {
  if (fit == SnapshotFit::kKeepsLog) {
    entries_.compact(base.index);
  } else {
    // The log's entry at this index is not the committed one, so the log's later entries were never committed.
    entries_ = EpochHistory(base);
    levels_ = {};
  }
  levels_.raise_to(LogLevels::all(base.index));
  commit_index_ = base.index;
  first_available_ = base.index + 1;
}

}  // namespace skua::kv
