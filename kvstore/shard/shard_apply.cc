// Committed records: into memory, where readers see them, and to the applier, which brings them to the database. All
// records of a running shard pass through apply(): a primary's writes, and the entries of other replicas.
#include <utility>

#include "kvstore/shard/shard.h"
#include "kvstore/types/engine_mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {

/// Makes the write visible. Its record is as durable as was asked for. False: there is no room just now.
bool Shard::commit(WriteOp& op) {
  const Completion completion = op.is_attempt ? op.completion() : Completion{};
  if (!has_apply_gap_) {
    const Applied done = apply({.index = op.index,
                                .record_ms = op.record_ms,
                                .effects = op.effects(),
                                .completion = op.is_attempt ? &completion : nullptr});
    SKUA_CHECK(done != Applied::kTooLarge, "a write that memory could never take is refused when it is evaluated");
    if (done == Applied::kNoRoom) {
      if (!worker().draining) return false;
      has_apply_gap_ = true;
      context_.applied.lacks_one.store(true, std::memory_order_release);
    }
  }
  queue_.withdraw(op);
  at_.committed = op.index;
  op.result = {KvStatus::kOk, op.index, op.result.value};
  if (op.is_attempt) attempts_.record(completion, op.index, op.record_ms);
  return true;
}

void Shard::apply_entries() {
  if (entries_->rows().is_closed()) return;
  while (at_.committed < entries_->commit_limit() && health().ok()) {
    Entry* const entry = entries_->find(at_.committed + 1);
    SKUA_CHECK(entry != nullptr, "entries are kept until they are applied");
    if (!apply_entry(*entry)) return stall();
  }
}

/// An entry that is no write of this replica. False: there is no room just now.
bool Shard::apply_entry(Entry& entry) {
  EffectReader reader(as_byte_span(entry.payload));
  std::vector<Effect>& effects = worker().effects;
  effects.clear();
  while (const auto effect = reader.next()) effects.push_back(*effect);
  const auto& completion = reader.completion();
  const auto record_ms = static_cast<uint64_t>(entry.time_ms);
  switch (apply({.index = entry.index,
                 .record_ms = record_ms,
                 .effects = effects,
                 .completion = completion ? &*completion : nullptr,
                 .runs = reader.barrier()})) {
    case Applied::kNoRoom: return false;
    case Applied::kTooLarge:
      context_.failure = absl::ResourceExhaustedError("an entry needs more memory than this node has (--memory)");
      return true;
    case Applied::kDone: break;
  }
  if (completion) attempts_.record(*completion, entry.index, record_ms);
  at_.committed = entry.index;
  if (entry.in_row) entries_->rows().add_old(entry.index);
  entries_->applied(entry);
  return true;
}

/// All of the record or nothing.
Shard::Applied Shard::apply(const Committed& record) {
  Applier& applier = *worker().applier;
  const size_t rows = entries_ == nullptr ? 0 : entries_->rows().rows_max();
  const MemoryTier::Put done =
      applier.has_room(record.effects.size() + rows + 1) ? put(record) : MemoryTier::Put::kBackPressure;
  if (done == MemoryTier::Put::kTooLarge) return Applied::kTooLarge;
  if (done == MemoryTier::Put::kBackPressure) {
    applier.hurry();
    return Applied::kNoRoom;
  }
  hand_on(record);
  if (engine_mutant(EngineMutant::kCleanWhenQueued)) worker().memory->mark_clean(context_.number, record.index);
  return Applied::kDone;
}

/// One effect alone is cheaper than a batch. But a database that was copied from a liar may hold versions that no entry
/// gave; a batch replaces them, too.
MemoryTier::Put Shard::put(const Committed& record) {
  MemoryTier& memory = *worker().memory;
  std::vector<MemoryTier::BatchWrite>& writes = worker().batch_writes;
  writes.clear();
  if (record.effects.size() == 1) {
    const Effect& effect = record.effects.front();
    const MemoryTier::Version version{.index = record.index, .expiry = effect.expires_at, .dirty = true};
    const ItemKey key = item_key(effect.key);
    const MemoryTier::Put done = effect.value ? memory.put(key, *effect.value, version) : memory.erase(key, version);
    if (done != MemoryTier::Put::kStale) return done;
  }
  for (const Effect& effect : record.effects) {
    writes.push_back({.key = item_key(effect.key), .value = effect.value, .expiry = effect.expires_at});
  }
  return writes.empty() ? MemoryTier::Put::kDone : memory.put_all(writes, record.index);
}

/// Gives the record that memory has just taken to the applier: the completion, then rows, then the effects. The bytes
/// of the effects are memory's.
void Shard::hand_on(const Committed& record) {
  Applier& applier = *worker().applier;
  if (record.completion != nullptr) {
    const Completion& completion = *record.completion;
    AppliedCompletion applied{completion.id, completion.value, record.record_ms, nullptr};
    if (!completion.batch_results.empty()) {
      applied.batch_results = std::make_unique<std::string>(as_string_view(completion.batch_results));
    }
    applier.add(context_.applied, std::move(applied));
  }
  size_t left = record.effects.size();
  if (entries_ != nullptr) {
    std::vector<AppliedEffect>& rows = worker().rows;
    rows.clear();
    entries_->rows().append_for(record.index, record.runs, rows);
    left += rows.size();
    for (const AppliedEffect& row : rows) applier.add(context_.applied, row, --left > 0);
  }
  for (size_t i = 0; i < record.effects.size(); ++i) {
    const Effect& effect = record.effects[i];
    const MemoryTier::Written written =
        worker().batch_writes.empty() ? worker().memory->last_written() : worker().batch_writes[i].written();
    const auto value = effect.value ? std::optional(written.value) : std::nullopt;
    applier.add(context_.applied, {written.key, value, record.index, effect.expires_at}, --left > 0);
  }
}

}  // namespace skua::kv
