// Writes, from their evaluation to their answer.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/shard/engine_shard.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/types/engine_mutants.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// The scratch memory of a write that is larger than this goes back to the heap after its use.
constexpr size_t kScratchBytesKept = size_t{64} << 10;

size_t bytes_of(const WriteOp& op) {
  size_t bytes = op.mutation.key.size() + op.mutation.value.size();
  for (const Mutation& mutation : op.batch) bytes += mutation.key.size() + mutation.value.size();
  return bytes;
}

size_t payload_bytes(const WriteOp& op) {
  if (!op.batch.empty()) return op.work->payload.size();
  return (op.id.client_id != 0 ? kCompletionHeadBytes : 0) + encoded_bytes(op.effect);
}

std::span<const Effect> effects_of(const WriteOp& op) {
  return op.batch.empty() ? std::span(&op.effect, 1) : std::span<const Effect>(op.work->effects);
}

}  // namespace

WriteOp::WriteOp() : LogOp(Kind::kWrite) {}
WriteOp::~WriteOp() = default;

void WorkerEngine::write(EngineShard& shard, WriteOp& op) {
  op.shard = &shard;
  op.behind = op.repetition = nullptr;
  op.result = {};
  op.results.clear();
  op.not_applied = op.from_record = false;
  op.achieved = Durability::kDefault;
  op.why.clear();
  ++unfinished_;
  unfinished_bytes_ += bytes_of(op);
  if (unfinished_ > options_.unfinished_max || (unfinished_bytes_ > options_.unfinished_bytes_max && unfinished_ > 1)) {
    answer(op, KvStatus::kResourceExhausted, "the worker has as many writes waiting for its disk as it may; try later");
    return finish(op);
  }
  if (op.id.client_id != 0 && !begin_attempt(shard, op)) return;
  if (shard.barrier != nullptr || shard.waiting_front != nullptr) {
    (shard.waiting_front == nullptr ? shard.waiting_front : shard.waiting_back->behind) = &op;
    shard.waiting_back = &op;
    return;
  }
  dispatch(shard, op);
}

void WorkerEngine::dispatch(EngineShard& shard, WriteOp& op) {
  if (!op.batch.empty()) return begin_batch(shard, op);
  if (!shard.parked.empty() && !engine_mutant(EngineMutant::kOvertakeParked)) {
    const auto parked = shard.parked.find(op.mutation.key);
    if (parked != shard.parked.end()) {
      EngineFetch& fetch = *parked->second;
      fetch.last_write = fetch.last_write->behind = &op;
      return;
    }
  }
  evaluate_write(shard, op, nullptr);
}

void WorkerEngine::answer(WriteOp& op, KvStatus status, std::string_view why) {
  op.state = WriteOp::State::kAnswered;
  op.result = {status, 0};
  op.why = why;
}

void WorkerEngine::finish(WriteOp& op) {
  if (op.relaxed != nullptr) std::exchange(op.relaxed, nullptr)->op = nullptr;
  WriteOp* repetition = end_attempt(*op.shard, op);
  tell(op);
  while (repetition != nullptr) {
    WriteOp& next = *repetition;
    repetition = next.repetition;
    tell(next);
  }
}

void WorkerEngine::tell(WriteOp& op) {
  --unfinished_;
  unfinished_bytes_ -= bytes_of(op);
  if (op.result.status == KvStatus::kResourceExhausted) ++writes_refused_;
  if (op.scratch.capacity() > kScratchBytesKept) std::string().swap(op.scratch);
  if (op.work != nullptr) {
    op.work->drop_fetched();
    if (op.work->payload.capacity() > kScratchBytesKept) op.work.reset();
  }
  events_.write_done(op);
}

