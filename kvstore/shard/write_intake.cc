#include "kvstore/shard/write_intake.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/shard.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

void WriteIntake::take(WriteOp& op) {
  if (barrier_ != nullptr || !waiting_.empty()) return waiting_.push(op);
  dispatch(op);
}

void WriteIntake::dispatch(WriteOp& op) {
  if (op.is_batch()) {
    if (op.work == nullptr) op.work = std::make_unique<BatchWork>();
    op.work->begin(op.batch, shard_.worker.hasher);
    barrier_ = &op;
    return try_batch();
  }
  if (!parked_.empty() && !mutant(Mutant::kOvertakeParked)) {
    const auto parked = parked_.find(op.mutation.key);
    if (parked != parked_.end()) return parked->second->writes.push(op);
  }
  evaluate_one(op, nullptr);
}

void WriteIntake::fetched(KeyFetch& fetch) {
  if (fetch.for_batch == nullptr) return unpark(fetch);
  // Nothing wrote to the key meanwhile, because later writes wait behind the batch.
  barrier_->work->take_fetched(*fetch.for_batch, fetch.status, std::move(fetch.value),
                               shard_.worker.options.batch_read_bytes_max);
  resume();
}

// --- One mutation

/// `read`: null: the key was not read.
void WriteIntake::evaluate_one(WriteOp& op, const Read* read) {
  if (shard_.shard.refuse(op)) return;
  CurrentState current;
  PinnedValue pin;
  const HashedKey key = shard_.hashed(op.mutation.key);
  if (needs_current(op.mutation)) {
    if (const auto pending = queue_.pending(key)) {
      current = *pending;
    } else {
      // Memory is asked also if the database was read: a write that came before may be committed by now, and have left
      // memory again.
      MemoryTier::Lookup found = shard_.get(key);
      const bool is_read = read != nullptr && read->ticket == found.ticket;
      const bool is_miss = found.found == MemoryTier::Found::kMiss;
      if (is_miss && !is_read) return park(op, found.ticket);
      pin = std::move(found.value);
      if (is_miss) current = read->state;
      if (found.found == MemoryTier::Found::kHit) current = {pin.version(), pin.bytes(), found.expiry, pin.mark()};
    }
  }
  const Evaluated evaluated = evaluate(op.mutation, current, shard_.worker.now_ms, op.scratch);
  op.result = evaluated.result;
  op.is_unchanged = evaluated.is_unchanged;
  if (op.is_unchanged) op.achieved = Durability::kSync;  // there is nothing to be made durable
  if (!evaluated.why.empty()) op.why = evaluated.why;
  const bool has_effect = op.result.status == KvStatus::kOk && !op.is_unchanged;
  if (has_effect) op.effect = {{key.text, evaluated.value, evaluated.expires_at, evaluated.mark}, key.hash};
  shard_.shard.take(op, has_effect);
}

void WriteIntake::park(WriteOp& op, MemoryTier::Ticket ticket) {
  WorkerResources& worker = shard_.worker;
  KeyFetch& fetch = worker.fetches.acquire(shard_.shard, op.mutation.key, ticket);
  if (const absl::Status submitted = worker.submit(fetch); !submitted.ok()) {
    op.answer(KvStatus::kResourceExhausted, std_view(submitted.message()));
    return shard_.shard.finish(op);
  }
  fetch.writes.push(op);
  parked_.emplace(fetch.key, &fetch);
}

/// Evaluates the parked writes. If the key was written since it was read (this replica followed another primary
/// meanwhile), it is read once more, and the other writes wait behind that read.
void WriteIntake::unpark(KeyFetch& fetch) {
  parked_.erase(fetch.key);
  Read read{.state = {}, .ticket = fetch.ticket};
  const PinnedValue& value = fetch.value;
  if (fetch.status.ok()) read.state = {value.version(), value.bytes(), value.expires_at(), value.mark()};
  const bool is_read = fetch.status.ok() || absl::IsNotFound(fetch.status);
  while (!fetch.writes.empty()) {
    WriteOp& op = fetch.writes.pop();
    if (const auto again = parked_.find(fetch.key); again != parked_.end()) {
      again->second->writes.push(op);
    } else if (is_read) {
      evaluate_one(op, &read);
    } else {
      op.answer(from_status_code(fetch.status.code()), std_view(fetch.status.message()));
      shard_.shard.finish(op);
    }
  }
  resume();
}

