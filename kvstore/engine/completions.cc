#include "kvstore/engine/completions.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "kvstore/codec/limits.h"
#include "kvstore/engine/limits.h"
#include "kvstore/engine/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr size_t kRowHeadBytes = 24;
constexpr size_t kRowResultBytes = 32;
/// Places in front of a client's results that may stay empty before they are moved.
constexpr size_t kEmptyPlacesMin = 32;

}  // namespace

bool CompletionTable::is_old(const Client& client, uint64_t now_ms) {
  return now_ms > client.last_ms && now_ms - client.last_ms > kClientSilentMsMax;
}

bool CompletionTable::is_silent(const Client& client, uint64_t now_ms) {
  return client.under_way == 0 && is_old(client, now_ms);
}

const CompletionTable::Result* CompletionTable::find(const RequestId& id, uint64_t now_ms) const {
  const auto found = clients_.find(id.client_id);
  if (found == clients_.end() || is_silent(*found->second, now_ms)) return nullptr;
  const Client& client = *found->second;
  const auto first = client.results.begin() + static_cast<std::ptrdiff_t>(client.begin);
  const auto at = std::lower_bound(first, client.results.end(), id.seq,
                                   [](const Result& result, uint64_t seq) { return result.seq < seq; });
  return at == client.results.end() || at->seq != id.seq ? nullptr : &*at;
}

CompletionTable::Client& CompletionTable::client(uint64_t id) {
  const auto found = clients_.find(id);
  if (found != clients_.end()) return *found->second;
  by_time_.push_back({.id = id});
  clients_.emplace(id, std::prev(by_time_.end()));
  return by_time_.back();
}

CompletionTable::Verdict CompletionTable::begin(const RequestId& id, uint64_t now_ms) {
  forget_silent(now_ms, [](uint64_t) {});
  if (batch_bytes_ > kCompletionBatchBytesMax) return Verdict::kFull;
  if (!clients_.contains(id.client_id) && clients_.size() >= kCompletionClientsMax) return Verdict::kFull;
  Client& client = this->client(id.client_id);
  if (client.last_ms == 0) client.last_ms = now_ms;
  told(client, id.first_incomplete);
  if (id.seq < client.first_incomplete) return Verdict::kStale;
  if (client.kept() + client.under_way >= kIncompleteMax) return Verdict::kIncomplete;
  ++client.under_way;
  return Verdict::kNew;
}

void CompletionTable::finish(const RequestId& id) {
  const auto found = clients_.find(id.client_id);
  SKUA_CHECK(found != clients_.end() && found->second->under_way > 0, "an attempt ends once");
  --found->second->under_way;
}

void CompletionTable::told(Client& client, uint64_t first_incomplete) {
  client.first_incomplete = std::max(client.first_incomplete, first_incomplete);
  while (client.kept() > 0 && client.results[client.begin].seq < client.first_incomplete) {
    batch_bytes_ -= client.results[client.begin].batch_results.size();
    std::string().swap(client.results[client.begin].batch_results);
    ++client.begin;
    --results_;
  }
  if (client.begin < std::max(kEmptyPlacesMin, client.kept())) return;
  client.results.erase(client.results.begin(), client.results.begin() + static_cast<std::ptrdiff_t>(client.begin));
  client.begin = 0;
}

void CompletionTable::keep(Client& client, Result result) {
  auto at = client.results.end();
  while (at != client.results.begin() + static_cast<std::ptrdiff_t>(client.begin) && std::prev(at)->seq > result.seq) {
    --at;
  }
  batch_bytes_ += result.batch_results.size();
  ++results_;
  client.results.insert(at, std::move(result));
}

CompletionTable::Client& CompletionTable::heard_of(uint64_t id, uint64_t time_ms) {
  Client& client = this->client(id);
  client.last_ms = std::max(client.last_ms, time_ms);
  by_time_.splice(by_time_.end(), by_time_, clients_.find(id)->second);
  return client;
}

void CompletionTable::refuse(const RequestId& id, Result result, uint64_t now_ms) {
  if (engine_mutant(EngineMutant::kForgetRefusals)) return;
  Client& client = heard_of(id.client_id, now_ms);
  if (id.seq >= client.first_incomplete) keep(client, std::move(result));
}