bool WorkerEngine::refuse(const EngineShard& shard, WriteOp& op) {
  if (!shard.failure.ok()) {
    answer(op, KvStatus::kShardReadOnly, std_view(shard.failure.message()));
  } else if (!log_failure_.ok()) {
    answer(op, KvStatus::kShardReadOnly, std_view(log_failure_.message()));
  } else if (shard.replica != nullptr && !shard.replica->leading) {
    answer(op, KvStatus::kWrongShard, "this replica is not the shard's primary");
  } else if (shard.replica != nullptr && shard.replica->on_hold) {
    answer(op, KvStatus::kWrongShard,
           "the shard's members are changing, or too few: refresh the shard map and try again");
  } else if (!shard.refusal.ok()) {
    answer(op, KvStatus::kResourceExhausted, std_view(shard.refusal.message()));
  } else if (shard.has_apply_gap) {
    // A committed write is only in the log, so memory and database do not have the state of its key.
    answer(op, KvStatus::kResourceExhausted, "the node is stopping and has no memory left for this write");
  } else {
    return false;
  }
  finish(op);
  return true;
}

/// `known`: the state of the key in the database; null: it was not read.
void WorkerEngine::evaluate_write(EngineShard& shard, WriteOp& op, const CurrentState* known) {
  if (refuse(shard, op)) return;
  CurrentState current;
  PinnedValue pin;
  if (needs_current(op.mutation)) {
    if (pending_state(shard, op.mutation.key, current) == nullptr) {
      // Memory is asked also if the database was read: an earlier write that waited for the same read may be committed
      // by now.
      MemoryTier::Lookup found = get(shard, op.mutation.key);
      if (found.found == MemoryTier::Found::kMiss && known == nullptr) return park(shard, op, found.ticket);
      pin = std::move(found.value);
      if (found.found == MemoryTier::Found::kMiss) current = *known;
      if (found.found == MemoryTier::Found::kHit) current = {pin.version(), pin.bytes(), found.expiry};
    }
  }
  const Evaluated evaluated = evaluate(op.mutation, current, now_ms_, op.scratch);
  op.result = evaluated.result;
  op.state = WriteOp::State::kAnswered;
  op.evaluated_ms = now_ms_;
  op.record_ms = next_record_ms(shard);
  if (op.result.status == KvStatus::kOk) {
    op.index = shard.last_index + 1;
    op.effect = {op.mutation.key, evaluated.value, evaluated.expires_at};
    take_effect(shard, op);
  } else if (engine_mutant(EngineMutant::kAnswerFromPending)) {
    return finish(op);
  }
  enqueue(shard, op);
  if (shard.front == &op) advance(shard);
}

/// Gives an evaluated write to the log, or answers why not.
void WorkerEngine::take_effect(EngineShard& shard, WriteOp& op) {
  if (!fits_memory(op)) {
    return answer(
        op, KvStatus::kResourceExhausted,
        absl::StrCat("a worker of this node has memory for values of up to ", memory_->item_bytes_max(),
                     " bytes, and for batches of up to ", memory_->batch_bytes_max() / 2, "; give it more (--memory)"));
  }
  if (payload_bytes(op) > payload_bytes_max(shard)) return refuse_record(shard, op, payload_bytes(op));
  if (const absl::Status submitted = submit(shard, op); !submitted.ok()) {
    return answer(op, KvStatus::kResourceExhausted, std_view(submitted.message()));
  }
  shard.last_index = op.index;
  shard.clock.saw(op.record_ms, steady_ms_);
  enter_pending(shard, op);
}

/// The refusal is INVALID_ARGUMENT, whatever durability was asked for: the record would not fit later either.
void WorkerEngine::refuse_record(const EngineShard& shard, WriteOp& op, size_t bytes) {
  if (bytes <= log_->payload_bytes_max()) {
    return answer(op, KvStatus::kInvalidArgument,
                  absl::StrCat("what the write leaves takes at least ", bytes,
                               " bytes; of a replicated table one write takes up to ", payload_bytes_max(shard),
                               ", what a message between nodes takes; split it"));
  }
  answer(
      op, KvStatus::kInvalidArgument,
      absl::StrCat("what the write leaves takes at least ", bytes, " bytes of the log, which takes up to ",
                   log_->payload_bytes_max(), " at once; split it, or give the node larger log files (--log-segment)"));
}

size_t WorkerEngine::payload_bytes_max(const EngineShard& shard) const {
  const size_t log = log_->payload_bytes_max();
  return shard.replica == nullptr ? log : std::min(log, kReplicatedPayloadBytesMax);
}

