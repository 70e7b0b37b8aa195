// Replicated shards: entries instead of records.
//
//    primary    evaluated write -> entry -> log, peers            commit_entries(): the write goes on, is answered
//    others     append_entry()  -> entry -> log                   commit_entries(): effects go to memory and applier
//
// An entry owns its bytes, because a peer may ask for it long after its write was answered. The code outside of the
// engine (kvstore/replication) decides which entries are committed, by what the logs of all replicas have.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/engine_shard.h"
#include "kvstore/shard/worker_engine.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// When an entry is applied, at most this many rows of old entries are deleted with it.
constexpr size_t kOldRowsPerEntry = 64;
/// Each shard may have 1/kUncommittedShare of unfinished_bytes_max waiting to be committed, whatever the other shards
/// have.
constexpr size_t kUncommittedShare = 8;
/// The bounds are this many times as large for entries that a new primary found when it began: it commits nothing
/// before all of them are here.
constexpr size_t kInheritedTimes = 4;

ReplicaEntry entry_of(const ReplicaRecord& record) {
  return {record.index, record.epoch, record.time_ms, record.durability, as_byte_span(record.payload)};
}

ReplicaRecord* find(const EngineReplica& replica, uint64_t index) {
  if (replica.entries.empty() || index < replica.entries.front()->index) return nullptr;
  const uint64_t at = index - replica.entries.front()->index;
  return at < replica.entries.size() ? replica.entries[at] : nullptr;
}

}  // namespace

void WorkerEngine::replicate(EngineShard& shard) {
  shard.replica = std::make_unique<EngineReplica>();
  EngineReplica& replica = *shard.replica;
  replica.runs = std::move(shard.rows.runs);
  replica.rows = shard.rows.drop_old(shard.last_index);
  for (auto& [index, row] : shard.rows.tail) {
    ReplicaRecord& record = acquire_entry();
    record.shard = &shard;
    record.index = index;
    record.epoch = row.epoch;
    record.time_ms = row.time_ms;
    record.durability = row.durability;
    record.payload = std::move(row.payload);
    record.in_row = true;
    replica.bytes += record.payload.size();
    replica.entries.push_back(&record);
    shard.last_index = index;
    shard.clock.saw(static_cast<uint64_t>(record.time_ms), steady_ms_);
  }
  shard.rows = {};
  shard.written_index = shard.synced_index = shard.last_index;
  replica.log_epoch = shard.epoch;
}

ReplicaStart WorkerEngine::replica_start(const EngineShard& shard) const {
  ReplicaStart start{.applied_index = shard.committed_index, .runs = shard.replica->runs};
  for (const ReplicaRecord* record : shard.replica->entries) {
    if (record->index > shard.committed_index) start.tail.push_back(entry_of(*record));
  }
  return start;
}

void WorkerEngine::set_replica_epoch(EngineShard& shard, uint64_t epoch) {
  shard.epoch = std::max(shard.epoch, epoch);
}

void WorkerEngine::lead(EngineShard& shard, uint64_t entry_epoch) {
  SKUA_CHECK(shard.committed_index == shard.last_index, "a primary begins when all before it is in memory");
  shard.replica->leading = true;
  shard.replica->on_hold = false;
  shard.replica->entry_epoch = entry_epoch;
  shard.completions.forget_refusals();
}

void WorkerEngine::hold_writes(EngineShard& shard, bool on_hold) {
  shard.replica->on_hold = on_hold;
}

void WorkerEngine::follow(EngineShard& shard) {
  if (!std::exchange(shard.replica->leading, false)) return;
  // Committed writes stay in the queue until memory has room for them. The queue is cut before the first write that is
  // not committed.
  WriteOp* last_kept = nullptr;
  WriteOp* op = shard.front;
  while (op != nullptr && (op->state != WriteOp::State::kInLog || is_committed(shard, *op))) {
    last_kept = std::exchange(op, op->behind);
  }
  (last_kept == nullptr ? shard.front : last_kept->behind) = nullptr;
  if (last_kept != nullptr) shard.back = last_kept;
  for (WriteOp* next = nullptr; op != nullptr; op = next) {
    next = std::exchange(op->behind, nullptr);
    if (op->state == WriteOp::State::kInLog) leave_pending(shard, *op);
    op->results.clear();
    op->not_applied = false;
    answer(*op, KvStatus::kAborted,
           "the shard has another primary now; the write may yet be committed: try again with the same request id");
    finish(*op);
  }
}

