#include "rpc/session_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {
namespace {

template <typename Key>
void count_down(absl::flat_hash_map<Key, uint32_t>& counts, const Key& key) {
  const auto count = counts.find(key);
  if (--count->second == 0) counts.erase(count);
}

}  // namespace

// --- Looking up ------------------------------------------------------------------------------------------------------

SessionEntry* SessionTable::find_accepted(uint64_t nonce, const Uuid& sender) const {
  const auto found = accepted_.find({nonce, sender});
  return found == accepted_.end() ? nullptr : entries_[found->second].get();
}

SessionEntry* SessionTable::find_bound(PeerId peer, uint32_t remote_index) const {
  const auto found = bound_.find({peer, remote_index});
  return found == bound_.end() ? nullptr : entries_[found->second].get();
}

SessionEntry* SessionTable::find_open(PeerId peer, uint32_t remote_index, uint32_t remote_generation) const {
  for (const auto& entry : entries_) {
    if (entry->state == SessionEntry::State::kOpen && entry->peer == peer && entry->remote_index == remote_index &&
        entry->remote_generation == remote_generation) {
      return entry.get();
    }
  }
  return nullptr;
}

// --- Counting --------------------------------------------------------------------------------------------------------

absl::Status SessionTable::room_for(PeerId peer, uint64_t host) const {
  const auto held = accepted_from_.find(peer);
  if (held != accepted_from_.end() && held->second >= options_.sessions_per_peer_max) {
    return absl::ResourceExhaustedError(absl::StrCat("the peer holds sessions_per_peer_max (", held->second,
                                                     ") sessions of this endpoint: close some"));
  }
  const auto neighbours = accepted_from_host_.find(host);
  if (neighbours != accepted_from_host_.end() && neighbours->second >= options_.sessions_per_host_max) {
    return absl::ResourceExhaustedError(absl::StrCat("the peer's host holds sessions_per_host_max (",
                                                     neighbours->second, ") sessions of this endpoint: close some"));
  }
  return absl::OkStatus();
}

/// Subtracts an accepted session that is bound from the counts of its peer and host.
void SessionTable::uncount(const SessionEntry& entry) {
  count_down(accepted_from_, entry.peer);
  count_down(accepted_from_host_, entry.host);
  const auto bound = bound_.find({entry.peer, entry.remote_index});
  if (bound != bound_.end() && bound->second == entry.index) bound_.erase(bound);
}

/// Counts an accepted session that is bound to no peer.
void SessionTable::await(const SessionEntry& entry) {
  if (entry.claimed != kNoPeer) ++awaited_[entry.claimed];
}

void SessionTable::stop_awaiting(const SessionEntry& entry) {
  if (entry.claimed != kNoPeer) count_down(awaited_, entry.claimed);
}

SessionEntry* SessionTable::excess_unproven() const {
  if (unproven_.empty() || unproven_.size() < options_.sessions_unproven_max) return nullptr;
  absl::flat_hash_map<uint64_t, size_t> by_source;
  size_t most = 0;
  for (const uint32_t index : unproven_) most = std::max(most, ++by_source[entries_[index]->offer_source]);
  const auto oldest = std::find_if(unproven_.begin(), unproven_.end(),
                                   [&](uint32_t index) { return by_source[entries_[index]->offer_source] == most; });
  return entries_[*oldest].get();
}

// --- Lives -----------------------------------------------------------------------------------------------------------

absl::StatusOr<SessionEntry*> SessionTable::take(bool may_have_reserved, TimeNs now) {
  if (count_ >= options_.sessions_max || (is_short() && !may_have_reserved)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the endpoint holds ", count_, " sessions (sessions_max of ", options_.sessions_max,
                     options_.sessions_reserved > 0
                         ? absl::StrCat(", the last ", options_.sessions_reserved, " of them kept for nodes")
                         : std::string(),
                     "): close some or raise the limit"));
  }
  if (free_.empty() && entries_.size() == kRecordSessionsMax) {
    return absl::ResourceExhaustedError("all session numbers are in use, or were a moment ago: close sessions");
  }
  if (free_.empty()) {
    entries_.push_back(std::make_unique<SessionEntry>());
    entries_.back()->index = static_cast<uint32_t>(entries_.size() - 1);
    entries_.back()->wire_generation = static_cast<uint32_t>(secret_());
    free_.push_back(entries_.back()->index);
  }
  SessionEntry& entry = *entries_[free_.back()];
  free_.pop_back();
  ++count_;
  SessionEntry fresh;
  fresh.index = entry.index;
  fresh.handle_generation = entry.handle_generation + 1;
  fresh.wire_generation = entry.wire_generation;
  fresh.life = entry.life;
  fresh.connecting_since_ns = fresh.next_attempt_ns = now;
  entry = std::move(fresh);
  renew(entry);
  return &entry;
}

