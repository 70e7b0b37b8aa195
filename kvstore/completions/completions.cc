#include "kvstore/completions/completions.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "kvstore/codec/size_limits.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/types/engine_mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr size_t kRowHeadBytes = 24;
constexpr size_t kRowResultBytes = 32;
/// At least this many places in front of the results of a client may be empty before the results are moved forward.
constexpr size_t kEmptyPlacesMin = 4;
/// The results of a client may have this many places at least, if they are few.
constexpr size_t kPlacesMin = 16;
/// The largest seq. A number above it always exists, for first_incomplete and for the floor.
constexpr uint64_t kSeqMax = UINT64_MAX - 1;

constexpr uint64_t kRowEstablishedBit = uint64_t{1} << 63;
constexpr uint64_t kRowFarBit = uint64_t{1} << 62;
constexpr uint64_t kRowTimeBits = kRowFarBit - 1;

bool is_old(uint64_t time_ms, uint64_t now_ms) {
  return now_ms > time_ms && now_ms - time_ms > kClientSilentMsMax;
}

}  // namespace

bool CompletionTable::is_silent(const Client& client, uint64_t now_ms) {
  return client.under_way == 0 && is_old(std::max(client.last_ms, client.heard_ms), now_ms);
}

CompletionTable::Client* CompletionTable::find_client(uint64_t id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

const CompletionTable::Result* CompletionTable::find(const RequestId& id, uint64_t now_ms) const {
  const Client* const client = find_client(id.client_id);
  if (client == nullptr || is_silent(*client, now_ms)) return nullptr;
  const auto first = client->results.begin() + static_cast<std::ptrdiff_t>(client->begin);
  const auto at = std::lower_bound(first, client->results.end(), id.seq,
                                   [](const Result& result, uint64_t seq) { return result.seq < seq; });
  return at == client->results.end() || at->seq != id.seq ? nullptr : &*at;
}

/// `floor` is the floor at the time when the client was found to be unknown. If other clients were dropped since to
/// make room, the floor is higher now, but their numbers do not concern this client.
CompletionTable::Client& CompletionTable::add(uint64_t id, Kind kind, uint64_t now_ms, uint64_t floor) {
  Client& client = *clients_.emplace(id, std::make_unique<Client>()).first->second;
  client.id = id;
  client.kind = client.home = kind;
  (is_visitor(client) ? client.heard_ms : client.last_ms) = now_ms;
  if (floor > 0) client.first_incomplete = floor + 1;
  order(kind).push_back(client);
  ++count_[static_cast<size_t>(kind)];
  return client;
}

void CompletionTable::become(Client& client, Kind kind) {
  --count_[static_cast<size_t>(client.kind)];
  ++count_[static_cast<size_t>(kind)];
  client.kind = kind;
  client.order_hook.unlink();
  order(kind).push_back(client);
}

/// Sets the kind that the client has by its records.
void CompletionTable::settle(Client& client, Kind kind) {
  client.home = kind;
  become(client, kind);
}

CompletionTable::Verdict CompletionTable::begin(const RequestId& id, uint64_t now_ms, size_t batch_bytes) {
  forget_silent(now_ms, [](uint64_t) {});
  if (id.client_id == kFloorClient || id.seq > kSeqMax) return Verdict::kFull;
  Client* client = find_client(id.client_id);
  const bool far = is_far(id.seq);
  if (client == nullptr) {
    const uint64_t forgotten = floor(now_ms);
    if (id.seq <= forgotten) return Verdict::kStale;
    const Kind kind = far ? Kind::kFarVisitor : Kind::kVisitor;
    if (!has_room(now_ms) || !make_room_for_visitor(kind, now_ms)) return Verdict::kFull;
    client = &add(id.client_id, kind, now_ms, forgotten);
  } else if (is_visitor(*client) && !has_room(now_ms)) {
    return Verdict::kFull;
  }
  told(*client, id.first_incomplete);
  if (id.seq < client->first_incomplete) return Verdict::kStale;
  if (client->kept() + client->under_way >= kIncompleteMax) return Verdict::kIncomplete;
  const size_t bytes = kCompletionResultBytes + batch_bytes;
  const size_t held_bytes = client->bytes + client->refused_bytes + client->bytes_under_way;
  if (held_bytes + bytes > limits_.client_bytes_max) return Verdict::kIncomplete;
  if (far && !take_far_place(*client, now_ms)) return Verdict::kFull;
  ++client->under_way;
  client->bytes_under_way += bytes;
  return Verdict::kNew;
}

void CompletionTable::finish(const RequestId& id, size_t batch_bytes) {
  Client* const client = find_client(id.client_id);
  const size_t bytes = kCompletionResultBytes + batch_bytes;
  SKUA_CHECK(client != nullptr && client->under_way > 0 && client->bytes_under_way >= bytes, "an attempt ends once");
  --client->under_way;
  client->bytes_under_way -= bytes;
  // The client took a far place for an attempt, which left no record with a far number.
  if (client->under_way == 0 && client->kind != client->home) become(*client, client->home);
}

void CompletionTable::told(Client& client, uint64_t first_incomplete) {
  client.first_incomplete = std::max(client.first_incomplete, first_incomplete);
  while (client.kept() > 0 && client.results[client.begin].seq < client.first_incomplete) {
    count_out(client, client.results[client.begin]);
    std::string().swap(client.results[client.begin].batch_results);
    ++client.begin;
  }
  if (client.begin >= std::max(kEmptyPlacesMin, client.kept())) {
    client.results.erase(client.results.begin(), client.results.begin() + static_cast<std::ptrdiff_t>(client.begin));
    client.begin = 0;
  }
  shrink(client);
}

/// Gives back memory that the results of the client do not need any more. Without this, a client could leave the room
/// of kIncompleteMax results behind, of which none counts.
void CompletionTable::shrink(Client& client) {
  if (client.results.capacity() <= std::max(kPlacesMin, 4 * client.kept())) return;
  std::vector<Result> fewer;
  fewer.reserve(std::max(kPlacesMin / 2, 2 * client.kept()));
  const auto first = client.results.begin() + static_cast<std::ptrdiff_t>(client.begin);
  fewer.insert(fewer.end(), std::move_iterator(first), std::move_iterator(client.results.end()));
  client.results = std::move(fewer);
  client.begin = 0;
}

/// Takes a result that is about to go out of the counts.
void CompletionTable::count_out(Client& client, const Result& result) {
  --results_;
  (result.has_effect ? bytes_ : refused_bytes_) -= result.bytes();
  (result.has_effect ? client.bytes : client.refused_bytes) -= result.bytes();
  if (client.bytes == 0) client.holder_hook.unlink();
  if (client.refused_bytes == 0) client.refused_hook.unlink();
}

void CompletionTable::keep(Client& client, Result result) {
  auto at = client.results.end();
  while (at != client.results.begin() + static_cast<std::ptrdiff_t>(client.begin) && std::prev(at)->seq > result.seq) {
    --at;
  }
  ++results_;
  (result.has_effect ? bytes_ : refused_bytes_) += result.bytes();
  (result.has_effect ? client.bytes : client.refused_bytes) += result.bytes();
  client.results.insert(at, std::move(result));
}

void CompletionTable::refuse(const RequestId& id, Result result, uint64_t now_ms) {
  if (engine_mutant(EngineMutant::kForgetRefusals)) return;
  Client* client = find_client(id.client_id);
  if (client == nullptr) client = &add(id.client_id, Kind::kVisitor, now_ms, floor(now_ms));
  client->heard_ms = std::max(client->heard_ms, now_ms);
  if (is_visitor(*client)) become(*client, client->kind);
  if (id.seq < client->first_incomplete) return;
  keep(*client, std::move(result));
  client->refused_hook.unlink();
  refused_holders_.push_back(*client);
  drop_refusals(*client);
}

void CompletionTable::forget_refusals() {
  for (const auto& [id, client] : clients_) {
    const auto first = client->results.begin() + static_cast<std::ptrdiff_t>(client->begin);
    const auto kept = std::stable_partition(first, client->results.end(), std::mem_fn(&Result::has_effect));
    std::for_each(kept, client->results.end(), [&](const Result& result) { count_out(*client, result); });
    client->results.erase(kept, client->results.end());
    shrink(*client);
  }
}

/// Finds or adds the client of a record, and takes over the index, time and seq of the record.
CompletionTable::Client& CompletionTable::recorded(const RequestId& id, uint64_t index, uint64_t time_ms,
                                                   Changed changed) {
  Client* client = find_client(id.client_id);
  if (client != nullptr && is_old(client->last_ms, time_ms) && client->last_index > 0) let_go(*client, time_ms);
  client = find_client(id.client_id);
  if (client != nullptr && is_silent(*client, time_ms)) erase(*client);
  client = find_client(id.client_id);
  Kind kind = is_far(id.seq) ? Kind::kFar : Kind::kNewcomer;
  if (client == nullptr || client->last_index == 0) {
    const uint64_t forgotten = floor(time_ms);
    if (!make_room(kind, time_ms, changed)) crowd_out(time_ms, changed);
    client = find_client(id.client_id);
    if (client == nullptr) client = &add(id.client_id, kind, time_ms, forgotten);
    client->last_ms = 0;
  } else if (kind != Kind::kFar) {
    kind = client->home == Kind::kFar ? Kind::kFar : Kind::kEstablished;
  }
  const bool at_work_far = client->kind != client->home;
  settle(*client, kind);
  if (at_work_far && kind != Kind::kFar) become(*client, Kind::kFar);
  client->last_ms = std::max(client->last_ms, time_ms);
  client->last_index = index;
  client->recorded_seq = std::max(client->recorded_seq, id.seq);
  return *client;
}

void CompletionTable::record(const Completion& completion, uint64_t index, uint64_t time_ms, Changed changed) {
  if (engine_mutant(EngineMutant::kDropDedupRecord)) return;
  const RequestId& id = completion.id;
  if (id.client_id == kFloorClient || id.seq > kSeqMax) return;
  forget_silent(time_ms, changed);
  Client& client = recorded(id, index, time_ms, changed);
  told(client, id.first_incomplete);
  if (id.seq >= client.first_incomplete) {
    const Result* kept = find(id, client.last_ms);
    if (kept == nullptr || !kept->has_effect) {
      // The table remembers a refusal of this mutation; the record replaces it.
      if (kept != nullptr) {
        count_out(client, *kept);
        client.results.erase(client.results.begin() + (kept - client.results.data()));
      }
      keep(client, {.seq = id.seq,
                    .version = index,
                    .value = completion.value,
                    .batch_results = std::string(as_string_view(completion.batch_results))});
    }
  }
  client.holder_hook.unlink();
  if (client.bytes > 0) holders_.push_back(client);
  drop_results(client, changed);
}

void CompletionTable::erase(Client& client) {
  results_ -= client.kept();
  bytes_ -= client.bytes;
  refused_bytes_ -= client.refused_bytes;
  --count_[static_cast<size_t>(client.kind)];
  client.order_hook.unlink();
  client.holder_hook.unlink();
  client.refused_hook.unlink();
  clients_.erase(client.id);
}

/// Drops a client with its records. A client that has an attempt under way, or was refused recently, stays as a
/// visitor.
void CompletionTable::let_go(Client& client, uint64_t now_ms) {
  const bool is_heard = client.heard_ms > 0 && now_ms < client.heard_ms + kCompletionIdleMsMin;
  if (client.under_way == 0 && !is_heard) return erase(client);
  told(client, client.recorded_seq + 1);
  client.heard_ms = std::max(client.heard_ms, now_ms);
  client.last_index = client.recorded_seq = 0;
  settle(client, Kind::kVisitor);
}

void CompletionTable::forget_silent(uint64_t now_ms, Changed forgotten) {
  for (const Kind kind : {Kind::kNewcomer, Kind::kEstablished, Kind::kFar}) {
    while (!order(kind).empty() && is_old(order(kind).front().last_ms, now_ms)) {
      Client& oldest = order(kind).front();
      const uint64_t id = oldest.id;
      let_go(oldest, now_ms);
      forgotten(id);
    }
  }
  for (const Kind kind : {Kind::kVisitor, Kind::kFarVisitor}) {
    while (!order(kind).empty() && is_old(order(kind).front().heard_ms, now_ms)) {
      Client& oldest = order(kind).front();
      oldest.heard_ms = now_ms;
      if (oldest.under_way > 0) become(oldest, kind);
      if (oldest.under_way == 0) erase(oldest);
    }
  }
}

uint64_t CompletionTable::newest_ms() const {
  uint64_t newest_ms = floor_ms_;
  for (const auto& [id, client] : clients_) newest_ms = std::max(newest_ms, client->last_ms);
  return newest_ms;
}

size_t CompletionTable::places() const {
  size_t places = 0;
  for (const auto& [id, client] : clients_) places += client->results.capacity();
  return places;
}

std::optional<uint64_t> CompletionTable::encode_row(uint64_t client_id, std::string& out) const {
  out.clear();
  std::array<std::byte, kRowResultBytes> buffer;
  const Client* const client = find_client(client_id);
  const bool is_floor = client_id == kFloorClient && floor_ > 0;
  if (client == nullptr && !is_floor) return std::nullopt;
  ByteWriter head(buffer);
  if (is_floor) {
    head.write(floor_ms_);
    head.write(floor_ + 1);
    head.write(uint64_t{0});
    out.append(as_string_view(head.written()));
    return 0;
  }
  const auto first = client->results.begin() + static_cast<std::ptrdiff_t>(client->begin);
  const uint64_t kind_bit = client->home == Kind::kEstablished ? kRowEstablishedBit
                            : client->home == Kind::kFar       ? kRowFarBit
                                                               : 0;
  head.write((client->last_ms & kRowTimeBits) | kind_bit);
  head.write(client->first_incomplete);
  head.write(static_cast<uint32_t>(std::count_if(first, client->results.end(), std::mem_fn(&Result::has_effect))));
  head.write(uint32_t{0});
  out.append(as_string_view(head.written()));
  for (size_t i = client->begin; i < client->results.size(); ++i) {
    const Result& result = client->results[i];
    if (!result.has_effect) continue;
    ByteWriter fixed(buffer);
    fixed.write(result.seq);
    fixed.write(result.version);
    fixed.write(result.value);
    fixed.write(uint64_t{result.batch_results.size() / kBatchResultBytes});
    out.append(as_string_view(fixed.written()));
    out.append(result.batch_results);
  }
  return client->last_index;
}

bool CompletionTable::load(uint64_t client_id, ByteSpan row, uint64_t version) {
  if (clients_.contains(client_id) || row.size() < kRowHeadBytes) return false;
  ByteReader reader(row);
  const auto time = reader.read<uint64_t>();
  if ((time & kRowEstablishedBit) != 0 && (time & kRowFarBit) != 0) return false;
  auto loading = std::make_unique<Client>();
  loading->id = client_id;
  loading->last_ms = time & kRowTimeBits;
  loading->last_index = version;
  loading->kind = Kind::kNewcomer;
  if ((time & kRowEstablishedBit) != 0) loading->kind = Kind::kEstablished;
  if ((time & kRowFarBit) != 0) loading->kind = Kind::kFar;
  loading->home = loading->kind;
  loading->first_incomplete = reader.read<uint64_t>();
  const auto count = reader.read<uint32_t>();
  if (reader.read<uint32_t>() != 0) return false;
  if (client_id == kFloorClient) {
    if (count != 0 || loading->first_incomplete == 0 || !reader.complete()) return false;
    floor_ms_ = loading->last_ms;
    floor_ = loading->first_incomplete - 1;
    return true;
  }
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    Result result;
    result.seq = reader.read<uint64_t>();
    result.version = reader.read<uint64_t>();
    result.value = reader.read<int64_t>();
    const auto batch_results = reader.read<uint64_t>();
    const bool in_order = loading->results.empty() || loading->results.back().seq < result.seq;
    if (!in_order || result.seq < loading->first_incomplete || batch_results > kBatchOpsMax) return false;
    if (result.seq > kSeqMax) return false;
    result.batch_results = as_string_view(reader.read_bytes(batch_results * kBatchResultBytes));
    loading->bytes += result.bytes();
    loading->results.push_back(std::move(result));
  }
  if (!reader.complete()) return false;
  loading->recorded_seq = loading->first_incomplete == 0 ? 0 : loading->first_incomplete - 1;
  if (!loading->results.empty()) loading->recorded_seq = loading->results.back().seq;
  results_ += loading->results.size();
  bytes_ += loading->bytes;
  clients_.emplace(client_id, std::move(loading));
  return true;
}

void CompletionTable::loaded(uint64_t latest_ms, Changed changed) {
  std::vector<Client*> clients;
  clients.reserve(clients_.size());
  for (const auto& [id, client] : clients_) clients.push_back(client.get());
  std::ranges::sort(clients, [](const Client* a, const Client* b) {
    return std::tie(a->last_index, a->id) < std::tie(b->last_index, b->id);
  });
  for (Client* client : clients) {
    order(client->kind).push_back(*client);
    ++count_[static_cast<size_t>(client->kind)];
    if (client->bytes > 0) holders_.push_back(*client);
  }
  bound_times(clients, latest_ms, changed);
  shed(clients, changed);
}

}  // namespace skua::kv