// --- Batches

/// If no read is missing, evaluates the batch that is the barrier. There is no barrier then.
void WriteIntake::try_batch() {
  WriteOp& op = *barrier_;
  BatchWork& work = *op.work;
  if (!parked_.empty() || work.fetching() > 0) return;
  if (work.failure().ok() && !gather(op)) return;
  barrier_ = nullptr;
  if (work.failure().ok()) return evaluate_batch(op);
  op.answer(from_status_code(work.failure().code()), std_view(work.failure().message()));
  work.drop_fetched();
  shard_.shard.finish(op);
}

/// Goes on with the barrier, and with the writes behind it if it is gone.
void WriteIntake::resume() {
  if (barrier_ != nullptr) try_batch();
  while (barrier_ == nullptr && !waiting_.empty()) dispatch(waiting_.pop());
}

/// True: the state of all keys that the batch needs is at hand. False: reads are under way.
bool WriteIntake::gather(WriteOp& op) {
  BatchWork& work = *op.work;
  WorkerResources& worker = shard_.worker;
  for (const BatchWork::Needed& needed : work.needed()) {
    if (work.fetching() == kBatchReadsMax) break;
    const HashedKey key = shard_.hashed(needed.key);
    if (queue_.pending(key) || work.fetched(needed.key)) continue;
    const MemoryTier::Lookup found = shard_.get(key);
    if (found.found != MemoryTier::Found::kMiss) continue;
    KeyFetch& fetch = worker.fetches.acquire(shard_.shard, needed.key, found.ticket);
    fetch.for_batch = &needed;
    if (absl::Status submitted = worker.submit(fetch); !submitted.ok()) {
      work.fail(std::move(submitted));
      break;
    }
    work.begin_fetch(needed.key);
  }
  return work.fetching() == 0;
}

void WriteIntake::evaluate_batch(WriteOp& op) {
  Shard& shard = shard_.shard;
  if (shard.refuse(op)) return;
  BatchWork& work = *op.work;
  op.index = shard_.at.last + 1;
  const auto before = [&](const HashedKey& key, PinnedValue& pin) { return state_before(work, key, pin); };
  bool has_effect = false;
  switch (work.evaluate(op, shard_.worker.now_ms, shard.payload_bytes_max(), before)) {
    case BatchWork::Outcome::kNotApplied:
      op.result = {KvStatus::kOk, 0, 0};
      op.not_applied = true;
      break;
    case BatchWork::Outcome::kTooLarge: shard.refuse_record(op, work.record_bytes()); break;
    case BatchWork::Outcome::kTooMuch:
      op.answer(KvStatus::kInvalidArgument,
                absl::StrCat("its operations on the same keys, one after the other, make values of more than ",
                             BatchWork::kMadeShare * shard.payload_bytes_max(), " bytes in all; split it"));
      break;
    case BatchWork::Outcome::kApplied:
      has_effect = !work.effects().empty();
      if (has_effect) work.encode(op);
      if (!has_effect) op.achieved = Durability::kSync;  // there is nothing to be made durable
      break;
  }
  work.drop_fetched();
  shard.take(op, has_effect);
}

/// The state of a key that the batch has not changed yet.
CurrentState WriteIntake::state_before(const BatchWork& work, const HashedKey& key, PinnedValue& pin) {
  if (const auto pending = queue_.pending(key)) return *pending;
  if (const auto fetched = work.fetched(key.text)) return *fetched;
  MemoryTier::Lookup found = shard_.get(key);
  SKUA_CHECK(found.found != MemoryTier::Found::kMiss, "a batch is evaluated when all that it rests on is at hand");
  if (found.found == MemoryTier::Found::kAbsent) return {};
  pin = std::move(found.value);
  return {pin.version(), pin.bytes(), found.expiry, pin.mark()};
}

}  // namespace skua::kv