absl::StatusOr<SessionEntry*> SessionTable::add_dialled(PeerId peer, TimeNs now) {
  absl::StatusOr<SessionEntry*> entry = take(true, now);
  if (!entry.ok()) return entry;
  (*entry)->initiator = true;
  (*entry)->peer = peer;
  ++dialled_[peer];
  return entry;
}

void SessionTable::lead_to(SessionEntry& entry, PeerId peer) {
  count_down(dialled_, entry.peer);
  entry.peer = peer;
  ++dialled_[peer];
  entry.session->set_route(peer);
}

absl::StatusOr<SessionEntry*> SessionTable::add_accepted(const AcceptedOffer& offer, TimeNs now) {
  absl::StatusOr<SessionEntry*> entry = take(offer.may_have_reserved, now);
  if (!entry.ok()) return entry;
  SessionEntry& e = **entry;
  e.nonce = offer.nonce;
  e.identity = offer.identity;
  e.remote_index = offer.remote_index;
  e.remote_generation = offer.remote_generation;
  e.offer_source = offer.offer_source;
  e.claimed = offer.claimed;
  accepted_[{e.nonce, e.identity.uuid}] = e.index;
  unproven_.push_back(e.index);
  await(e);
  return entry;
}

void SessionTable::attach(SessionEntry& entry, std::unique_ptr<Session> session) {
  entry.session = std::move(session);
  SessionHot& hot = entry.session->hot();
  hot.handle = session_handle(entry.index, entry.life);
  hot.handle_generation = entry.handle_generation;
}

void SessionTable::renew(SessionEntry& entry) {
  ++entry.life;
  if (entry.session != nullptr) entry.session->hot().handle = session_handle(entry.index, entry.life);
  if (!mutant(Mutant::kReuseGeneration)) entry.wire_generation += 1 + static_cast<uint32_t>(secret_() >> 40);
  entry.nonce = secret_();
}

/// The session is no longer unproven.
void SessionTable::prove(SessionEntry& entry) {
  if (!std::exchange(entry.proven, true)) std::erase(unproven_, entry.index);
}

void SessionTable::bind(SessionEntry& entry, PeerId peer, uint64_t host) {
  prove(entry);
  stop_awaiting(entry);
  entry.peer = peer;
  entry.host = host;
  entry.session->set_route(peer);
  ++accepted_from_[peer];
  ++accepted_from_host_[host];
  bound_[{peer, entry.remote_index}] = entry.index;
}

void SessionTable::unbind(SessionEntry& entry) {
  if (entry.peer == kUnbound) return;
  uncount(entry);
  await(entry);
  entry.peer = kUnbound;
  entry.session->set_route(kNoPeer);
}

void SessionTable::end(SessionEntry& entry) {
  entry.state = SessionEntry::State::kDoomed;
  --count_;
  doomed_.push_back(entry.index);
  if (entry.initiator) return count_down(dialled_, entry.peer);
  accepted_.erase({entry.nonce, entry.identity.uuid});
  if (!entry.proven) std::erase(unproven_, entry.index);
  if (entry.peer == kUnbound) return stop_awaiting(entry);
  uncount(entry);  // the entry keeps its peer, because packets for it may still have to be sent
}

void SessionTable::bury(absl::FunctionRef<void(SessionEntry&)> farewell) {
  for (const uint32_t index : std::exchange(doomed_, {})) {
    SessionEntry& entry = *entries_[index];
    farewell(entry);
    entry.session.reset();
    entry.state = SessionEntry::State::kFree;
    free_.push_back(index);
  }
}

}  // namespace skua::rpc
