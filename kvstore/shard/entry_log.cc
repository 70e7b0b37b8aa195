#include "kvstore/shard/entry_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/effect.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/shard/room_needed.h"
#include "kvstore/shard/shard.h"
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
  for (const uint64_t index : rows.drop_old(at.last)) rows_.add_old(index);
  for (auto& [index, row] : rows.tail) {
    Entry& entry = shard.worker.entries.acquire(shard.shard, index, row.epoch, row.time_ms, row.durability);
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

// --- Leading

void EntryLog::lead(uint64_t epoch) {
  if (!std::exchange(leading_, true)) ++leadership_;
  on_hold_ = false;
  epoch_ = epoch;
}

std::string_view EntryLog::refusal() const {
  if (!leading_) return "this replica is not the shard's primary";
  if (on_hold_) return "the shard's members are changing, or too few: refresh the shard map and try again";
  return {};
}

absl::Status EntryLog::propose(WriteOp& op) {
  WorkerResources& worker = shard_.worker;
  // An entry is at least written (kFlush), so that a process that dies while its machine runs loses no entry.
  const Durability durability = std::max(worker.wanted(op.durability), Durability::kFlush);
  Entry& entry = worker.entries.acquire(shard_.shard, op.index, epoch_, static_cast<int64_t>(op.record_ms), durability);
  for (const ByteSpan piece : op.encode_record()) entry.payload.append(as_string_view(piece));
  if (absl::Status submitted = submit(entry); !submitted.ok()) return submitted;
  op.state = WriteOp::State::kInLog;
  op.achieved = durability;
  if (observer_ != nullptr) observer_->proposed(entry.view());
  return absl::OkStatus();
}

// --- New entries

absl::Status EntryLog::append(const ReplicaEntry& from) {
  WorkerResources& worker = shard_.worker;
  if (!shard_.failure.ok()) return shard_.failure;
  if (!worker.log_failure.ok()) return worker.log_failure;
  if (absl::Status checked = check(from); !checked.ok()) return checked;
  Entry& entry =
      worker.entries.acquire(shard_.shard, from.index, from.epoch, bounded_entry_ms(from.time_ms), from.durability);
  entry.payload.append(as_string_view(from.payload));
  if (absl::Status submitted = submit(entry); !submitted.ok()) return submitted;
  // It came from a peer: until it is committed, it counts for has_room().
  entry.counted = true;
  uncommitted_bytes_ += entry.memory_bytes();
  worker.uncommitted_bytes += entry.memory_bytes();
  shard_.at.last = entry.index;
  shard_.clock.saw(static_cast<uint64_t>(entry.time_ms), worker.steady_ms);
  return absl::OkStatus();
}

/// Gives the entry to the log, behind the last one. Errors: the log takes no record now; the entry is released.
absl::Status EntryLog::submit(Entry& entry) {
  // After a refusal the log takes no record of the shard until all records that it was given before are back.
  absl::Status submitted = log_.refusal();
  ByteWriter head(entry.head);
  encode_entry_head({entry.epoch, commit_limit_}, head);
  if (submitted.ok()) submitted = log_.submit(entry, ByteSpan(entry.head));
  if (!submitted.ok()) {
    shard_.worker.entries.release(entry);
    return submitted;
  }
  bytes_ += entry.payload.size();
  entries_.push_back(&entry);
  if (uncommitted_.active()) uncommitted_.add(entry.index, as_byte_span(entry.payload));
  return absl::OkStatus();
}

/// OK, or INVALID_ARGUMENT: why `entry`, from a peer, cannot be an entry here.
absl::Status EntryLog::check(const ReplicaEntry& entry) {
  if (entry.index != shard_.at.last + 1) return absl::InvalidArgumentError("the entry does not follow the last one");
  const size_t log_bytes_max = shard_.worker.log->payload_bytes_max();
  if (kEntryHeadBytes + entry.payload.size() > log_bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("the entry has ", entry.payload.size(), " bytes, and this node's log takes up to ",
                     log_bytes_max - kEntryHeadBytes, " at once (--memory, --log-segment)"));
  }
  RoomNeeded room(*shard_.worker.memory);
  const auto fits = [&room](const Effect& effect) {
    if (room.add(effect)) return absl::OkStatus();
    return absl::InvalidArgumentError("the entry's values are larger than this node has memory for (--memory)");
  };
  return check_entry(entry.payload, keys_, fits);
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
  SKUA_CHECK(!leading_, "a primary's entries stay");
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

// --- What the log says

void EntryLog::take_back(Entry& entry) {
  const uint64_t index = entry.index;
  const bool was_dropped = entry.dropped;
  entry.leave_log();
  if (was_dropped) {
    // It may be in use for another entry by now.
  } else if (entry.outcome.ok()) {
    log_.wrote(index, entry.log_durability);
    if (!is_synced(entry.log_durability) && !std::exchange(unsynced_, true)) {
      shard_.worker.unsynced.push_back(&shard_.shard);
    }
  } else if (index > shard_.at.committed && !is_committed(index)) {
    // All later entries are dropped with it. If the log has some of them, entries of a later epoch replace them.
    log_.refuse(entry.outcome);
    log_refused_ = true;
    shard_.shard.follow();
    truncate(index - 1);
  } else if (shard_.failure.ok()) {
    shard_.failure =
        absl::DataLossError(absl::StrCat("the log had no room for a write that is committed (", entry.outcome.message(),
                                         "); the shard must be copied to this node again"));
    log_refused_ = true;
    shard_.shard.follow();
  }
  log_moved_ = true;
  if (log_.in_log() == 0) log_.clear_refusal();
}

void EntryLog::synced() {
  unsynced_ = false;
  log_moved_ = true;
  shard_.at.synced = shard_.at.written;
}

void EntryLog::tell_log_moved() {
  if (!std::exchange(log_moved_, false)) return;
  const bool refused = std::exchange(log_refused_, false);
  if (observer_ != nullptr) observer_->log_moved(refused);
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

uint64_t EntryLog::trim(uint64_t needed_from, size_t bytes_max) {
  while (!entries_.empty()) {
    Entry& entry = *entries_.front();
    const bool wanted = bytes_ <= (entry.index >= needed_from ? bytes_max : bytes_max / 4);
    if (wanted || entry.in_log) break;
    if (entry.index > shard_.at.applied) {
      // A copy of the database and the kept entries must meet without a gap, so an entry is kept until it is applied.
      if (entry.index <= shard_.at.committed) shard_.worker.applier->hurry(shard_.applied);
      break;
    }
    entries_.pop_front();
    bytes_ -= entry.payload.size();
    // Such an entry is a primary's own: its write was applied, and did not take the row with it.
    if (entry.in_row) rows_.add_old(entry.index);
    entry.drop();
  }
  return entries_.empty() ? shard_.at.last + 1 : entries_.front()->index;
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
