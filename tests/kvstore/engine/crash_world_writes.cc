// What clients do, and what they are told.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/engine/crash_world.h"

namespace skua::kv::sim {

void CrashWorld::act() {
  Shard& shard = shards_[rng_.below(shards_.size())];
  const uint64_t choice = rng_.below(100);
  if (choice < 50) {
    write_burst();
  } else if (choice < 80) {
    if (shard.open != nullptr) read(shard, random_key());
  } else if (choice < 84) {
    if (shard.open != nullptr) wait_applied(shard);
  } else if (choice < 90) {
    release_some(rng_.uniform());
  } else if (choice < 92) {
    machine_.log_disk(rng_.below(kWorkers)).set_capacity(rng_.chance(0.5) ? 0 : capacity_bytes_);
  } else if (choice < 94) {
    close_and_open(shard);
  } else if (choice < 95) {
    if (settle()) check_at_rest();
  } else {
    for (Worker& worker : workers_) worker.engine->tick();
  }
}

// --- Writes

void CrashWorld::write_burst() {
  for (uint64_t n = rng_.between(1, rng_.chance(0.1) ? 60 : 8); n > 0; --n) {
    Shard& shard = shards_[rng_.below(shards_.size())];
    if (shard.open == nullptr) continue;
    auto one = std::make_unique<Write>();
    random_mutation(shard, *one);
    write(shard, std::move(one));
  }
}

void CrashWorld::random_mutation(const Shard& shard, Write& write) {
  write.key = random_key();
  Condition condition = Condition::none();
  if (rng_.chance(0.15)) condition = Condition::if_absent();
  if (rng_.chance(0.25)) {
    condition = Condition::if_version(rng_.chance(0.7) ? twin_row(shard, write.key).version : rng_.below(300));
  }
  switch (rng_.below(6)) {
    case 0:
      if (condition.kind == Condition::Kind::kIfAbsent) condition = Condition::none();
      write.op.mutation = Mutation::remove(write.key, condition);
      return;
    case 1:
      for (uint64_t n = rng_.between(1, 3); n > 0; --n) {
        append_field(write.value, {absl::StrCat("f", rng_.below(4)), as_byte_span(absl::StrCat("v", rng_.next()))});
      }
      write.op.mutation = Mutation::patch(write.key, as_byte_span(write.value), rng_.chance(0.5));
      return;
    default:
      // Rows mostly, and some values that are none.
      if (rng_.chance(0.3)) {
        write.value = absl::StrCat("plain ", rng_.next());
      } else {
        std::string field(rng_.below(value_bytes_max_), 'x');
        for (char& c : field) c = static_cast<char>(rng_.next());
        append_field(write.value, {"f0", as_byte_span(field)});
      }
      write.op.mutation = Mutation::put(write.key, as_byte_span(write.value), condition);
  }
}

void CrashWorld::write(Shard& shard, std::unique_ptr<Write> write) {
  Write& one = *write;
  one.shard = static_cast<size_t>(&shard - shards_.data());
  one.op.context = &one;
  writes_.emplace(&one, std::move(write));
  ++tally_.writes;
  workers_[shard.worker].engine->write(*shard.open, one.op);
}

void CrashWorld::written(Write& write) {
  auto held = writes_.extract(&write);
  if (held.empty()) return broken("a write is answered twice");
  Shard& shard = shards_[write.shard];
  Worker& worker = workers_[shard.worker];
  const MutationResult result = write.op.result;
  note(static_cast<uint64_t>(result.status));
  note(result.version);
  last_why_ = write.op.why;
  switch (result.status) {
    case KvStatus::kResourceExhausted: ++worker.refused; [[fallthrough]];
    case KvStatus::kShardReadOnly:
      ++tally_.refused;
      if (result.status != KvStatus::kShardReadOnly || !machine_.running()) return;
      if (!shard.open || (WorkerEngine::health(*shard.open).ok() && worker.engine->counters().log_health.ok())) {
        broken(absl::StrCat("a whole shard refuses writes: ", write.op.why));
      }
      return;
    case KvStatus::kStorageFailed:
      ++tally_.doubtful;
      shard.doubtful.push_back(std::move(held.mapped()));
      return;
    case KvStatus::kInternal:
    case KvStatus::kUnavailable:
      // Its key could not be read.
      if (machine_.running() && database_faults_.get_error == 0) broken(absl::StrCat("a write fails: ", write.op.why));
      return;
    default: break;
  }
  const MutationResult expected = shard.twin.apply(write.op.mutation);
  if (expected != result) {
    return broken(absl::StrCat("shard ", shard.id.shard, " ", write.key, ": answered ", status_name(result.status), " ",
                               result.version, " instead of ", status_name(expected.status), " ", expected.version));
  }
  ++tally_.acknowledged;
  if (!shard.doubtful.empty())
    return broken(absl::StrCat("shard ", shard.id.shard, " ", write.key, ": ", status_name(result.status), " ",
                               result.version, " is answered after one in doubt, ", shard.doubtful.front()->op.index,
                               ", ", machine_.running() ? "running" : "ended"));
  if (result.status != KvStatus::kOk) return;
  ++worker.effects;
  if (engine_options_.durability == LogDurability::kSync) shard.synced_index = result.version;
  for (const auto& read : reads_) {
    if (read->shard == write.shard && read->key == write.key) read->allowed.push_back(twin_row(shard, write.key));
  }
  shard.history.push_back(std::move(held.mapped()));
}

// --- Reads

CrashWorld::Row CrashWorld::twin_row(const Shard& shard, std::string_view key) {
  const testing::TwinShard::Row* row = shard.twin.find(key);
  return row == nullptr ? Row{} : Row{row->version, row->value};
}

void CrashWorld::read(Shard& shard, const std::string& key) {
  ++tally_.reads;
  WorkerEngine& engine = *workers_[shard.worker].engine;
  MemoryTier::Lookup found = engine.get(*shard.open, key);
  note(static_cast<uint64_t>(found.found));
  if (found.found == MemoryTier::Found::kMiss) {
    ++tally_.disk_reads;
    Read& read = *reads_.emplace_back(std::make_unique<Read>());
    read.shard = static_cast<size_t>(&shard - shards_.data());
    read.key = key;
    read.allowed.push_back(twin_row(shard, key));
    read.op.key = read.key;
    read.op.context = &read;
    return engine.fetch(*shard.open, read.op, found.ticket);
  }
  const bool hit = found.found == MemoryTier::Found::kHit;
  const Row is = hit ? Row{found.value.version(), std::string(as_string_view(found.value.bytes()))} : Row{};
  const Row expected = twin_row(shard, key);
  if (is != expected) {
    broken(absl::StrCat("shard ", shard.id.shard, " ", key, ": memory has version ", is.version, " instead of ",
                        expected.version));
  }
  if (hit && held_.size() < 20 && rng_.chance(0.2)) held_.push_back({std::move(found.value), is.value});
}

void CrashWorld::fetched(Read& read) {
  const auto held = std::ranges::find(reads_, &read, &std::unique_ptr<Read>::get);
  if (held == reads_.end()) return broken("a read is answered twice");
  const absl::Status& status = read.op.status;
  Row is;
  if (status.ok()) is = {read.op.value.version(), std::string(as_string_view(read.op.value.bytes()))};
  note(is.version);
  const bool may_fail = !machine_.running() || database_faults_.get_error > 0 || absl::IsResourceExhausted(status);
  if (status.ok() || absl::IsNotFound(status)) {
    if (std::ranges::find(read.allowed, is) == read.allowed.end()) {
      broken(absl::StrCat("shard ", shards_[read.shard].id.shard, " ", read.key, ": read version ", is.version,
                          " instead of ", read.allowed.front().version, " .. ", read.allowed.back().version));
    }
  } else if (!may_fail) {
    broken(absl::StrCat("a read fails: ", status.ToString()));
  }
  reads_.erase(held);
}

/// Sends end: what was pointed to must not have changed.
void CrashWorld::release_some(double share) {
  for (uint64_t n = held_.size(); n > 0; --n) {
    Held held = std::move(held_.front());
    held_.pop_front();
    if (as_string_view(held.value.bytes()) != held.copy) broken("a value changed while it was being sent");
    if (!rng_.chance(share)) held_.push_back(std::move(held));
  }
}

void CrashWorld::wait_applied(Shard& shard) {
  Wait& wait = *waits_.emplace_back(std::make_unique<Wait>());
  wait.shard = static_cast<size_t>(&shard - shards_.data());
  wait.index = shard.twin.last_index();
  wait.op.context = &wait;
  if (workers_[shard.worker].engine->is_applied(*shard.open, wait.op)) applied(wait);
}

void CrashWorld::applied(Wait& wait) {
  const Shard& shard = shards_[wait.shard];
  if (wait.op.status.ok() && machine_.database(shard.id).index() < wait.index) {
    broken(absl::StrCat("shard ", shard.id.shard, " is not applied up to ", wait.index, " as was said"));
  }
  std::erase_if(waits_, [&](const auto& held) { return held.get() == &wait; });
}

}  // namespace skua::kv::sim
