#include "kvstore/shard/shard_apply.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/shard/entry_log.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {

bool ShardApply::apply(WriteOp& op) {
  const Completion completion = op.is_attempt ? op.completion() : Completion{};
  if (!shard_.has_apply_gap) {
    const MemoryTier::Put done = apply({.index = op.index,
                                        .record_ms = op.record_ms,
                                        .effects = op.effects(),
                                        .completion = op.is_attempt ? &completion : nullptr});
    SKUA_CHECK(done != MemoryTier::Put::kTooLarge,
               "a write that memory could never take is refused when it is evaluated");
    if (done == MemoryTier::Put::kBackPressure) {
      if (!shard_.worker.draining) return false;
      shard_.has_apply_gap = true;
      shard_.applied.lacks_one.store(true, std::memory_order_release);
    }
  }
  shard_.at.committed = op.index;
  op.result = {KvStatus::kOk, op.index, op.result.value};
  if (op.is_attempt) attempts_.record(completion, op.index, op.record_ms);
  return true;
}

bool ShardApply::apply_entries() {
  EntryLog& entries = *shard_.entries;
  // Behind a gap nothing may reach the database: its index would say that the database has what is missing.
  if (entries.rows().is_closed() || shard_.has_apply_gap) return true;
  while (shard_.at.committed < entries.commit_limit() && shard_.failure.ok()) {
    Entry* const entry = entries.find(shard_.at.committed + 1);
    SKUA_CHECK(entry != nullptr, "entries are kept until they are applied");
    if (!apply(*entry)) return false;
  }
  return true;
}

/// An entry that is no write of this replica. False: there is no room just now.
bool ShardApply::apply(Entry& entry) {
  EffectReader reader(as_byte_span(entry.payload));
  std::vector<HashedEffect>& effects = shard_.worker.effects;
  effects.clear();
  while (const auto effect = reader.next()) effects.push_back({*effect, shard_.worker.hasher.hash(effect->key)});
  const auto& completion = reader.completion();
  const auto record_ms = static_cast<uint64_t>(entry.time_ms);
  const MemoryTier::Put done = apply({.index = entry.index,
                                      .record_ms = record_ms,
                                      .effects = effects,
                                      .completion = completion ? &*completion : nullptr,
                                      .runs = reader.barrier()});
  if (done == MemoryTier::Put::kBackPressure) return false;
  if (done == MemoryTier::Put::kTooLarge) {
    shard_.failure = absl::ResourceExhaustedError("an entry needs more memory than this node has (--memory)");
    return true;
  }
  if (completion) attempts_.record(*completion, entry.index, record_ms);
  shard_.at.committed = entry.index;
  if (entry.in_row) shard_.entries->rows().add_old(entry.index);
  shard_.entries->applied(entry);
  return true;
}

/// All of the record or nothing. Never kStale; kBackPressure also if the applier has no room.
MemoryTier::Put ShardApply::apply(const Record& record) {
  Applier& applier = *shard_.worker.applier;
  const size_t rows = shard_.entries == nullptr ? 0 : shard_.entries->rows().rows_max();
  if (!applier.has_room(record.effects.size() + rows + 1)) {
    applier.take_now();
    return MemoryTier::Put::kBackPressure;
  }
  const MemoryTier::Put done = put(record);
  if (done == MemoryTier::Put::kBackPressure) applier.hurry_all();
  if (done != MemoryTier::Put::kDone) return done;
  hand_on(record);
  if (mutant(Mutant::kCleanWhenQueued)) shard_.worker.memory->mark_clean(shard_.number, record.index);
  return MemoryTier::Put::kDone;
}

/// One effect alone is cheaper than a batch. But a database that was copied from a liar may hold versions that no entry
/// gave; a batch replaces them, too.
MemoryTier::Put ShardApply::put(const Record& record) {
  MemoryTier& memory = *shard_.worker.memory;
  written_ = {};
  if (record.effects.size() == 1) {
    const HashedEffect& effect = record.effects.front();
    const MemoryTier::Version version{
        .index = record.index, .expiry = effect.expires_at, .dirty = true, .mark = effect.mark};
    const ItemKey key = shard_.item_key(effect.hashed_key());
    const MemoryTier::Put done = effect.value ? memory.put(key, *effect.value, version) : memory.erase(key, version);
    if (done != MemoryTier::Put::kStale) return done;
  }
  if (record.effects.empty()) return MemoryTier::Put::kDone;
  std::vector<MemoryTier::BatchWrite>& writes = shard_.worker.batch_writes;
  if (writes.size() < record.effects.size()) writes.resize(record.effects.size());
  for (size_t i = 0; i < record.effects.size(); ++i) {
    const HashedEffect& effect = record.effects[i];
    MemoryTier::BatchWrite& write = writes[i];
    write.key = shard_.item_key(effect.hashed_key());
    write.value = effect.value;
    write.expiry = effect.expires_at;
    write.mark = effect.mark;
  }
  written_ = std::span(writes).first(record.effects.size());
  return memory.put_all(written_, record.index);
}

/// Gives the record that memory has just taken to the applier: the completion, then rows, then the effects. The bytes
/// of the effects are memory's.
void ShardApply::hand_on(const Record& record) {
  Applier& applier = *shard_.worker.applier;
  if (record.completion != nullptr) {
    const Completion& completion = *record.completion;
    AppliedCompletion applied{completion.id, completion.value, record.record_ms, nullptr};
    if (!completion.batch_results.empty()) {
      applied.batch_results = std::make_unique<std::string>(as_string_view(completion.batch_results));
    }
    applier.add(shard_.applied, std::move(applied));
  }
  size_t left = record.effects.size();
  if (shard_.entries != nullptr) {
    std::vector<AppliedEffect>& rows = shard_.worker.rows;
    rows.clear();
    shard_.entries->rows().append_for(record.index, record.runs, rows);
    left += rows.size();
    for (const AppliedEffect& row : rows) applier.add(shard_.applied, row, --left > 0);
  }
  for (size_t i = 0; i < record.effects.size(); ++i) {
    const Effect& effect = record.effects[i];
    const MemoryTier::Written written = written_.empty() ? shard_.worker.memory->last_written() : written_[i].written();
    const auto value = effect.value ? std::optional(written.value) : std::nullopt;
    applier.add(shard_.applied, {written.key, value, record.index, effect.expires_at, effect.mark}, --left > 0);
  }
}

}  // namespace skua::kv
