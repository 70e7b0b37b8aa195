#include "kvstore/shard/tail_rows.h"

#include <algorithm>
#include <utility>

#include "kvstore/storage/replica_rows.h"

namespace skua::kv {
namespace {

/// At most this many rows go to the applier as one record.
constexpr size_t kTailRowsAtOnce = 64;
/// When an entry is applied, at most this many rows of old entries are deleted with it.
constexpr size_t kOldRowsPerEntry = 64;
/// The index of a row that is not released by an applied index. The applier has views of its bytes until the row is
/// durable.
constexpr uint64_t kUntilKept = UINT64_MAX;

}  // namespace

AppliedEffect TailRows::add_row(uint64_t released_by, uint64_t version, std::string key,
                                std::optional<std::string> value) {
  const bool deletes = !value.has_value();
  const Row& row = bytes_.emplace_back(Row{released_by, std::move(key), std::move(value).value_or(std::string())});
  return {row.key, deletes ? std::nullopt : std::optional(as_byte_span(row.value)), version, 0};
}

void TailRows::append_for(uint64_t index, std::optional<ByteSpan> runs, std::vector<AppliedEffect>& out) {
  for (const uint64_t old : take_old(kOldRowsPerEntry)) {
    out.push_back(add_row(index, index, replica_tail_key(old), std::nullopt));
  }
  if (runs) out.push_back(add_row(index, index, replica_runs_key(), std::string(as_string_view(*runs))));
}

size_t TailRows::rows_max() const {
  return std::min(old_.size(), kOldRowsPerEntry) + 1;
}

/// Takes at most `count_max` indices of rows that may be deleted: their entries were applied, or were replaced by
/// others that are durable. Until the others are durable the old rows must stay: without them, recovery would take the
/// log for one that lacks these entries.
std::vector<uint64_t> TailRows::take_old(size_t count_max) {
  std::vector<uint64_t> taken;
  if (old_.empty()) return taken;
  std::erase_if(old_, [&](uint64_t index) {
    const bool goes = taken.size() < count_max && index <= std::max(shard_.at.committed, shard_.at.synced);
    if (goes) taken.push_back(index);
    return goes;
  });
  return taken;
}

/// Queues rows for the applier: a row for each uncommitted entry up to `last_index` that has none, and the deletion of
/// old rows.
void TailRows::queue(const Entries& entries, uint64_t last_index) {
  const uint64_t version = shard_.at.committed;
  for (const uint64_t index : take_old(SIZE_MAX)) {
    queue_.push_back(add_row(kUntilKept, version, replica_tail_key(index), std::nullopt));
  }
  for (Entry* entry : entries) {
    if (entry->index > last_index) break;
    if (entry->index <= shard_.at.committed || entry->in_row) continue;
    std::erase(old_, entry->index);  // an older entry's row is overwritten
    queue_.push_back(add_row(kUntilKept, version, replica_tail_key(entry->index),
                             encode_tail_row({entry->epoch, entry->time_ms, entry->durability, entry->payload})));
    entry->in_row = true;
  }
}

void TailRows::close(const Entries& entries) {
  closed_ = true;
  // The rows would carry the index of the last write that was answered. The database lacks that write if there is a
  // gap, and the log keeps it and the entries.
  if (!shard_.has_apply_gap) queue(entries, UINT64_MAX);
}

/// The rows go to the applier as records of their own. If a crash leaves only some of these records, nothing is lost:
/// the log has all of the entries until the last row is durable.
bool TailRows::hand_on() {
  Applier& applier = *shard_.worker.applier;
  while (!queue_.empty()) {
    const size_t count = std::min(queue_.size(), kTailRowsAtOnce);
    if (!applier.has_room(count)) {
      applier.take_now();
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      applier.add(shard_.applied, queue_.front(), i + 1 < count);
      queue_.pop_front();
    }
  }
  if (keeping_ && !closed_ && !std::exchange(keep_asked_, true)) applier.keep(shard_.applied);
  return true;
}

bool TailRows::keep_pinning(uint64_t index, const Entries& entries) {
  if (keeping_ || closed_) return true;
  const ShardIndices& at = shard_.at;
  const uint64_t last_index = std::min(index, at.written);
  // The entry was truncated, and no entry replaced it. Then the shard must begin anew in the log. That needs a higher
  // epoch, because recovery tells a shard's lives in one log apart by their epochs.
  const bool begins_anew = index > at.last && log_.in_log() == 0 && log_.epoch() > log_.record_epoch();
  if (last_index <= at.committed && !begins_anew) return true;
  if (last_index <= kept_index_ && !begins_anew) {
    // The rows have these entries already, but set_kept() had no effect: records that replaced later entries came to
    // the log before it. So it is called again, with the newer epoch.
    shard_.worker.log->set_kept(log_.id(), kept_index_, log_.record_epoch());
    return true;
  }
  keeping_ = true;
  keep_asked_ = false;
  begins_anew_ = begins_anew;
  kept_index_ = std::max(last_index, at.committed);
  queue(entries, last_index);
  return hand_on();
}

void TailRows::kept() {
  keeping_ = false;
  if (closed_) return;  // the close may have queued other rows
  while (!bytes_.empty() && (bytes_.front().index == kUntilKept || bytes_.front().index <= shard_.at.applied)) {
    bytes_.pop_front();
  }
  shard_.worker.log->set_kept(log_.id(), kept_index_, log_.record_epoch());
  // If the log has no newer record of the shard, the database has everything of the shard. Then the shard begins anew
  // in the log, which forgets all older records of the shard.
  if (begins_anew_ && log_.in_log() == 0 && shard_.at.last == kept_index_) log_.begin_anew();
}

void TailRows::applied(uint64_t index) {
  while (!bytes_.empty() && bytes_.front().index <= index) bytes_.pop_front();
}

}  // namespace skua::kv