// --- What is evaluated and not committed

/// The state of the key after its last pending effect. Null: the key has no pending effect.
const CurrentState* WorkerEngine::pending_state(EngineShard& shard, std::string_view key, CurrentState& out) {
  const auto pending = shard.pending.find(key);
  if (pending == shard.pending.end()) return nullptr;
  const Effect& newest = effects_of(*pending->second.op)[pending->second.effect];
  out = newest.value ? CurrentState{pending->second.op->index, *newest.value, newest.expires_at} : CurrentState{};
  return &out;
}

void WorkerEngine::enter_pending(EngineShard& shard, WriteOp& op) {
  const std::span<const Effect> effects = effects_of(op);
  for (size_t i = 0; i < effects.size(); ++i) {
    const auto [pending, is_new] = shard.pending.try_emplace(effects[i].key, EngineShard::Pending{&op, i});
    if (is_new) continue;
    shard.pending.erase(pending);  // its key is a view into the earlier write
    shard.pending.emplace(effects[i].key, EngineShard::Pending{&op, i});
  }
}

void WorkerEngine::leave_pending(EngineShard& shard, WriteOp& op) {
  for (const Effect& effect : effects_of(op)) {
    const auto pending = shard.pending.find(effect.key);
    if (pending != shard.pending.end() && pending->second.op == &op) shard.pending.erase(pending);
  }
}

// --- Writes whose key must be read first

void WorkerEngine::park(EngineShard& shard, WriteOp& op, MemoryTier::Ticket ticket) {
  EngineFetch& fetch = acquire_fetch(shard, op.mutation.key, ticket);
  fetch.first_write = fetch.last_write = &op;
  if (const absl::Status submitted = readers_.submit(fetch); !submitted.ok()) {
    release_fetch(fetch);
    answer(op, KvStatus::kResourceExhausted, std_view(submitted.message()));
    return finish(op);
  }
  shard.parked.emplace(fetch.key, &fetch);
}

/// Evaluates the parked writes. Nothing wrote to the key since it was parked, so the state that was read is still
/// right.
void WorkerEngine::unpark(EngineShard& shard, EngineFetch& fetch) {
  shard.parked.erase(fetch.key);
  CurrentState known;
  if (fetch.status.ok()) known = {fetch.value.version(), fetch.value.bytes(), fetch.value.expires_at()};
  const bool read = fetch.status.ok() || absl::IsNotFound(fetch.status);
  for (WriteOp *op = fetch.first_write, *next = nullptr; op != nullptr; op = next) {
    next = std::exchange(op->behind, nullptr);
    if (read) {
      evaluate_write(shard, *op, &known);
    } else {
      answer(*op, from_status_code(fetch.status.code()), std_view(fetch.status.message()));
      finish(*op);
    }
  }
  resume_batch(shard);
}

// --- A shard's queue

void WorkerEngine::enqueue(EngineShard& shard, WriteOp& op) {
  op.behind = nullptr;
  if (shard.front == nullptr) {
    shard.front = &op;
  } else {
    shard.back->behind = &op;
  }
  shard.back = &op;
}

/// Answers the writes at the front of the queue that can be answered, in order.
void WorkerEngine::advance(EngineShard& shard) {
  // The tail rows must reach the applier before any effect that is committed after them.
  if (shard.replica != nullptr && !shard.replica->closed && !hand_on_tail(shard)) return stall(shard);
  while (shard.front != nullptr &&
         (shard.front->state != WriteOp::State::kInLog || is_committed(shard, *shard.front))) {
    WriteOp& op = *shard.front;
    if (op.relaxed != nullptr && !(shard.refusal.ok() && log_failure_.ok())) {
      // The write is not answered yet and comes after a record that the log refused. So the log will refuse its record,
      // too.
      op.relaxed->abandoned = true;
      op.state = WriteOp::State::kFailed;
    }
    const bool written = op.state == WriteOp::State::kWritten || op.state == WriteOp::State::kInLog;
    if (written && !store_in_memory(shard, op)) return stall(shard);
    shard.front = op.behind;
    if (!written && (shard.failing || op.state == WriteOp::State::kFailed)) fail(shard, op);
    finish(op);
  }
  if (shard.replica != nullptr) {
    if (shard.front == nullptr) apply_entries(shard);
    return;
  }
  if (!shard.refusal.ok() && shard.in_log == 0 && shard.front == nullptr) settle(shard);
}

