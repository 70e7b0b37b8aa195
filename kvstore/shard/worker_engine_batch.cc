// Batches: several writes that are one record of the log. They are evaluated in their order, and all of them are
// applied or none.
//
//    begin --- a key's state must be read, or is being read for an earlier write? --- no ---> evaluate --> as one write
//                | yes: the batch is the shard's barrier, later writes wait behind it              ^
//                +---> read some of what is missing ---> look again -------------------------------+
//
// The keys of a batch may have far more bytes of values than memory has room for: 1,024 values of 16 MiB. So only a few
// values are read at a time. Only values that an operation works on are kept, and if these are too many bytes the batch
// is refused.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/engine_shard.h"
#include "kvstore/shard/worker_engine.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

namespace {

/// True: the mutation needs the old value. A condition needs the version only.
bool needs_value(const Mutation& mutation) {
  return mutation.kind != Mutation::Kind::kPut && mutation.kind != Mutation::Kind::kDelete;
}

}  // namespace

void BatchWork::clear() {
  needed.clear();
  seen.clear();
  drop_fetched();
  failure = absl::OkStatus();
  effects.clear();
  effect_of_key.clear();
  operation_of_effect.clear();
  made.clear();
  record_bytes = 0;
  results.clear();
  payload.clear();
  writes.clear();
}

void BatchWork::drop_fetched() {
  fetched.clear();
  fetched_bytes = 0;
}

void BatchWork::find_needed(std::span<const Mutation> batch) {
  if (std::ranges::none_of(batch, needs_current)) return;
  for (const Mutation& mutation : batch) {
    const bool is_first = seen.insert(mutation.key).second;
    if (is_first && needs_current(mutation)) needed.push_back({mutation.key, needs_value(mutation)});
  }
}

void WorkerEngine::begin_batch(EngineShard& shard, WriteOp& op) {
  if (op.work == nullptr) op.work = std::make_unique<BatchWork>();
  op.work->clear();
  op.work->find_needed(op.batch);
  shard.barrier = &op;
  try_batch(shard);
}

/// True: the state of all keys that the batch needs is at hand. False: reads are under way.
bool WorkerEngine::gather(EngineShard& shard, WriteOp& op) {
  BatchWork& work = *op.work;
  for (size_t i = 0; i < work.needed.size() && work.fetching < kBatchReadsMax && work.failure.ok(); ++i) {
    gather_key(shard, work, i);
  }
  return work.fetching == 0;
}

void WorkerEngine::gather_key(EngineShard& shard, BatchWork& work, size_t which) {
  const BatchWork::Needed& needed = work.needed[which];
  if (shard.pending.contains(needed.key) || work.fetched.contains(needed.key)) return;
  const MemoryTier::Lookup found = get(shard, needed.key);
  if (found.found != MemoryTier::Found::kMiss) return;
  EngineFetch& fetch = acquire_fetch(shard, needed.key, found.ticket);
  fetch.for_batch = &needed;
  if (absl::Status submitted = readers_.submit(fetch); !submitted.ok()) {
    release_fetch(fetch);
    work.failure = std::move(submitted);
    return;
  }
  work.fetched.try_emplace(needed.key);
  ++work.fetching;
}

/// A read for the batch is done. Nothing wrote to the key meanwhile, because later writes wait behind the batch.
void WorkerEngine::batch_fetched(EngineShard& shard, EngineFetch& fetch) {
  BatchWork& work = *shard.barrier->work;
  --work.fetching;
  if (!work.failure.ok()) {
    // The batch is refused when its last read is back.
  } else if (fetch.status.ok()) {
    BatchWork::Fetched& kept = work.fetched[fetch.for_batch->key];
    kept.version = fetch.value.version();
    kept.expires_at = fetch.value.expires_at();
    if (fetch.for_batch->value) {
      work.fetched_bytes += fetch.value.bytes().size();
      kept.value = std::move(fetch.value);
    }
  } else if (!absl::IsNotFound(fetch.status)) {
    work.failure = fetch.status;
  }
  if (work.failure.ok() && work.fetched_bytes > options_.batch_read_bytes_max) {
    work.failure = absl::ResourceExhaustedError(
        absl::StrCat("old values of the batch's keys must be read from the disk, and take more than ",
                     options_.batch_read_bytes_max, " bytes; split it"));
  }
  if (!work.failure.ok()) work.drop_fetched();
  resume_batch(shard);
}

