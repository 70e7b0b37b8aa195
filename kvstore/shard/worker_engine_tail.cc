// Entries that are not committed, in rows of the database (replica_rows.h). Such entries go into rows for two reasons:
//
//    the shard is closed    it leaves the log, and its entries must be there when it is opened again
//    the log needs room     they stand in its oldest segment, which all shards of the worker wait for
//
// Nobody knows how long an entry waits to be committed: its shard may have lost its majority, or follow a faulty
// primary. The rows are made durable. Then the log is told that it need not keep the entries (Log::set_kept):
//
//    segments   | 3 4 5 . . | . . . . . | 6 . . . . |      3, 4, 5 are not committed; the points are other shards'
//    rows         3 4 5  -> keep() -> kept -> set_kept(5)
//    segments               | . . . . . | 6 . . . . |      recovery takes 3, 4, 5 from the rows, and 6 from the log
//
// When an entry is committed or replaced, its row is deleted: together with the next entry that is applied, or with the
// next rows that are written.
#include <algorithm>
#include <utility>

#include "kvstore/shard/engine_shard.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/types/engine_mutants.h"

namespace skua::kv {
namespace {

/// At most this many rows go to the applier as one record.
constexpr size_t kTailRowsAtOnce = 64;
/// The index of a row that is not released by an applied index. The applier has views of its bytes until the row is
/// durable.
constexpr uint64_t kUntilKept = UINT64_MAX;

}  // namespace

/// Queues rows for the applier: a row for each uncommitted entry up to `last_index` that has none, and the deletion of
/// old rows.
void WorkerEngine::keep_tail(EngineShard& shard, uint64_t last_index) {
  EngineReplica& replica = *shard.replica;
  const auto add_row = [&](std::string key, std::optional<std::string> value) {
    const bool erases = !value.has_value();
    replica.row_bytes.push_back({kUntilKept, std::move(key), erases ? std::string() : *std::move(value)});
    const EngineReplica::Row& row = replica.row_bytes.back();
    replica.tail.push_back(
        {row.key, erases ? std::nullopt : std::optional(as_byte_span(row.value)), shard.committed_index, 0});
  };
  for (const uint64_t index : take_old_rows(shard, SIZE_MAX)) add_row(replica_tail_key(index), std::nullopt);
  for (ReplicaRecord* record : replica.entries) {
    if (record->index > last_index) break;
    if (record->index <= shard.committed_index || record->in_row) continue;
    std::erase(replica.rows, record->index);  // an older entry's row is overwritten
    add_row(replica_tail_key(record->index),
            encode_tail_row({record->epoch, record->time_ms, record->durability, record->payload}));
    record->in_row = true;
  }
}

/// Takes at most `count_max` indices of rows that may be deleted: their entries were applied, or were replaced by
/// others that are durable. Until the others are durable the old rows must stay: without them, recovery would take the
/// log for one that lacks these entries.
std::vector<uint64_t> WorkerEngine::take_old_rows(EngineShard& shard, size_t count_max) {
  std::vector<uint64_t>& rows = shard.replica->rows;
  std::vector<uint64_t> old;
  std::erase_if(rows, [&](uint64_t index) {
    const bool goes = old.size() < count_max && index <= std::max(shard.committed_index, shard.synced_index);
    if (goes) old.push_back(index);
    return goes;
  });
  return old;
}

/// Gives the applier as many of the queued rows as it has room for, as records of their own. If a crash leaves only
/// some of these records, nothing is lost: the log has all of the entries until the last row is durable. False: the
/// rest must wait.
bool WorkerEngine::hand_on_tail(EngineShard& shard) {
  EngineReplica& replica = *shard.replica;
  std::deque<AppliedEffect>& tail = replica.tail;
  while (!tail.empty()) {
    const size_t count = std::min(tail.size(), kTailRowsAtOnce);
    if (!applier_->has_room(count)) {
      applier_->hurry();
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      applier_->add(shard.applied, tail.front(), i + 1 < count);
      tail.pop_front();
    }
  }
  if (replica.keeping && !replica.closed && !std::exchange(replica.keep_asked, true)) applier_->keep(shard.applied);
  return true;
}

/// The log needs room, and its oldest segment holds the entry `index` of this shard.
void WorkerEngine::keep_pinning(EngineShard& shard, uint64_t index) {
  if (shard.replica == nullptr || !shard.failure.ok() || !log_failure_.ok() || shard.has_apply_gap) return;
  EngineReplica& replica = *shard.replica;
  if (replica.keeping || replica.closed) return;
  const uint64_t last_index = std::min(index, shard.written_index);
  // The entry was truncated, and no entry replaced it. Then the shard must begin anew in the log. That needs a higher
  // epoch, because recovery tells a shard's lives in one log apart by their epochs.
  const bool begins_anew = index > shard.last_index && shard.in_log == 0 && shard.epoch > replica.log_epoch;
  if (last_index <= shard.committed_index && !begins_anew) return;
  if (last_index <= replica.kept_index && !begins_anew) {
    // The rows have these entries already, but set_kept() had no effect: records that replaced later entries came to
    // the log before it. So it is called again, with the newer epoch.
    return log_->set_kept(shard.log_shard, replica.kept_index, replica.log_epoch);
  }
  replica.keeping = true;
  replica.keep_asked = false;
  replica.begins_anew = begins_anew;
  replica.kept_index = std::max(last_index, shard.committed_index);
  keep_tail(shard, last_index);
  if (!hand_on_tail(shard)) stall(shard);
}

void WorkerEngine::tail_kept(EngineShard& shard) {
  EngineReplica& replica = *shard.replica;
  replica.keeping = false;
  if (replica.closed) return;  // the close may have queued other rows
  std::deque<EngineReplica::Row>& rows = replica.row_bytes;
  while (!rows.empty() && (rows.front().index == kUntilKept || rows.front().index <= shard.applied_index)) {
    rows.pop_front();
  }
  log_->set_kept(shard.log_shard, replica.kept_index, replica.log_epoch);
  // If the log has no newer record of the shard, the database has everything of the shard. Then the shard begins anew
  // in the log, which forgets all older records of the shard.
  if (!replica.begins_anew || shard.in_log > 0 || shard.last_index != replica.kept_index) return;
  if (!start_in_log(shard, shard.last_index).ok()) return;
  replica.log_start = shard.last_index;
  replica.log_epoch = shard.epoch;
}

}  // namespace skua::kv