/// Answers a write with an error: the log did not take its record, or it depends on a write whose record the log did
/// not take.
void WorkerEngine::fail(EngineShard& shard, WriteOp& op) {
  shard.failing = true;
  const bool in_doubt = op.state == WriteOp::State::kFailed && !log_failure_.ok();
  shard.in_doubt |= in_doubt;
  if (op.state == WriteOp::State::kFailed) leave_pending(shard, op);
  op.results.clear();
  op.not_applied = false;
  if (in_doubt) return answer(op, KvStatus::kStorageFailed, std_view(log_failure_.message()));
  if (!log_failure_.ok()) return answer(op, KvStatus::kShardReadOnly, std_view(log_failure_.message()));
  answer(op, KvStatus::kResourceExhausted, std_view(shard.refusal.message()));
}

/// Makes a write visible and hands it to the applier. Its record is as durable as was asked for. False: memory or the
/// applier has no room just now.
bool WorkerEngine::store_in_memory(EngineShard& shard, WriteOp& op) {
  if (!shard.has_apply_gap) {
    auto put = MemoryTier::Put::kBackPressure;
    if (applier_->has_room(effects_of(op).size() + 1))
      put = op.batch.empty() ? put_one(shard, op) : put_batch(shard, op);
    SKUA_CHECK(put == MemoryTier::Put::kDone || put == MemoryTier::Put::kBackPressure, "memory took no newer version");
    if (put == MemoryTier::Put::kBackPressure) {
      applier_->hurry();
      if (!draining_) return false;
      shard.has_apply_gap = true;
      shard.applied.lacks_one.store(true, std::memory_order_release);
    } else {
      hand_on(shard, op);
      if (engine_mutant(EngineMutant::kCleanWhenQueued)) memory_->mark_clean(shard.number, op.index);
    }
  }
  leave_pending(shard, op);
  shard.committed_index = op.index;
  op.result = {KvStatus::kOk, op.index, op.result.value};
  if (op.is_attempt) shard.completions.record(completion_of(op), op.index, op.record_ms);
  return true;
}

MemoryTier::Put WorkerEngine::put_one(EngineShard& shard, const WriteOp& op) {
  const ItemKey key(shard.number, op.effect.key);
  const MemoryTier::Version version{.index = op.index, .expiry = op.effect.expires_at, .dirty = true};
  return op.effect.value ? memory_->put(key, *op.effect.value, version) : memory_->erase(key, version);
}

/// Gives the write that memory has just taken to the applier.
void WorkerEngine::hand_on(EngineShard& shard, const WriteOp& op) {
  if (op.is_attempt) {
    AppliedCompletion completion{op.id, op.result.value, op.record_ms, nullptr};
    if (!op.batch.empty()) completion.batch_results = std::make_unique<std::string>(op.work->results);
    applier_->add(shard.applied, std::move(completion));
  }
  const auto add = [&](const MemoryTier::Written& written, const Effect& effect, bool continues) {
    const auto value = effect.value ? std::optional(written.value) : std::nullopt;
    applier_->add(shard.applied, {written.key, value, op.index, effect.expires_at}, continues);
  };
  if (op.batch.empty()) return add(memory_->last_written(), op.effect, false);
  const BatchWork& work = *op.work;
  for (size_t i = 0; i < work.effects.size(); ++i) {
    add(work.writes[i].written(), work.effects[i], i + 1 < work.effects.size());
  }
}

void WorkerEngine::stall(EngineShard& shard) {
  if (std::exchange(shard.stalled, true)) return;
  stalled_.push_back(&shard);
}

void WorkerEngine::retry_stalled() {
  for (EngineShard* shard : std::exchange(stalled_, {})) {
    shard->stalled = false;
    advance(*shard);
  }
}

}  // namespace skua::kv