/// If no read is missing, evaluates the batch that is the shard's barrier. The shard has no barrier then.
void WorkerEngine::try_batch(EngineShard& shard) {
  WriteOp& op = *shard.barrier;
  BatchWork& work = *op.work;
  if (!shard.parked.empty() || work.fetching > 0) return;
  if (work.failure.ok() && !gather(shard, op)) return;
  shard.barrier = nullptr;
  if (!work.failure.ok()) {
    answer(op, from_status_code(work.failure.code()), std_view(work.failure.message()));
    work.drop_fetched();
    finish(op);
  } else {
    evaluate_batch(shard, op);
  }
}

void WorkerEngine::resume_batch(EngineShard& shard) {
  if (shard.barrier != nullptr) try_batch(shard);
  while (shard.barrier == nullptr && shard.waiting_front != nullptr) {
    WriteOp& next = *shard.waiting_front;
    shard.waiting_front = std::exchange(next.behind, nullptr);
    dispatch(shard, next);
  }
}

void WorkerEngine::evaluate_batch(EngineShard& shard, WriteOp& op) {
  if (refuse(shard, op)) return;
  op.state = WriteOp::State::kAnswered;
  if (!evaluate_operations(shard, op)) {
    op.not_applied = op.result.status == KvStatus::kOk;
  } else if (op.work->effects.empty()) {
    op.achieved = Durability::kSync;  // there is nothing to be made durable
  } else {
    encode_batch(op);
    take_effect(shard, op);
  }
  op.work->drop_fetched();
  enqueue(shard, op);
  if (shard.front == &op) advance(shard);
}

/// False: one operation is refused, so the whole batch is not applied. APPEND, PATCH and EXPIRE can make values far
/// larger than the request. So the size of the record is checked after each operation: a record that the log cannot
/// take is never built.
bool WorkerEngine::evaluate_operations(EngineShard& shard, WriteOp& op) {
  BatchWork& work = *op.work;
  op.index = shard.last_index + 1;
  op.evaluated_ms = now_ms_;
  op.record_ms = next_record_ms(shard);
  op.results.assign(op.batch.size(), {});
  if (op.id.client_id != 0) work.record_bytes = kCompletionHeadBytes + op.batch.size() * kBatchResultBytes;
  for (size_t i = 0; i < op.batch.size(); ++i) {
    const Mutation& mutation = op.batch[i];
    PinnedValue pin;
    const CurrentState current = needs_current(mutation) ? batch_current(shard, op, mutation.key, pin) : CurrentState{};
    const Evaluated evaluated = evaluate(mutation, current, now_ms_, work.made.emplace_back());
    op.results[i] = evaluated.result;
    const KvStatus status = evaluated.result.status;
    const bool nothing_to_delete = mutation.kind == Mutation::Kind::kDelete && status == KvStatus::kNotFound;
    if (nothing_to_delete) continue;
    if (status != KvStatus::kOk) {
      const MutationResult refused = evaluated.result;
      op.results.assign(op.batch.size(), {});
      op.results[i] = refused;
      op.result = {KvStatus::kOk, 0, 0};
      return false;
    }
    op.results[i].version = op.index;
    enter_effect(work, i, {mutation.key, evaluated.value, evaluated.expires_at});
    if (work.record_bytes > payload_bytes_max(shard)) {
      op.results.clear();
      refuse_record(shard, op, work.record_bytes);
      return false;
    }
  }
  return true;
}

