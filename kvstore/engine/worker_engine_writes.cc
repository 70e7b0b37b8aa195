// Writes, from their evaluation to their answer.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/engine/engine_shard.h"
#include "kvstore/engine/mutants.h"
#include "kvstore/engine/worker_engine.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// Scratch rows above this size are given back after their use.
constexpr size_t kScratchBytesKept = size_t{64} << 10;

size_t bytes_of(const WriteOp& op) {
  return op.mutation.key.size() + op.mutation.value.size();
}

}  // namespace

void WorkerEngine::write(EngineShard& shard, WriteOp& op) {
  op.shard = &shard;
  op.behind = nullptr;
  op.result = {};
  op.why.clear();
  ++unfinished_;
  unfinished_bytes_ += bytes_of(op);
  if (unfinished_ > options_.unfinished_max || (unfinished_bytes_ > options_.unfinished_bytes_max && unfinished_ > 1)) {
    answer(op, KvStatus::kResourceExhausted, "the worker has as many writes waiting for its disk as it may; try later");
    return finish(op);
  }
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
  --unfinished_;
  unfinished_bytes_ -= bytes_of(op);
  if (op.result.status == KvStatus::kResourceExhausted) ++writes_refused_;
  if (op.scratch.capacity() > kScratchBytesKept) std::string().swap(op.scratch);
  events_.write_done(op);
}

bool WorkerEngine::refuse(const EngineShard& shard, WriteOp& op) {
  if (!shard.failure.ok()) {
    answer(op, KvStatus::kShardReadOnly, std_view(shard.failure.message()));
  } else if (!log_failure_.ok()) {
    answer(op, KvStatus::kShardReadOnly, std_view(log_failure_.message()));
  } else if (!shard.refusal.ok()) {
    answer(op, KvStatus::kResourceExhausted, std_view(shard.refusal.message()));
  } else {
    return false;
  }
  finish(op);
  return true;
}

/// `known`: the key's committed state, read from the database; null if nobody has looked there.
void WorkerEngine::evaluate_write(EngineShard& shard, WriteOp& op, const CurrentState* known) {
  if (refuse(shard, op)) return;
  CurrentState current;
  PinnedValue pin;
  if (needs_current(op.mutation)) {
    const auto pending = shard.pending.find(op.mutation.key);
    if (pending != shard.pending.end()) {
      const WriteOp& newest = *pending->second;
      if (newest.value) current = {newest.index, *newest.value};
    } else if (known != nullptr) {
      current = *known;
    } else {
      MemoryTier::Lookup found = get(shard, op.mutation.key);
      if (found.found == MemoryTier::Found::kMiss) return park(shard, op, found.ticket);
      pin = std::move(found.value);
      if (found.found == MemoryTier::Found::kHit) current = {pin.version(), pin.bytes()};
    }
  }
  const Evaluated evaluated = evaluate(op.mutation, current, op.scratch);
  op.result = evaluated.result;
  if (op.result.status == KvStatus::kOk) {
    take_effect(shard, op, evaluated.value);
  } else {
    op.state = WriteOp::State::kAnswered;
    if (engine_mutant(EngineMutant::kAnswerFromPending)) return finish(op);
  }
  enqueue(shard, op);
  if (shard.front == &op) advance(shard);
}

void WorkerEngine::take_effect(EngineShard& shard, WriteOp& op, std::optional<ByteSpan> value) {
  const size_t item_bytes = Item::bytes_for(op.mutation.key.size(), value ? value->size() : 0, false);
  if (item_bytes > memory_->item_bytes_max()) {
    return answer(op, KvStatus::kResourceExhausted,
                  absl::StrCat("a worker of this node has memory for values of up to ", memory_->item_bytes_max(),
                               " bytes; give it more (--memory)"));
  }
  op.index = shard.last_index + 1;
  op.value = value;
  if (const absl::Status submitted = submit(shard, op); !submitted.ok()) {
    return answer(op, KvStatus::kResourceExhausted, std_view(submitted.message()));
  }
  op.state = WriteOp::State::kInLog;
  shard.last_index = op.index;
  const auto [pending, is_new] = shard.pending.try_emplace(op.mutation.key, &op);
  if (!is_new) {
    shard.pending.erase(pending);  // its key is a view into the earlier write
    shard.pending.emplace(op.mutation.key, &op);
  }
}

absl::Status WorkerEngine::submit(EngineShard& shard, WriteOp& op) {
  if (!shard.started) {
    if (absl::Status started = start_in_log(shard); !started.ok()) return started;
  }
  encode_effect_head({op.mutation.key, op.value}, op.head);
  LogSubmission record;
  record.header = {
      .shard = shard.log_shard, .index = op.index, .epoch = shard.epoch, .durability = options_.durability};
  record.payload = {ByteSpan(op.head), as_byte_span(op.mutation.key), op.value.value_or(ByteSpan{})};
  record.urgent = !op.value.has_value();
  record.context = static_cast<LogOp*>(&op);
  absl::Status submitted = log_->submit(std::move(record));
  if (submitted.ok()) ++shard.in_log;
  return submitted;
}

