// What clients do, and what they are told.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/shard/crash_world.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::sim {
namespace {

constexpr size_t kToldMax = 12;

}  // namespace

void CrashWorld::act() {
  Shard& shard = shards_[rng_.below(shards_.size())];
  const uint64_t choice = rng_.below(100);
  if (rng_.chance(0.3)) move_time(rng_.below(10));
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

void CrashWorld::move_time(uint64_t ms) {
  now_ms_ += ms;
  for (Worker& worker : workers_) worker.engine->set_time(now_ms_, now_ms_);
}

// --- Writes

void CrashWorld::write_burst() {
  for (uint64_t n = rng_.between(1, rng_.chance(0.1) ? 60 : 8); n > 0; --n) {
    Shard& shard = shards_[rng_.below(shards_.size())];
    if (shard.open == nullptr) continue;
    auto one = std::make_unique<Write>();
    one->is_batch = rng_.chance(0.15);
    const uint64_t batch_max = rng_.chance(0.1) ? 40 : 5;
    for (uint64_t m = one->is_batch ? rng_.between(1, batch_max) : 1; m > 0; --m) {
      Mutation mutation = random_mutation(shard, *one);
      if (one->is_batch && rng_.chance(0.2)) {
        mutation = mutations::check(mutation.key, rng_.chance(0.9) ? twin_row(shard, mutation.key).version : 7);
      }
      one->mutations.push_back(mutation);
    }
    if (rng_.chance(0.3)) one->op.durability = static_cast<Durability>(rng_.between(1, 3));
    if (rng_.chance(0.5)) {
      submit_as_client(shard, std::move(one));
    } else {
      write(shard, std::move(one));
    }
  }
}

std::string CrashWorld::random_value() {
  std::string value;
  // Rows mostly, counters, and some values that are neither.
  if (rng_.chance(0.2)) {
    value = absl::StrCat("plain ", rng_.next());
  } else if (rng_.chance(0.3)) {
    value = absl::StrCat(rng_.below(1000));
  } else {
    std::string field(rng_.below(value_bytes_max_), 'x');
    for (char& c : field) c = static_cast<char>(rng_.next());
    append_field(value, {"f0", as_byte_span(field)});
  }
  return value;
}

Mutation CrashWorld::random_mutation(const Shard& shard, Write& write) {
  const std::string& key = write.bytes.emplace_back(random_key());
  const auto keep = [&](std::string text) { return as_byte_span(write.bytes.emplace_back(std::move(text))); };
  Condition condition = Condition::none();
  if (rng_.chance(0.15)) condition = Condition::if_absent();
  if (rng_.chance(0.15)) condition = Condition::if_present();
  if (rng_.chance(0.25)) {
    condition = Condition::if_version(rng_.chance(0.7) ? twin_row(shard, key).version : rng_.below(300));
  }
  const Condition version_only = condition.kind == Condition::Kind::kIfAbsent ? Condition::none() : condition;
  switch (rng_.below(10)) {
    case 0: return mutations::remove(key, version_only);
    case 1: {
      std::string fields;
      const bool edits = !write.is_batch && rng_.chance(0.5);
      for (uint64_t n = rng_.between(1, 3); n > 0; --n) {
        const std::string name = absl::StrCat("f", rng_.below(4));
        const std::string value = absl::StrCat("v", rng_.next());
        const bool removes = edits && rng_.chance(0.6);
        append_field(fields, {name, removes ? ByteSpan{} : as_byte_span(value), removes});
      }
      Mutation patch = mutations::patch(key, keep(fields), rng_.chance(0.5));
      patch.edits_row = edits;
      patch.mark.row = rng_.chance(0.2);
      return patch;
    }
    case 2: return mutations::add(key, static_cast<int64_t>(rng_.below(100)) - 50, version_only);
    case 3: return mutations::append(key, keep(absl::StrCat(rng_.below(10))), version_only);
    case 4: return mutations::expire(key, rng_.below(3) * 20, version_only);
    case 5: return mutations::put_keeping_ttl(key, keep(random_value()), condition);
    default: {
      Mutation put = mutations::put(key, keep(random_value()), condition, rng_.chance(0.2) ? rng_.between(1, 60) : 0);
      if (rng_.chance(0.4)) put.mark = {static_cast<uint32_t>(rng_.below(3)), rng_.chance(0.5)};
      return put;
    }
  }
}

void CrashWorld::write(Shard& shard, std::unique_ptr<Write> write) {
  Write& one = *write;
  one.shard = static_cast<size_t>(&shard - shards_.data());
  one.op.context = &one;
  if (one.is_batch) {
    one.op.batch = one.mutations;
  } else {
    one.op.mutation = one.mutations.front();
  }
  writes_.emplace(&one, std::move(write));
  ++tally_.writes;
  shard.open->write(one.op);
}

// --- Exactly once

uint64_t CrashWorld::Client::first_incomplete() const {
  uint64_t first = next_seq;
  if (!under_way.empty()) first = std::min(first, under_way.begin()->first);
  if (!told.empty()) first = std::min(first, told.begin()->first);
  if (!refused.empty()) first = std::min(first, refused.begin()->first);
  if (!forsaken.empty()) first = std::min(first, forsaken.begin()->first);
  return first;
}

/// Its bytes, its number, its shard.
std::unique_ptr<CrashWorld::Write> CrashWorld::copy_of(const Write& write) {
  auto copy = std::make_unique<Write>();
  copy->shard = write.shard;
  copy->is_batch = write.is_batch;
  for (Mutation mutation : write.mutations) {
    mutation.key = copy->bytes.emplace_back(mutation.key);
    mutation.value = as_byte_span(copy->bytes.emplace_back(as_string_view(mutation.value)));
    copy->mutations.push_back(mutation);
  }
  copy->op.id = write.op.id;
  copy->op.durability = write.op.durability;
  return copy;
}

void CrashWorld::submit_as_client(Shard& shard, std::unique_ptr<Write> one) {
  Client& client = clients_[rng_.below(clients_.size())];
  while (client.told.size() > kToldMax) client.told.erase(client.told.begin());
  while (client.refused.size() > kToldMax) client.refused.erase(client.refused.begin());
  while (client.forsaken.size() > kToldMax) client.forsaken.erase(client.forsaken.begin());
  const uint64_t seq = client.next_seq++;
  one->op.id = {client.id, seq, std::min(seq, client.first_incomplete())};
  one->shard = static_cast<size_t>(&shard - shards_.data());
  auto again = rng_.chance(0.1) ? copy_of(*one) : nullptr;
  client.under_way[seq] += again == nullptr ? 1 : 2;
  write(shard, std::move(one));
  if (again != nullptr) write(shard, std::move(again));
  if (rng_.chance(0.3)) repeat_one(client);
}

void CrashWorld::repeat_one(Client& client) {
  const auto any = [&](const std::map<uint64_t, Client::Told>& told) {
    return std::next(told.begin(), static_cast<std::ptrdiff_t>(rng_.below(told.size())))->second.write.get();
  };
  if (!client.forsaken.empty()) {
    const std::unique_ptr<Write> forsaken = std::move(client.forsaken.begin()->second);
    client.forsaken.erase(client.forsaken.begin());
    repeat(client, *forsaken);
  } else if (!client.refused.empty() && rng_.chance(0.5)) {
    repeat(client, *any(client.refused));
  } else if (!client.told.empty()) {
    repeat(client, *any(client.told));
  }
}

void CrashWorld::repeat(Client& client, const Write& write) {
  Shard& shard = shards_[write.shard];
  if (shard.open == nullptr) return;
  auto again = copy_of(write);
  ++client.under_way[again->op.id.seq];
  again->op.id.first_incomplete = client.first_incomplete();
  this->write(shard, std::move(again));
}

/// A repetition is answered as the first time.
void CrashWorld::repeated(const Write& write) {
  ++workers_[shards_[write.shard].worker].repeated;
  ++tally_.repeated;
  Client& client = clients_[write.op.id.client_id - clients_[0].id];
  const uint64_t seq = write.op.id.seq;
  const auto told = client.told.find(seq);
  const auto refused = client.refused.find(seq);
  // Without: of an attempt that failed, or that nobody asks for, for all who waited for it.
  if (told == client.told.end() && refused == client.refused.end()) return;
  const Verdict& first = (told == client.told.end() ? refused : told)->second.verdict;
  if (write.op.result == first.result && write.op.results == first.results) return;
  broken(absl::StrCat("client ", client.id, " repeats ", seq, " and gets ", status_name(write.op.result.status), " ",
                      write.op.result.version, " instead of ", status_name(first.result.status), " ",
                      first.result.version));
}

void CrashWorld::without_effect(const Write& write, Verdict verdict) {
  if (write.op.id.client_id == 0 || verdict.result.status == KvStatus::kInvalidArgument) return;
  Client& client = clients_[write.op.id.client_id - clients_[0].id];
  client.refused[write.op.id.seq] = {copy_of(write), std::move(verdict)};
}

/// The shard is opened anew: sessions of before are gone, or are of another epoch.
void CrashWorld::forget_refused(const Shard& shard) {
  for (Client& client : clients_) {
    std::erase_if(client.refused, [&](const auto& told) { return &shards_[told.second.write->shard] == &shard; });
  }
}

/// The end took it, so it may happen anew; or it was in doubt, and took effect.
void CrashWorld::forget_lost(size_t shard, uint64_t index) {
  for (Client& client : clients_) {
    for (auto told = client.told.begin(); told != client.told.end();) {
      const bool lost = told->second.write->shard == shard && told->second.verdict.result.version > index;
      if (lost) client.forsaken[told->first] = std::move(told->second.write);
      told = lost ? client.told.erase(told) : std::next(told);
    }
  }
  testing::TwinShard twin = shards_[shard].base;
  for (const auto& write : shards_[shard].history) {
    if (write->op.id.client_id == 0) continue;
    Client& client = clients_[write->op.id.client_id - clients_[0].id];
    if (write->op.result.status != KvStatus::kStorageFailed) continue;
    if (write->op.index > index) client.forsaken[write->op.id.seq] = copy_of(*write);
  }
  for (const auto& write : shards_[shard].history) {
    if (write->op.index > index) break;
    Verdict verdict = apply(twin, *write);
    if (write->op.id.client_id == 0 || write->op.result.status != KvStatus::kStorageFailed) continue;
    Client& client = clients_[write->op.id.client_id - clients_[0].id];
    client.told[write->op.id.seq] = {copy_of(*write), std::move(verdict)};
  }
}

// --- Answers

CrashWorld::Verdict CrashWorld::apply(testing::TwinShard& twin, const Write& write) {
  Verdict verdict;
  const uint64_t before = twin.last_index();
  if (write.is_batch) {
    static_cast<void>(twin.apply_batch(write.mutations, write.op.evaluated_ms, verdict.results));
    verdict.result = {KvStatus::kOk, twin.last_index() == before ? 0 : twin.last_index(), 0};
  } else {
    verdict.result = twin.apply(write.mutations.front(), write.op.evaluated_ms);
  }
  verdict.has_effect = twin.last_index() != before;
  return verdict;
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
  if (write.op.id.client_id != 0) {
    auto& under_way = clients_[write.op.id.client_id - clients_[0].id].under_way;
    if (--under_way[write.op.id.seq] == 0) under_way.erase(write.op.id.seq);
  }
  if (result.status == KvStatus::kResourceExhausted) ++worker.refused;
  if (write.op.from_record) return repeated(write);
  switch (result.status) {
    case KvStatus::kTooManyIncomplete:
    case KvStatus::kResourceExhausted: ++tally_.refused; return;
    case KvStatus::kShardReadOnly:
      ++tally_.refused;
      if (!machine_.running()) return;
      if (!shard.open || (shard.open->health().ok() && worker.engine->counters().log_health.ok())) {
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
    case KvStatus::kInvalidArgument:
      if (write.op.why.empty()) break;
      // Larger than a record of the log may be; the twin has no such bound.
      ++tally_.refused;
      return;
    default: break;
  }
  if (write.op.id.client_id != 0) {
    const Client& client = clients_[write.op.id.client_id - clients_[0].id];
    if (client.refused.contains(write.op.id.seq)) {
      return broken(
          absl::StrCat("client ", client.id, ": write ", write.op.id.seq, " had no effect, and is executed late"));
    }
  }
  Verdict expected = apply(shard.twin, write);
  if (expected.result != result || (write.is_batch && expected.results != write.op.results)) {
    std::string batch;
    for (size_t i = 0; write.is_batch && i < expected.results.size(); ++i) {
      absl::StrAppend(&batch, "; ", static_cast<int>(write.mutations[i].kind), " ",
                      status_name(expected.results[i].status), " ", expected.results[i].version, " ",
                      expected.results[i].value);
      if (i < write.op.results.size())
        absl::StrAppend(&batch, " is ", status_name(write.op.results[i].status), " ", write.op.results[i].version, " ",
                        write.op.results[i].value);
    }
    return broken(absl::StrCat("shard ", shard.id.shard, " ", std::string(write.mutations.front().key),
                               write.is_batch ? ".." : "", ": answered ", status_name(result.status), " ",
                               result.version, " instead of ", status_name(expected.result.status), " ",
                               expected.result.version, batch));
  }
  if (!shard.doubtful.empty()) {
    return broken(absl::StrCat("shard ", shard.id.shard, ": ", status_name(result.status), " ", result.version,
                               " is answered after one in doubt, ", shard.doubtful.front()->op.index));
  }
  ++tally_.acknowledged;
  if (!expected.has_effect) return without_effect(write, std::move(expected));
  acknowledged(shard, write, std::move(expected));
  shard.history.push_back(std::move(held.mapped()));
}

void CrashWorld::acknowledged(Shard& shard, Write& write, Verdict verdict) {
  const uint64_t version = verdict.result.version;
  if (write.op.achieved < write.op.durability)
    return broken("a write is answered before it is as durable as was asked");
  shard.told_index = std::max(shard.told_index, version);
  if (write.op.achieved >= Durability::kFlush) shard.flushed_index = version;
  if (write.op.achieved == Durability::kSync) shard.synced_index = version;
  for (const auto& read : reads_) {
    if (read->shard != write.shard) continue;
    for (const Mutation& mutation : write.mutations) {
      if (read->key == mutation.key) read->allowed.push_back(twin_row(shard, mutation.key));
    }
  }
  if (write.op.id.client_id == 0) return;
  Client& client = clients_[write.op.id.client_id - clients_[0].id];
  if (client.told.contains(write.op.id.seq)) {
    return broken(absl::StrCat("client ", client.id, ": write ", write.op.id.seq, " is executed twice"));
  }
  client.told[write.op.id.seq] = {copy_of(write), std::move(verdict)};
}

// --- Reads

CrashWorld::Row CrashWorld::twin_row(const Shard& shard, std::string_view key) const {
  const testing::TwinShard::Row* row = shard.twin.find(key, now_ms_);
  return row == nullptr ? Row{} : Row{row->version, row->value, row->expires_at, row->mark};
}

void CrashWorld::read(Shard& shard, const std::string& key) {
  ++tally_.reads;
  MemoryTier::Lookup found = shard.open->get(key);
  note(static_cast<uint64_t>(found.found));
  if (found.found == MemoryTier::Found::kMiss) {
    ++tally_.disk_reads;
    Read& read = *reads_.emplace_back(std::make_unique<Read>());
    read.shard = static_cast<size_t>(&shard - shards_.data());
    read.key = key;
    read.allowed.push_back(twin_row(shard, key));
    read.op.key = read.key;
    read.op.context = &read;
    return shard.open->reads().fetch(read.op, found.ticket);
  }
  const bool hit = found.found == MemoryTier::Found::kHit;
  const Row is = hit ? Row{found.value.version(), std::string(as_string_view(found.value.bytes())), found.expiry,
                           found.value.mark()}
                     : Row{};
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
  if (status.ok()) {
    is = {read.op.value.version(), std::string(as_string_view(read.op.value.bytes())), read.op.expires_at,
          read.op.value.mark()};
  }
  note(is.version);
  const bool may_fail = !machine_.running() || database_faults_.get_error > 0 || absl::IsResourceExhausted(status);
  if (status.ok() || absl::IsNotFound(status)) {
    const bool right = std::ranges::any_of(read.allowed, [&](const Row& row) {
      return row == is || (is.version == 0 && row.expires_at != 0 && row.expires_at <= now_ms_);
    });
    if (!right) {
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
  if (shard.open->reads().is_applied(wait.op)) applied(wait);
}

void CrashWorld::applied(Wait& wait) {
  const Shard& shard = shards_[wait.shard];
  if (wait.op.status.ok() && machine_.database(shard.id).index() < wait.index) {
    broken(absl::StrCat("shard ", shard.id.shard, " is not applied up to ", wait.index, " as was said"));
  }
  std::erase_if(waits_, [&](const auto& held) { return held.get() == &wait; });
}

}  // namespace skua::kv::sim
