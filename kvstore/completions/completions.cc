#include "kvstore/completions/completions.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "kvstore/completions/completion_limits.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr size_t kRowHeadBytes = 24;
/// The largest seq. A number above it always exists, for first_incomplete and for the floor.
constexpr uint64_t kSeqMax = UINT64_MAX - 1;

constexpr uint64_t kRowEstablishedBit = uint64_t{1} << 63;
constexpr uint64_t kRowFarBit = uint64_t{1} << 62;
constexpr uint64_t kRowTimeBits = kRowFarBit - 1;

}  // namespace

CompletionTable::Client* CompletionTable::find_client(uint64_t id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

const CompletionTable::Result* CompletionTable::find(const RequestId& id, uint64_t now_ms) const {
  const Client* const client = find_client(id.client_id);
  return client == nullptr || client->is_silent(now_ms) ? nullptr : client->results.find(id.seq);
}

/// `floor` is the floor at the time when the client was found to be unknown. If other clients were dropped since to
/// make room, the floor is higher now, but their numbers do not concern this client.
CompletionTable::Client& CompletionTable::add(uint64_t id, Kind kind, uint64_t now_ms, uint64_t floor) {
  Client& client = *clients_.emplace(id, std::make_unique<Client>(counts_)).first->second;
  client.id = id;
  client.kind = client.home = kind;
  (client.is_visitor() ? client.heard_ms : client.last_ms) = now_ms;
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
  const bool far = floor_.is_far(id.seq);
  if (client == nullptr) {
    const uint64_t forgotten = floor_.at(now_ms);
    if (id.seq <= forgotten) return Verdict::kStale;
    const Kind kind = far ? Kind::kFarVisitor : Kind::kVisitor;
    if (!has_room(now_ms) || !make_room_for_visitor(kind, now_ms)) return Verdict::kFull;
    client = &add(id.client_id, kind, now_ms, forgotten);
  } else if (client->is_visitor() && !has_room(now_ms)) {
    return Verdict::kFull;
  }
  client->told(id.first_incomplete);
  if (id.seq < client->first_incomplete) return Verdict::kStale;
  if (client->results.size() + client->under_way >= kIncompleteMax) return Verdict::kIncomplete;
  const size_t bytes = kCompletionResultBytes + batch_bytes;
  const CompletionCounts& kept = client->results.counts();
  const size_t held_bytes = kept.bytes + kept.refused_bytes + client->bytes_under_way;
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

void CompletionTable::refuse(const RequestId& id, Result result, uint64_t now_ms) {
  if (mutant(Mutant::kForgetRefusals)) return;
  Client* client = find_client(id.client_id);
  if (client == nullptr) client = &add(id.client_id, Kind::kVisitor, now_ms, floor_.at(now_ms));
  client->heard_ms = std::max(client->heard_ms, now_ms);
  if (client->is_visitor()) become(*client, client->kind);
  if (id.seq < client->first_incomplete) return;
  client->results.keep(std::move(result));
  if (client->results.counts().refused_bytes == 0) return;  // a record came first
  client->refused_hook.unlink();
  refused_holders_.push_back(*client);
  drop_refusals(*client);
}

void CompletionTable::forget_refusals() {
  for (const auto& [id, client] : clients_) {
    client->results.drop_refused();
    client->leave_lists();
  }
}

/// Finds or adds the client of a record, and takes over the index, time and seq of the record.
CompletionTable::Client& CompletionTable::recorded(const RequestId& id, uint64_t index, uint64_t time_ms,
                                                   Changed changed) {
  Client* client = find_client(id.client_id);
  if (client != nullptr && is_silence(client->last_ms, time_ms) && client->last_index > 0) let_go(*client, time_ms);
  client = find_client(id.client_id);
  if (client != nullptr && client->is_silent(time_ms)) erase(*client);
  client = find_client(id.client_id);
  Kind kind = floor_.is_far(id.seq) ? Kind::kFar : Kind::kNewcomer;
  if (client == nullptr || client->last_index == 0) {
    const uint64_t forgotten = floor_.at(time_ms);
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
  if (mutant(Mutant::kDropDedupRecord)) return;
  const RequestId& id = completion.id;
  if (id.client_id == kFloorClient || id.seq > kSeqMax) return;
  forget_silent(time_ms, changed);
  Client& client = recorded(id, index, time_ms, changed);
  client.told(id.first_incomplete);
  if (id.seq >= client.first_incomplete) {
    client.results.keep({.seq = id.seq,
                         .version = index,
                         .value = completion.value,
                         .batch_results = std::string(as_string_view(completion.batch_results))});
    client.leave_lists();
  }
  client.holder_hook.unlink();
  if (client.results.counts().bytes > 0) holders_.push_back(client);
  drop_results(client, changed);
}

void CompletionTable::erase(Client& client) {
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
  client.told(client.recorded_seq + 1);
  client.heard_ms = std::max(client.heard_ms, now_ms);
  client.last_index = client.recorded_seq = 0;
  settle(client, Kind::kVisitor);
}

/// Drops a visitor that was idle. One that has an attempt under way stays, as if it was heard just now.
void CompletionTable::drop_visitor(Client& client, uint64_t now_ms) {
  if (client.under_way == 0) return erase(client);
  client.heard_ms = now_ms;
  become(client, client.kind);
}

void CompletionTable::forget_silent(uint64_t now_ms, Changed forgotten) {
  for (const Kind kind : {Kind::kNewcomer, Kind::kEstablished, Kind::kFar}) {
    while (!order(kind).empty() && is_silence(order(kind).front().last_ms, now_ms)) {
      Client& oldest = order(kind).front();
      const uint64_t id = oldest.id;
      let_go(oldest, now_ms);
      forgotten(id);
    }
  }
  for (const Kind kind : {Kind::kVisitor, Kind::kFarVisitor}) {
    while (!order(kind).empty() && is_silence(order(kind).front().heard_ms, now_ms)) {
      drop_visitor(order(kind).front(), now_ms);
    }
  }
}

uint64_t CompletionTable::newest_ms() const {
  uint64_t newest_ms = floor_.raised_ms();
  for (const auto& [id, client] : clients_) newest_ms = std::max(newest_ms, client->last_ms);
  return newest_ms;
}

size_t CompletionTable::places() const {
  size_t places = 0;
  for (const auto& [id, client] : clients_) places += client->results.places();
  return places;
}

std::optional<uint64_t> CompletionTable::encode_row(uint64_t client_id, std::string& out) const {
  out.clear();
  const Client* const client = find_client(client_id);
  const bool is_floor = client_id == kFloorClient && floor_.seq() > 0;
  if (client == nullptr && !is_floor) return std::nullopt;
  std::array<std::byte, kRowHeadBytes> buffer;
  ByteWriter head(buffer);
  if (is_floor) {
    head.write(floor_.raised_ms());
    head.write(floor_.seq() + 1);
    head.write(uint64_t{0});
    out.append(as_string_view(head.written()));
    return 0;
  }
  const uint64_t kind_bit = client->home == Kind::kEstablished ? kRowEstablishedBit
                            : client->home == Kind::kFar       ? kRowFarBit
                                                               : 0;
  head.write((client->last_ms & kRowTimeBits) | kind_bit);
  head.write(client->first_incomplete);
  out.append(as_string_view(head.written()));
  client->results.encode(out);
  return client->last_index;
}

bool CompletionTable::load(uint64_t client_id, ByteSpan row, uint64_t version) {
  if (clients_.contains(client_id) || row.size() < kRowHeadBytes) return false;
  ByteReader reader(row);
  const auto time = reader.read<uint64_t>();
  if ((time & kRowEstablishedBit) != 0 && (time & kRowFarBit) != 0) return false;
  auto loading = std::make_unique<Client>(counts_);
  loading->id = client_id;
  loading->last_ms = time & kRowTimeBits;
  loading->last_index = version;
  loading->kind = Kind::kNewcomer;
  if ((time & kRowEstablishedBit) != 0) loading->kind = Kind::kEstablished;
  if ((time & kRowFarBit) != 0) loading->kind = Kind::kFar;
  loading->home = loading->kind;
  loading->first_incomplete = reader.read<uint64_t>();
  if (!loading->results.load(reader, loading->first_incomplete, kSeqMax)) return false;
  if (client_id == kFloorClient) {
    if (loading->results.size() != 0 || loading->first_incomplete == 0) return false;
    floor_ = CompletionFloor(loading->first_incomplete - 1, loading->last_ms);
    return true;
  }
  loading->recorded_seq = loading->first_incomplete == 0 ? 0 : loading->first_incomplete - 1;
  if (loading->results.size() > 0) loading->recorded_seq = loading->results.last_seq(true);
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
    if (client->results.counts().bytes > 0) holders_.push_back(*client);
  }
  bound_times(clients, latest_ms, changed);
  shed(clients, changed);
}

}  // namespace skua::kv