bool WorkerEngine::is_committed(const EngineShard& shard, const WriteOp& op) {
  return shard.replica != nullptr && op.index <= shard.replica->commit_limit;
}

// --- New entries

absl::Status WorkerEngine::submit_entry(EngineShard& shard, WriteOp& op) {
  ReplicaRecord& record = acquire_entry();
  record.shard = &shard;
  record.index = op.index;
  record.epoch = shard.replica->entry_epoch;
  record.time_ms = static_cast<int64_t>(op.record_ms);
  // An entry is at least written (kFlush), so that a process that dies while its machine runs loses no entry.
  record.durability = std::max(wanted_durability(op.durability), Durability::kFlush);
  if (op.batch.empty()) {
    ByteWriter head(op.head);
    if (op.id.client_id != 0) encode_completion_head(completion_of(op), head);
    encode_effect_head(op.effect, head);
    record.payload.append(as_string_view(head.written()));
    record.payload.append(op.effect.key);
    if (op.effect.value) record.payload.append(as_string_view(*op.effect.value));
  } else {
    record.payload.append(op.work->payload);
  }
  if (absl::Status given = give_to_log(shard, record); !given.ok()) {
    release_entry(record);
    return given;
  }
  op.state = WriteOp::State::kInLog;
  op.achieved = record.durability;
  events_.proposed(shard, entry_of(record));
  return absl::OkStatus();
}