/// Sets the effect of a key. It replaces the key's earlier effect; the value that an earlier operation made for it is
/// freed, because nothing points to that value any more.
void WorkerEngine::enter_effect(BatchWork& work, size_t operation, const Effect& effect) {
  const auto [found, is_new] = work.effect_of_key.try_emplace(effect.key, work.effects.size());
  const size_t at = found->second;
  if (is_new) {
    work.effects.emplace_back();
    work.operation_of_effect.push_back(operation);
  } else {
    work.record_bytes -= encoded_bytes(work.effects[at]);
    std::string().swap(work.made[std::exchange(work.operation_of_effect[at], operation)]);
  }
  work.record_bytes += encoded_bytes(effect);
  work.effects[at] = effect;
}

CurrentState WorkerEngine::batch_current(EngineShard& shard, WriteOp& op, std::string_view key, PinnedValue& pin) {
  BatchWork& work = *op.work;
  if (const auto own = work.effect_of_key.find(key); own != work.effect_of_key.end()) {
    const Effect& effect = work.effects[own->second];
    return effect.value ? CurrentState{op.index, *effect.value, effect.expires_at} : CurrentState{};
  }
  CurrentState current;
  if (pending_state(shard, key, current) != nullptr) return current;
  if (const auto fetched = work.fetched.find(key); fetched != work.fetched.end()) {
    const BatchWork::Fetched& kept = fetched->second;
    return {kept.version, kept.value.bytes(), kept.expires_at};
  }
  MemoryTier::Lookup found = get(shard, key);
  SKUA_CHECK(found.found != MemoryTier::Found::kMiss, "a batch is evaluated when all that it rests on is at hand");
  if (found.found == MemoryTier::Found::kHit) {
    pin = std::move(found.value);
    current = {pin.version(), pin.bytes(), found.expiry};
  }
  return current;
}

/// Builds the record's payload. From here on the effects are views into it.
void WorkerEngine::encode_batch(WriteOp& op) {
  BatchWork& work = *op.work;
  size_t bytes = kCompletionHeadBytes + op.results.size() * kBatchResultBytes;
  for (const Effect& effect : work.effects) {
    bytes += kEffectHeadBytesMax + effect.key.size() + (effect.value ? effect.value->size() : 0);
  }
  work.payload.reserve(bytes);  // so the payload does not move while it grows
  EffectHead head;
  if (op.id.client_id != 0) {
    for (const MutationResult& result : op.results) append_batch_result(result, work.results);
    ByteWriter writer(head);
    encode_completion_head(completion_of(op), writer);
    work.payload.append(as_string_view(writer.written()));
    work.payload.append(work.results);
  }
  for (Effect& effect : work.effects) {
    ByteWriter writer(head);
    encode_effect_head(effect, writer);
    work.payload.append(as_string_view(writer.written()));
    const size_t key_at = work.payload.size();
    work.payload.append(effect.key);
    const size_t value_at = work.payload.size();
    if (effect.value) work.payload.append(as_string_view(*effect.value));
    const std::string_view written = work.payload;
    effect.key = written.substr(key_at, value_at - key_at);
    if (effect.value) effect.value = as_byte_span(written.substr(value_at));
  }
  work.effect_of_key.clear();
  work.made.clear();
}

bool WorkerEngine::fits_memory(const WriteOp& op) const {
  const auto bytes_of = [](const Effect& effect) {
    return Item::bytes_for(effect.key.size(), effect.value ? effect.value->size() : 0, effect.expires_at != 0);
  };
  if (op.batch.empty()) return bytes_of(op.effect) <= memory_->item_bytes_max();
  size_t cost = 0;
  for (const Effect& effect : op.work->effects) {
    if (bytes_of(effect) > memory_->item_bytes_max()) return false;
    cost += memory_->cost_in_batch(bytes_of(effect));
  }
  return cost <= memory_->batch_bytes_max();
}

MemoryTier::Put WorkerEngine::put_batch(EngineShard& shard, WriteOp& op) {
  BatchWork& work = *op.work;
  work.writes.clear();
  for (const Effect& effect : work.effects) {
    work.writes.push_back(
        {.key = ItemKey(shard.number, effect.key), .value = effect.value, .expiry = effect.expires_at});
  }
  return memory_->put_all(work.writes, op.index);
}

}  // namespace skua::kv
