// The driver's clients: reads, writes, exactly once.
#include <algorithm>
#include <utility>

#include "tests/kvstore/replication/oracle.h"
#include "tests/kvstore/replication/replica_driver.h"

namespace skua::kv::sim {

void ReplicaDriver::on_request(const ClientRequest& request) {
  request.operation.kind == OpKind::kGet ? on_read(request) : on_write(request);
}

void ReplicaDriver::redirect(const ClientRequest& request) {
  const View& view = replica_.view();
  host_.reply({request.id, false, 0, view.primary == self_.node ? 0 : view.primary});
}

// --- Reads

/// What a sampled read belongs to; 0: nobody may be answered.
uint64_t ReplicaDriver::term() const {
  if (replica_.open()) return leadership_ * 2 + 1;
  const bool serves = replica_.role() == ReplicaRole::kBackup && replica_.view().read_anywhere;
  return serves ? replica_.view().epoch * 2 : 0;
}

bool ReplicaDriver::is_dirty(uint32_t key) const {
  for (uint64_t index = replica_.last_index(); index > state_.applied(); --index) {
    const LogEntry& entry = storage_.entry(index);
    if (entry.has_effect && entry.key == key) return true;
  }
  return false;
}

ReplicaDriver::Read ReplicaDriver::sample(const ClientRequest& request) {
  if (kernel_.mutant != WorldMutant::kServeStaleMap) apply();
  const uint32_t key = request.operation.key;
  return {request, state_.item(key), oracle_.shown_version(shard_, key), 0};
}

void ReplicaDriver::on_read(const ClientRequest& request) {
  if (term() == 0) return redirect(request);
  const Read read = sample(request);
  if (!replica_.open() && is_dirty(request.operation.key)) {
    kernel_.hit(Probe::kDirtyBackupRead);
    return redirect(request);
  }
  // Between the sample and the question there may be a long pause.
  host_.later(kernel_.between(0, 20 * kMicrosecond), [this, read, at = term()] { check_read(read, at); });
}

void ReplicaDriver::check_read(Read read, uint64_t sampled_in) {
  if (sampled_in != term()) {
    kernel_.hit(Probe::kReadOverTaken);
    return redirect(read.request);
  }
  if (replica_.may_serve_read(host_.now())) {
    const bool primary = replica_.open();
    return answer(read, primary ? Probe::kLeaseRead : Probe::kBackupRead, primary ? "leased" : "backup's");
  }
  if (!replica_.open()) return redirect(read.request);
  ReplicaOutput out;
  read = sample(read.request);
  read.round = replica_.begin_confirm(out);
  confirming_.push_back(read);
  take(out);
}

void ReplicaDriver::answer(const Read& read, Probe how, const char* how_text) {
  kernel_.hit(how);
  oracle_.read_served(shard_, read.request.operation.key, read.item.version, read.shown_before, how_text);
  host_.reply({read.request.id, true, read.item.value, self_.node});
}

// --- Writes

void ReplicaDriver::on_write(const ClientRequest& request) {
  if (!replica_.can_propose()) return redirect(request);
  if (is_repeated(request)) return;
  if (pending_.size() >= options_.pending_max) return redirect(request);
  Pending pending{replica_.last_index() + 1, request, evaluate(request)};
  ReplicaOutput out;
  if (options_.durability == Durability::kMemory || kernel_.rng.chance(0.5)) {
    // To the log first: what it refuses was never proposed.
    if (!storage_.append(pending.entry)) return redirect(request);
    oracle_.appended(shard_, pending.index, replica_.log().last().epoch, pending.entry);
    replica_.propose(options_.durability, host_.now(), out);
    pending_.push_back(std::move(pending));
    return take(out);
  }
  replica_.propose(options_.durability, host_.now(), out);
  if (to_log(pending.entry, out)) {
    pending_.push_back(std::move(pending));
  } else {
    out.messages.clear();
    out.sends.clear();
  }
  take(out);
}

bool ReplicaDriver::is_repeated(const ClientRequest& request) {
  apply();
  for (const Pending& pending : pending_) {
    if (pending.request.id.client != request.id.client) continue;
    if (pending.request.id.seq == request.id.seq) {
      kernel_.hit(Probe::kDedupAttached);
      return true;
    }
    if (pending.request.id.seq > request.id.seq) return true;
  }
  const Completion* completion = state_.completion(request.id.client);
  if (completion == nullptr || completion->seq < request.id.seq) return false;
  if (completion->seq == request.id.seq) {
    kernel_.hit(Probe::kDedupHit);
    acknowledge(request, completion->result, completion->index);
  } else {
    kernel_.hit(Probe::kStaleRequest);
  }
  return true;
}

LogEntry ReplicaDriver::evaluate(const ClientRequest& request) const {
  const Operation& operation = request.operation;
  int64_t value = state_.item(operation.key).value;
  for (const Pending& pending : pending_) {
    if (pending.entry.has_effect && pending.entry.key == operation.key) value = pending.entry.value;
  }
  LogEntry entry;
  entry.epoch = replica_.log().last().epoch;  // the barrier's, also in later epochs of this leadership
  entry.request = request.id;
  entry.key = operation.key;
  entry.has_effect = true;
  switch (operation.kind) {
    case OpKind::kPut: entry.value = operation.argument; break;
    case OpKind::kAdd: entry.value = entry.result = value + operation.argument; break;
    case OpKind::kCas:
      entry.has_effect = value == operation.expected;
      entry.value = operation.argument;
      entry.result = entry.has_effect ? 1 : 0;
      break;
    case OpKind::kGet:
    case OpKind::kBarrier: break;
  }
  return entry;
}

void ReplicaDriver::acknowledge(const ClientRequest& request, int64_t result, uint64_t index) {
  oracle_.acknowledged(shard_, index);
  oracle_.shown(shard_, request.operation.key, state_.item(request.operation.key).version >= index ? index : 0);
  host_.reply({request.id, true, result, self_.node});
}

// --- After each call

void ReplicaDriver::settle_clients() {
  if (!replica_.open()) {
    if (was_open_) ++leadership_;
    was_open_ = false;
    pending_.clear();
    confirming_.clear();
    return;
  }
  was_open_ = true;
  while (!pending_.empty() && pending_.front().index <= state_.applied()) {
    const Pending done = std::move(pending_.front());
    pending_.pop_front();
    if (!done.entry.has_effect) kernel_.hit(Probe::kCasFailedOp);
    acknowledge(done.request, done.entry.result, done.index);
  }
  while (!confirming_.empty() && confirming_.front().round <= replica_.confirmed_round()) {
    const Read read = std::move(confirming_.front());
    confirming_.pop_front();
    answer(read, Probe::kConfirmedRead, "confirmed");
  }
}

}  // namespace skua::kv::sim