absl::Status WorkerEngine::append_entry(EngineShard& shard, const ReplicaEntry& entry) {
  if (!shard.failure.ok()) return shard.failure;
  if (!log_failure_.ok()) return log_failure_;
  if (entry.index != shard.last_index + 1) return absl::InvalidArgumentError("the entry does not follow the last one");
  const auto fits = [this](const Effect& effect) {
    const size_t value_bytes = effect.value ? effect.value->size() : 0;
    if (Item::bytes_for(effect.key.size(), value_bytes, effect.expires_at != 0) <= memory_->item_bytes_max()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("the entry's value is larger than this node has memory for (--memory)");
  };
  if (absl::Status checked = check_entry(entry.payload, shard.replica->keys, fits); !checked.ok()) return checked;
  ReplicaRecord& record = acquire_entry();
  record.shard = &shard;
  record.index = entry.index;
  record.epoch = entry.epoch;
  record.time_ms = bounded_entry_ms(entry.time_ms);
  record.durability = entry.durability;
  record.payload.append(as_string_view(entry.payload));
  if (absl::Status given = give_to_log(shard, record); !given.ok()) {
    release_entry(record);
    return given;
  }
  add_uncommitted(*shard.replica, record);
  shard.last_index = entry.index;
  shard.clock.saw(static_cast<uint64_t>(record.time_ms), steady_ms_);
  return absl::OkStatus();
}

absl::Status WorkerEngine::give_to_log(EngineShard& shard, ReplicaRecord& record) {
  EngineReplica& replica = *shard.replica;
  // After a refusal the log takes no record of the shard until all records that it was given before are back.
  if (!shard.refusal.ok()) return shard.refusal;
  if (!shard.started || record.index <= replica.log_start) {
    if (absl::Status started = start_in_log(shard, record.index - 1); !started.ok()) return started;
    replica.log_start = record.index - 1;
  }
  ByteWriter head(record.head);
  encode_entry_head({record.epoch, replica.commit_limit}, head);
  LogSubmission submission;
  submission.header = {.shard = shard.log_shard,
                       .index = record.index,
                       .epoch = shard.epoch,
                       .time = record.time_ms,
                       .durability = record.durability};
  submission.payload = {ByteSpan(record.head), as_byte_span(record.payload), {}};
  submission.context = static_cast<LogOp*>(&record);
  if (absl::Status submitted = submit_to_log(std::move(submission)); !submitted.ok()) return submitted;
  ++shard.in_log;
  record.in_log = true;
  replica.log_epoch = shard.epoch;
  replica.bytes += record.payload.size();
  replica.entries.push_back(&record);
  if (replica.uncommitted.active()) replica.uncommitted.add(record.index, as_byte_span(record.payload));
  return absl::OkStatus();
}

// --- What the log says

void WorkerEngine::entry_done(EngineShard& shard, ReplicaRecord& record) {
  EngineReplica& replica = *shard.replica;
  record.in_log = false;
  if (record.dropped) {
    if (record.pins == 0) release_entry(record);
  } else if (record.outcome.ok()) {
    shard.written_index = record.index;
    if (record.log_durability == Durability::kSync) {
      shard.synced_index = record.index;
    } else if (!std::exchange(replica.unsynced, true)) {
      unsynced_.push_back(&shard);
    }
  } else if (record.index > shard.committed_index && record.index > replica.commit_limit) {
    // All later entries are dropped with it. If the log has some of them, entries of a later epoch replace them.
    if (shard.refusal.ok()) shard.refusal = record.outcome;
    replica.refused = true;
    follow(shard);
    truncate_entries(shard, record.index - 1);
  } else if (shard.failure.ok()) {
    shard.failure =
        absl::DataLossError(absl::StrCat("the log had no room for a write that is committed (",
                                         record.outcome.message(), "); the shard must be copied to this node again"));
    replica.refused = true;
    follow(shard);
  }
  replica.log_moved = true;
  if (shard.in_log == 0) shard.refusal = absl::OkStatus();
}

void WorkerEngine::sync_log() {
  log_->sync();
}

/// A sync makes all records of the log durable, those of all shards.
void WorkerEngine::log_synced() {
  for (EngineShard* shard : std::exchange(unsynced_, {})) {
    shard->replica->unsynced = false;
    shard->replica->log_moved = true;
    shard->synced_index = shard->written_index;
    touch(*shard);
  }
}

void WorkerEngine::tell_log_moved(EngineShard& shard) {
  if (!std::exchange(shard.replica->log_moved, false)) return;
  events_.log_moved(shard, std::exchange(shard.replica->refused, false));
}

// --- Committed, truncated

void WorkerEngine::commit_entries(EngineShard& shard, uint64_t index) {
  EngineReplica& replica = *shard.replica;
  if (index <= replica.commit_limit) return;
  replica.commit_limit = std::min(index, shard.last_index);
  advance(shard);
}

void WorkerEngine::truncate_entries(EngineShard& shard, uint64_t index) {
  EngineReplica& replica = *shard.replica;
  SKUA_CHECK(index >= replica.commit_limit && !replica.leading, "what is committed is never truncated");
  while (!replica.entries.empty() && replica.entries.back()->index > index) {
    ReplicaRecord& record = *replica.entries.back();
    replica.entries.pop_back();
    replica.bytes -= record.payload.size();
    remove_uncommitted(replica, record);
    if (record.in_row) replica.rows.push_back(record.index);
    record.dropped = true;
    if (!record.in_log && record.pins == 0) release_entry(record);
  }
  shard.last_index = std::min(shard.last_index, index);
  shard.written_index = std::min(shard.written_index, index);
  shard.synced_index = std::min(shard.synced_index, index);
  replica.kept_index = std::min(replica.kept_index, index);
  if (replica.uncommitted.active()) watch_uncommitted(shard, true);
}

void WorkerEngine::apply_entries(EngineShard& shard) {
  EngineReplica& replica = *shard.replica;
  if (replica.closed) return;
  while (shard.committed_index < replica.commit_limit && shard.failure.ok()) {
    ReplicaRecord* const record = find(replica, shard.committed_index + 1);
    SKUA_CHECK(record != nullptr, "entries are kept until they are applied");
    if (!apply_entry(shard, *record)) return stall(shard);
  }
}

/// Puts the effects of a committed entry into memory and gives them to the applier. False: there is no room just now.
bool WorkerEngine::apply_entry(EngineShard& shard, ReplicaRecord& record) {
  EngineReplica& replica = *shard.replica;
  EffectReader reader(as_byte_span(record.payload));
  replica.effects.clear();
  replica.writes.clear();
  while (const auto effect = reader.next()) {
    replica.effects.push_back(*effect);
    replica.writes.push_back(
        {.key = ItemKey(shard.number, effect->key), .value = effect->value, .expiry = effect->expires_at});
  }
  if (record.in_row) replica.rows.push_back(record.index);
  const size_t items = replica.effects.size() + std::min(replica.rows.size(), kOldRowsPerEntry) + 2;
  auto put = MemoryTier::Put::kBackPressure;
  if (applier_->has_room(items)) {
    put = replica.writes.empty() ? MemoryTier::Put::kDone : memory_->put_all(replica.writes, record.index);
  }
  if (put == MemoryTier::Put::kBackPressure) {
    if (record.in_row) replica.rows.pop_back();
    applier_->hurry();
    return false;
  }
  if (put != MemoryTier::Put::kDone) {
    shard.failure = absl::ResourceExhaustedError("an entry needs more memory than this node has (--memory)");
    return true;
  }
  if (const auto& completion = reader.completion()) {
    AppliedCompletion applied{completion->id, completion->value, static_cast<uint64_t>(record.time_ms), nullptr};
    if (!completion->batch_results.empty()) {
      applied.batch_results = std::make_unique<std::string>(as_string_view(completion->batch_results));
    }
    applier_->add(shard.applied, std::move(applied));
    shard.completions.record(*completion, record.index, static_cast<uint64_t>(record.time_ms));
  }
  // The rows come before the entry's effects. The last item of a record is added without `continues`.
  std::vector<AppliedEffect> out;
  const auto add_row = [&](std::string key, std::optional<std::string> value) {
    EngineReplica::Row& row = replica.row_bytes.emplace_back();
    const bool deletes = !value.has_value();
    row = {record.index, std::move(key), std::move(value).value_or(std::string())};
    out.push_back({row.key, deletes ? std::nullopt : std::optional(as_byte_span(row.value)), record.index, 0});
  };
  for (const uint64_t index : take_old_rows(shard, kOldRowsPerEntry)) add_row(replica_tail_key(index), std::nullopt);
  if (reader.barrier()) {
    replica.runs.assign(as_string_view(*reader.barrier()));
    add_row(replica_runs_key(), replica.runs);
  }
  for (size_t i = 0; i < replica.effects.size(); ++i) {
    const MemoryTier::Written written = replica.writes[i].written();
    const Effect& effect = replica.effects[i];
    out.push_back(
        {written.key, effect.value ? std::optional(written.value) : std::nullopt, record.index, effect.expires_at});
  }
  for (size_t i = 0; i < out.size(); ++i) applier_->add(shard.applied, out[i], i + 1 < out.size());
  shard.committed_index = record.index;
  record.in_row = false;
  remove_uncommitted(replica, record);
  if (replica.uncommitted.active()) replica.uncommitted.forget(record.index, as_byte_span(record.payload));
  return true;
}

// --- Reads of a replica that does not lead

void WorkerEngine::watch_uncommitted(EngineShard& shard, bool on) {
  EngineReplica& replica = *shard.replica;
  replica.uncommitted.set_active(on);
  if (!on) return;
  for (const ReplicaRecord* record : replica.entries) {
    if (record->index > shard.committed_index) replica.uncommitted.add(record->index, as_byte_span(record->payload));
  }
}

bool WorkerEngine::is_settled(const EngineShard& shard, std::string_view key) {
  if (is_settled(shard)) return true;
  const UncommittedKeys& uncommitted = shard.replica->uncommitted;
  return uncommitted.active() && !uncommitted.touches(key, shard.committed_index);
}

bool WorkerEngine::is_settled(const EngineShard& shard) {
  return shard.committed_index == shard.last_index;
}

// --- Entries kept for peers

std::optional<ReplicaEntry> WorkerEngine::replica_entry(const EngineShard& shard, uint64_t index) const {
  const ReplicaRecord* const record = find(*shard.replica, index);
  if (record == nullptr) return std::nullopt;
  return entry_of(*record);
}

ReplicaRecord* WorkerEngine::pin_entry(EngineShard& shard, uint64_t index) {
  ReplicaRecord* const record = find(*shard.replica, index);
  if (record != nullptr) ++record->pins;
  return record;
}

void WorkerEngine::unpin_entry(ReplicaRecord& record) {
  SKUA_CHECK(record.pins > 0, "an entry is unpinned once for each pin");
  if (--record.pins == 0 && record.dropped && !record.in_log) release_entry(record);
}

void WorkerEngine::release_entry_pin(void* entry) {
  auto& record = *static_cast<ReplicaRecord*>(entry);
  record.engine->unpin_entry(record);
}

ReplicaEntry WorkerEngine::entry_of_record(const ReplicaRecord& entry) {
  return entry_of(entry);
}

uint64_t WorkerEngine::trim_entries(EngineShard& shard, uint64_t needed_from, size_t bytes_max) {
  EngineReplica& replica = *shard.replica;
  while (!replica.entries.empty()) {
    ReplicaRecord& record = *replica.entries.front();
    const bool wanted = record.index >= needed_from ? replica.bytes <= bytes_max : replica.bytes <= bytes_max / 4;
    if (wanted || record.in_log) break;
    if (record.index > shard.applied_index) {
      // A copy of the database and the kept entries must meet without a gap, so an entry is kept until it is applied.
      if (record.index <= shard.committed_index) applier_->hurry();
      break;
    }
    replica.entries.pop_front();
    replica.bytes -= record.payload.size();
    // Such an entry is a primary's own: apply_entry() has not taken its row.
    if (record.in_row) replica.rows.push_back(record.index);
    record.dropped = true;
    if (record.pins == 0) release_entry(record);
  }
  return replica.entries.empty() ? shard.last_index + 1 : replica.entries.front()->index;
}

/// The shard goes. Entries that are still being sent to peers are released when they are unpinned.
void WorkerEngine::forget_entries(EngineShard& shard) {
  for (ReplicaRecord* record : std::exchange(shard.replica->entries, {})) {
    remove_uncommitted(*shard.replica, *record);
    record->dropped = true;
    if (record->pins == 0) release_entry(*record);
  }
}

void WorkerEngine::add_uncommitted(EngineReplica& replica, ReplicaRecord& record) {
  record.counted = true;
  replica.uncommitted_bytes += sizeof(record) + record.payload.size();
  uncommitted_bytes_ += sizeof(record) + record.payload.size();
}

void WorkerEngine::remove_uncommitted(EngineReplica& replica, ReplicaRecord& record) {
  if (!std::exchange(record.counted, false)) return;
  replica.uncommitted_bytes -= sizeof(record) + record.payload.size();
  uncommitted_bytes_ -= sizeof(record) + record.payload.size();
}

bool WorkerEngine::has_room_for_entries(const EngineShard& shard, bool inherited) const {
  const size_t bytes_max = options_.unfinished_bytes_max * (inherited ? kInheritedTimes : 1);
  return uncommitted_bytes_ < bytes_max || shard.replica->uncommitted_bytes < bytes_max / kUncommittedShare;
}

ReplicaLevels WorkerEngine::replica_levels(const EngineShard& shard) const {
  return {shard.written_index, shard.synced_index};
}

uint64_t WorkerEngine::last_entry(const EngineShard& shard) const {
  return shard.last_index;
}

ReplicaRecord& WorkerEngine::acquire_entry() {
  if (free_entry_ == nullptr) {
    free_entry_ = entries_.emplace_back(std::make_unique<ReplicaRecord>()).get();
    free_entry_->engine = this;
  }
  return *std::exchange(free_entry_, free_entry_->next_free);
}

void WorkerEngine::release_entry(ReplicaRecord& record) {
  record.in_row = record.dropped = false;
  record.payload.clear();
  if (record.payload.capacity() > kPayloadBytesKept) std::string().swap(record.payload);
  record.next_free = std::exchange(free_entry_, &record);
}

}  // namespace skua::kv
