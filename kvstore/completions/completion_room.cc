// Decides what a full table of completions drops (completions.h).
#include <algorithm>

#include "kvstore/completions/completion_limits.h"
#include "kvstore/completions/completions.h"

namespace skua::kv {
namespace {

/// A table that follows a log cannot refuse a record. The log of a correct primary stays near the bounds. At this
/// multiple of a bound the table drops the oldest client or result, even if it is not idle.
constexpr size_t kRecordedFactor = 2;

}  // namespace

uint64_t CompletionTable::first_taken(uint64_t client_id, uint64_t now_ms) const {
  if (const Client* known = find_client(client_id)) return known->first_incomplete;
  return floor_.first_taken(now_ms);
}

bool CompletionTable::can_evict(Kind kind, uint64_t now_ms) {
  if (order(kind).empty()) return false;
  const uint64_t last_ms = order(kind).front().last_ms;
  return now_ms > last_ms && now_ms - last_ms >= kCompletionIdleMsMin;
}

/// Whether a record of one more client would find room.
bool CompletionTable::has_room(uint64_t now_ms) {
  const bool an_old_one = can_evict(Kind::kNewcomer, now_ms);
  if (count(Kind::kNewcomer) >= limits_.newcomers_max && !an_old_one) return false;
  return recorded_count() < limits_.clients_max || an_old_one || can_evict(Kind::kEstablished, now_ms);
}

/// Visitors have as many places as newcomers, beside all other clients. Far visitors have the places that far clients
/// leave. False: there is no place.
bool CompletionTable::make_room_for_visitor(Kind kind, uint64_t now_ms) {
  const bool far = kind == Kind::kFarVisitor;
  const size_t max = far ? limits_.far_max - std::min(limits_.far_max, count(Kind::kFar)) : limits_.newcomers_max;
  while (count(kind) >= max) {
    if (order(kind).empty()) return false;
    Client& oldest = order(kind).front();
    if (now_ms <= oldest.heard_ms || now_ms - oldest.heard_ms < kCompletionIdleMsMin) return false;
    drop_visitor(oldest, now_ms);
  }
  return true;
}

/// Takes a far place for an attempt with a far number, of a client that is known. False: there is none.
bool CompletionTable::take_far_place(Client& client, uint64_t now_ms) {
  if (client.kind == Kind::kFar || client.kind == Kind::kFarVisitor) return true;
  if (!make_room_for_visitor(Kind::kFarVisitor, now_ms)) return false;
  if (client.is_visitor()) {
    settle(client, Kind::kFarVisitor);
  } else {
    become(client, Kind::kFar);
  }
  return true;
}

/// Makes room for the first record of a client. False: no client can be dropped for it.
bool CompletionTable::make_room(Kind kind, uint64_t now_ms, Changed changed) {
  if (kind == Kind::kNewcomer && count(kind) >= limits_.newcomers_max && !evict(kind, now_ms, changed)) return false;
  const auto is_full = [this] { return recorded_count() >= limits_.clients_max; };
  // A second client is dropped if the table is still full, so that a table beyond its bound shrinks.
  if (is_full() && !evict(Kind::kNewcomer, now_ms, changed) && !evict(Kind::kEstablished, now_ms, changed))
    return false;
  if (is_full()) static_cast<void>(evict(Kind::kNewcomer, now_ms, changed));
  return true;
}

bool CompletionTable::evict(Kind kind, uint64_t now_ms, Changed changed) {
  if (!can_evict(kind, now_ms)) return false;
  forget_for_another(order(kind).front(), now_ms, changed);
  return true;
}

void CompletionTable::forget_for_another(Client& client, uint64_t now_ms, Changed changed) {
  floor_.raise(client.recorded_seq, now_ms);
  changed(kFloorClient);
  changed(client.id);
  let_go(client, now_ms);
}

/// Makes room for a record that cannot be refused, after make_room() found no client to drop: at kRecordedFactor times
/// the bound it drops the oldest client, even if that client is not idle.
void CompletionTable::crowd_out(uint64_t now_ms, Changed changed) {
  if (recorded_count() < kRecordedFactor * limits_.clients_max) return;
  for (const Kind kind : {Kind::kNewcomer, Kind::kEstablished, Kind::kFar}) {
    if (!order(kind).empty()) return forget_for_another(order(kind).front(), now_ms, changed);
  }
}

/// Brings results within their bounds after a record of `newest`.
void CompletionTable::drop_results(Client& newest, Changed changed) {
  while (newest.results.counts().bytes > limits_.client_bytes_max ||
         newest.results.size() > kRecordedFactor * kIncompleteMax) {
    newest.told(newest.results.first_seq() + 1);
  }
  while (counts_.bytes > limits_.bytes_max && !holders_.empty() && &holders_.front() != &newest) {
    Client& oldest = holders_.front();
    oldest.told(oldest.results.last_seq(true) + 1);
    changed(oldest.id);
  }
}

/// Brings refusals within their bound after one of `newest`.
void CompletionTable::drop_refusals(const Client& newest) {
  while (counts_.refused_bytes > limits_.refused_bytes_max && &refused_holders_.front() != &newest) {
    Client& oldest = refused_holders_.front();
    oldest.told(oldest.results.last_seq(false) + 1);
  }
}

/// Bounds the times of loaded clients, which are ordered by their last record. A client with a time in the future would
/// not become idle, and would keep its place from all others.
void CompletionTable::bound_times(const std::vector<Client*>& clients, uint64_t latest_ms, Changed changed) {
  for (Client* client : clients) {
    if (client->last_ms <= latest_ms) continue;
    client->last_ms = latest_ms;
    changed(client->id);
  }
  if (floor_.bound_time(latest_ms)) changed(kFloorClient);
}

/// Drops what exceeds the bounds from the same clients. The records of a log leave no more than this, either.
void CompletionTable::shed(const std::vector<Client*>& clients, Changed changed) {
  uint64_t now_ms = 0;
  for (Client* client : clients) {
    now_ms = std::max(now_ms, client->last_ms);
    const size_t kept = client->results.size();
    drop_results(*client, changed);
    if (client->results.size() != kept) changed(client->id);
  }
  while (recorded_count() > kRecordedFactor * limits_.clients_max) crowd_out(now_ms, changed);
}

}  // namespace skua::kv