void CompletionTable::forget_refusals() {
  for (Client& client : by_time_) {
    const auto first = client.results.begin() + static_cast<std::ptrdiff_t>(client.begin);
    const auto kept = std::stable_partition(first, client.results.end(), std::mem_fn(&Result::has_effect));
    results_ -= static_cast<size_t>(client.results.end() - kept);
    client.results.erase(kept, client.results.end());
  }
}

void CompletionTable::record(const Completion& completion, uint64_t index, uint64_t time_ms) {
  if (engine_mutant(EngineMutant::kDropDedupRecord)) return;
  const RequestId& id = completion.id;
  const auto silent = clients_.find(id.client_id);
  if (silent != clients_.end() && is_silent(*silent->second, time_ms)) erase(silent->second);
  Client& client = heard_of(id.client_id, time_ms);
  told(client, id.first_incomplete);
  if (id.seq < client.first_incomplete) return;
  if (const Result* kept = find(id, client.last_ms); kept != nullptr) {
    if (kept->has_effect) return;
    std::erase_if(client.results, [&](const Result& result) { return result.seq == id.seq; });
    --results_;
  }
  keep(client, {.seq = id.seq,
                .version = index,
                .value = completion.value,
                .batch_results = std::string(as_string_view(completion.batch_results))});
}

void CompletionTable::erase(std::list<Client>::iterator at) {
  results_ -= at->kept();
  for (const Result& result : at->results) batch_bytes_ -= result.batch_results.size();
  clients_.erase(at->id);
  by_time_.erase(at);
}

void CompletionTable::forget_silent(uint64_t now_ms, absl::FunctionRef<void(uint64_t client_id)> forgotten) {
  for (auto at = by_time_.begin(); at != by_time_.end() && is_old(*at, now_ms);) {
    const auto client = at++;
    if (client->under_way > 0) continue;
    const uint64_t id = client->id;
    erase(client);
    forgotten(id);
  }
}

bool CompletionTable::encode_row(uint64_t client_id, std::string& out) const {
  out.clear();
  const auto found = clients_.find(client_id);
  if (found == clients_.end()) return false;
  const Client& client = *found->second;
  std::array<std::byte, kRowResultBytes> buffer;
  ByteWriter head(buffer);
  head.write(client.last_ms);
  head.write(client.first_incomplete);
  const auto first = client.results.begin() + static_cast<std::ptrdiff_t>(client.begin);
  head.write(static_cast<uint32_t>(std::count_if(first, client.results.end(), std::mem_fn(&Result::has_effect))));
  head.write(uint32_t{0});
  out.append(as_string_view(head.written()));
  for (size_t i = client.begin; i < client.results.size(); ++i) {
    const Result& result = client.results[i];
    if (!result.has_effect) continue;
    ByteWriter fixed(buffer);
    fixed.write(result.seq);
    fixed.write(result.version);
    fixed.write(result.value);
    fixed.write(uint64_t{result.batch_results.size() / kBatchResultBytes});
    out.append(as_string_view(fixed.written()));
    out.append(result.batch_results);
  }
  return true;
}

bool CompletionTable::load(uint64_t client_id, ByteSpan row) {
  if (clients_.contains(client_id) || row.size() < kRowHeadBytes) return false;
  ByteReader reader(row);
  Client loading{.id = client_id};
  loading.last_ms = reader.read<uint64_t>();
  loading.first_incomplete = reader.read<uint64_t>();
  const auto count = reader.read<uint32_t>();
  if (reader.read<uint32_t>() != 0) return false;
  size_t batch_bytes = 0;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    Result result;
    result.seq = reader.read<uint64_t>();
    result.version = reader.read<uint64_t>();
    result.value = reader.read<int64_t>();
    const auto batch_results = reader.read<uint64_t>();
    const bool in_order = loading.results.empty() || loading.results.back().seq < result.seq;
    if (!in_order || result.seq < loading.first_incomplete || batch_results > kBatchOpsMax) return false;
    result.batch_results = as_string_view(reader.read_bytes(batch_results * kBatchResultBytes));
    batch_bytes += result.batch_results.size();
    loading.results.push_back(std::move(result));
  }
  if (!reader.complete()) return false;
  results_ += loading.results.size();
  batch_bytes_ += batch_bytes;
  by_time_.push_back(std::move(loading));
  clients_.emplace(client_id, std::prev(by_time_.end()));
  return true;
}

void CompletionTable::loaded() {
  by_time_.sort([](const Client& a, const Client& b) { return a.last_ms < b.last_ms; });
}

}  // namespace skua::kv