absl::Status WorkerEngine::start_in_log(EngineShard& shard) {
  LogSubmission start;
  start.header = {
      .shard = shard.log_shard, .index = shard.last_index, .epoch = shard.epoch, .kind = RecordKind::kShardStart};
  start.context = &shard.start_op;
  if (absl::Status submitted = log_->submit(std::move(start)); !submitted.ok()) return submitted;
  shard.started = true;
  ++shard.in_log;
  return absl::OkStatus();
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

/// Nothing wrote to the key since it was parked, so what was read is its state.
void WorkerEngine::unpark(EngineShard& shard, EngineFetch& fetch) {
  shard.parked.erase(fetch.key);
  CurrentState known;
  if (fetch.status.ok()) known = {fetch.value.version(), fetch.value.bytes()};
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

/// On the log's thread. The ops are ours until the task below runs.
void WorkerEngine::group_done(std::span<const LogSubmission> group) {
  LogOp* first = nullptr;
  size_t writes = 0;
  for (size_t i = group.size(); i-- > 0;) {
    auto* op = static_cast<LogOp*>(group[i].context);
    op->outcome = group[i].outcome;
    op->next = std::exchange(first, op);
    if (op->kind == LogOp::Kind::kWrite) ++writes;
  }
  events_.post([this, first, writes] { finish_group(first, writes); });
}

void WorkerEngine::finish_group(LogOp* first, size_t writes) {
  for (LogOp *op = first, *next = nullptr; op != nullptr; op = next) {
    next = op->next;
    take_outcome(*op);
  }
  if (writes > 0 && events_.group_done) events_.group_done(writes);
  for (EngineShard* shard : std::exchange(touched_, {})) {
    shard->touched = false;
    advance(*shard);
  }
}

void WorkerEngine::take_outcome(LogOp& op) {
  EngineShard& shard = *op.shard;
  if (op.kind == LogOp::Kind::kShardEnd) return forget(shard);
  --shard.in_log;
  if (op.kind == LogOp::Kind::kWrite) {
    auto& write = static_cast<WriteOp&>(op);
    const bool taken = op.outcome.ok() || engine_mutant(EngineMutant::kIgnoreLogFailure);
    write.state = taken ? WriteOp::State::kWritten : WriteOp::State::kFailed;
    if (op.outcome.ok()) shard.written_index = write.index;
  }
  if (!op.outcome.ok()) {
    if (op.kind == LogOp::Kind::kShardStart) shard.started = false;
    if (const absl::Status health = log_->health(); !health.ok()) {
      log_failure_ = absl::Status(health.code(), absl::StrCat("the worker's log failed, and its shards refuse writes "
                                                              "until the node is started again: ",
                                                              health.message()));
    } else {
      if (absl::IsResourceExhausted(op.outcome)) applier_->free_log();
      if (shard.refusal.ok()) shard.refusal = op.outcome;
    }
  }
  if (!shard.touched) {
    shard.touched = true;
    touched_.push_back(&shard);
  }
}

/// Answers what can be answered, in order.
void WorkerEngine::advance(EngineShard& shard) {
  while (shard.front != nullptr && shard.front->state != WriteOp::State::kInLog) {
    WriteOp& op = *shard.front;
    const bool written = op.state == WriteOp::State::kWritten;
    if (written && !store_in_memory(shard, op)) return stall(shard);
    shard.front = op.behind;
    if (!written && (shard.failing || op.state == WriteOp::State::kFailed)) fail(shard, op);
    finish(op);
  }
  if (!shard.refusal.ok() && shard.in_log == 0 && shard.front == nullptr) {
    if (!engine_mutant(EngineMutant::kKeepIndexes)) shard.last_index = shard.written_index;
    shard.refusal = absl::OkStatus();
    shard.failing = false;
  }
}

/// The log did not take it, or it rests on one that the log did not take.
void WorkerEngine::fail(EngineShard& shard, WriteOp& op) {
  shard.failing = true;
  const bool in_doubt = op.state == WriteOp::State::kFailed && !log_failure_.ok();
  const auto pending = shard.pending.find(op.mutation.key);
  if (pending != shard.pending.end() && pending->second == &op) shard.pending.erase(pending);
  shard.in_doubt |= in_doubt;
  if (in_doubt) return answer(op, KvStatus::kStorageFailed, std_view(log_failure_.message()));
  if (!log_failure_.ok()) return answer(op, KvStatus::kShardReadOnly, std_view(log_failure_.message()));
  answer(op, KvStatus::kResourceExhausted, std_view(shard.refusal.message()));
}

/// Makes a durable write visible and hands it to the applier. False: there is no room just now.
bool WorkerEngine::store_in_memory(EngineShard& shard, WriteOp& op) {
  if (!shard.lost_one) {
    const ItemKey key(shard.number, op.mutation.key);
    const MemoryTier::Version version{.index = op.index, .expiry = 0, .dirty = true};
    auto put = MemoryTier::Put::kBackPressure;
    if (applier_->has_room()) put = op.value ? memory_->put(key, *op.value, version) : memory_->erase(key, version);
    SKUA_CHECK(put == MemoryTier::Put::kDone || put == MemoryTier::Put::kBackPressure, "memory took no newer version");
    if (put == MemoryTier::Put::kBackPressure) {
      applier_->hurry();
      if (!draining_) return false;
      shard.lost_one = true;
    } else {
      const auto [stored_key, stored_value] = memory_->last_written();
      applier_->add(
          shard.applied,
          {.key = stored_key, .value = op.value ? std::optional(stored_value) : std::nullopt, .version = op.index});
      if (engine_mutant(EngineMutant::kCleanWhenQueued)) memory_->mark_clean(shard.number, op.index);
    }
  }
  const auto pending = shard.pending.find(op.mutation.key);
  if (pending != shard.pending.end() && pending->second == &op) shard.pending.erase(pending);
  shard.committed_index = op.index;
  op.result = {KvStatus::kOk, op.index};
  return true;
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
