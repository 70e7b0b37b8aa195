#include "kvstore/shard/entry_log.h"

#include <algorithm>
#include <utility>

#include "kvstore/codec/entry_check.h"
#include "kvstore/shard/room_needed.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// Each shard may have 1/kUncommittedShare of unfinished_bytes_max waiting to be committed, whatever the other shards
/// have.
constexpr size_t kUncommittedShare = 8;
/// The bounds are this many times as large for entries that a new primary found when it began: it commits nothing
/// before all of them are here.
constexpr size_t kInheritedTimes = 4;

}  // namespace

EntryLog::EntryLog(ShardContext& shard, ShardLog& log, ReplicaRows&& rows)
    : shard_(shard), log_(log), rows_(shard, log), runs_(std::move(rows.runs)) {
  ShardIndices& at = shard.at;
  rows_.add_old(rows.drop_old(at.last));
  for (auto& [index, row] : rows.tail) {
    Entry& entry = shard.worker.entries.acquire(shard.shard);
    entry.index = index;
    entry.epoch = row.epoch;
    entry.time_ms = row.time_ms;
    entry.durability = row.durability;
    entry.payload = std::move(row.payload);
    entry.in_row = true;
    bytes_ += entry.payload.size();
    entries_.push_back(&entry);
    at.last = index;
    shard.clock.saw(static_cast<uint64_t>(entry.time_ms), shard.worker.steady_ms);
  }
  at.written = at.synced = at.last;
}

EntryLog::~EntryLog() {
  for (Entry* entry : entries_) {
    uncount(*entry);
    entry->drop();
  }
}

ReplicaStart EntryLog::start() const {
  ReplicaStart start{.applied_index = shard_.at.committed, .runs = runs_};
  for (const Entry* entry : entries_) {
    if (entry->index > shard_.at.committed) start.tail.push_back(entry->view());
  }
  return start;
}

// --- New entries

absl::Status EntryLog::submit(Entry& entry) {
  // After a refusal the log takes no record of the shard until all records that it was given before are back.
  if (!log_.refusal().ok()) return log_.refusal();
  ByteWriter head(entry.head);
  encode_entry_head({entry.epoch, commit_limit_}, head);
  if (absl::Status submitted = log_.submit(entry, ByteSpan(entry.head)); !submitted.ok()) return submitted;
  bytes_ += entry.payload.size();
  entries_.push_back(&entry);
  if (uncommitted_.active()) uncommitted_.add(entry.index, as_byte_span(entry.payload));
  return absl::OkStatus();
}

absl::Status EntryLog::check(const ReplicaEntry& entry) {
  if (entry.index != shard_.at.last + 1) return absl::InvalidArgumentError("the entry does not follow the last one");
  RoomNeeded room(*shard_.worker.memory);
  const auto fits = [&room](const Effect& effect) {
    if (room.add(effect)) return absl::OkStatus();
    return absl::InvalidArgumentError("the entry's values are larger than this node has memory for (--memory)");
  };
  return check_entry(entry.payload, keys_, fits);
}

void EntryLog::count(Entry& entry) {
  entry.counted = true;
  uncommitted_bytes_ += entry.memory_bytes();
  shard_.worker.uncommitted_bytes += entry.memory_bytes();
}

void EntryLog::uncount(Entry& entry) {
  if (!std::exchange(entry.counted, false)) return;
  uncommitted_bytes_ -= entry.memory_bytes();
  shard_.worker.uncommitted_bytes -= entry.memory_bytes();
}

bool EntryLog::has_room(bool inherited) const {
  const size_t bytes_max = shard_.worker.options.unfinished_bytes_max * (inherited ? kInheritedTimes : 1);
  return shard_.worker.uncommitted_bytes < bytes_max || uncommitted_bytes_ < bytes_max / kUncommittedShare;
}

void EntryLog::truncate(uint64_t index) {
  SKUA_CHECK(index >= commit_limit_, "what is committed is never truncated");
  while (!entries_.empty() && entries_.back()->index > index) {
    Entry& entry = *entries_.back();
    entries_.pop_back();
    bytes_ -= entry.payload.size();
    uncount(entry);
    if (entry.in_row) rows_.add_old(entry.index);
    entry.drop();
  }
  ShardIndices& at = shard_.at;
  at.last = std::min(at.last, index);
  at.written = std::min(at.written, index);
  at.synced = std::min(at.synced, index);
  rows_.truncated(index);
  if (uncommitted_.active()) watch_uncommitted(true);
}

// --- Committed entries

void EntryLog::applied(Entry& entry) {
  entry.in_row = false;
  uncount(entry);
  if (uncommitted_.active()) uncommitted_.forget(entry.index, as_byte_span(entry.payload));
}

// --- Entries kept for peers

Entry* EntryLog::find(uint64_t index) const {
  if (entries_.empty() || index < entries_.front()->index) return nullptr;
  const uint64_t at = index - entries_.front()->index;
  return at < entries_.size() ? entries_[at] : nullptr;
}

uint64_t EntryLog::first_index() const {
  return entries_.empty() ? shard_.at.last + 1 : entries_.front()->index;
}

uint64_t EntryLog::trim(uint64_t needed_from, size_t bytes_max) {
  while (!entries_.empty()) {
    Entry& entry = *entries_.front();
    const bool wanted = bytes_ <= (entry.index >= needed_from ? bytes_max : bytes_max / 4);
    if (wanted || entry.in_log) break;
    if (entry.index > shard_.at.applied) {
      // A copy of the database and the kept entries must meet without a gap, so an entry is kept until it is applied.
      if (entry.index <= shard_.at.committed) shard_.worker.applier->hurry();
      break;
    }
    entries_.pop_front();
    bytes_ -= entry.payload.size();
    // Such an entry is a primary's own: its write was applied, and did not take the row with it.
    if (entry.in_row) rows_.add_old(entry.index);
    entry.drop();
  }
  return first_index();
}

// --- Reads of a replica that does not lead

void EntryLog::watch_uncommitted(bool on) {
  uncommitted_.set_active(on);
  if (!on) return;
  for (const Entry* entry : entries_) {
    if (entry->index > shard_.at.committed) uncommitted_.add(entry->index, as_byte_span(entry->payload));
  }
}

}  // namespace skua::kv
