#include "rpc/transport/sealed/channel_shares.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

/// A program has a channel for each of its endpoints. So many are enough for a small one.
constexpr uint32_t kPerPrincipalMin = 16;

}  // namespace

ChannelLimits ChannelLimits::of(uint32_t channels_max, DurationNs pending_ns) {
  return {.channels_max = channels_max,
          .reserved = channels_max / 4,
          .per_principal = std::max(channels_max / 2, kPerPrincipalMin),
          .per_node = std::max(channels_max / 8, kPerPrincipalMin),
          .pending_ns = pending_ns};
}

ChannelLimits ChannelLimits::of_keyless(uint32_t channels_max, DurationNs pending_ns) {
  ChannelLimits limits = of(channels_max, pending_ns);
  limits.what = "channels without keys";
  return limits;
}

ChannelHolder ChannelHolder::of(const OfferOrigin& origin) {
  const bool is_known = !origin.principal.empty();
  return {.kind = is_known ? Kind::kPrincipal : Kind::kSource,
          .principal = origin.principal,
          .source = is_known ? 0 : origin.source,
          .may_have_reserved = origin.is_node};
}

std::string ChannelHolder::name() const {
  switch (kind) {
    case Kind::kOwnDials: return "this endpoint";
    case Kind::kPrincipal: return principal;
    case Kind::kSource: break;
  }
  return "the opener's host";
}

bool ChannelHolder::operator<(const ChannelHolder& other) const {
  return std::tie(kind, principal, source) < std::tie(other.kind, other.principal, other.source);
}

// --- Making room

absl::StatusOr<PeerId> ChannelShares::victim_for(const ChannelHolder& holder, TimeNs now,
                                                 absl::FunctionRef<bool(PeerId)> carries_session) {
  const auto found = shares_.find(holder);
  Share* const own = found == shares_.end() ? nullptr : &found->second;
  const bool has_limit = holder.kind != ChannelHolder::Kind::kOwnDials;
  const bool is_at_limit = has_limit && own != nullptr && own->count >= limit_of(holder);
  const uint32_t kept = holder.may_have_reserved ? 0 : limits_.reserved;
  if (!is_at_limit && count_ + kept < limits_.channels_max) return kNoPeer;
  if (own != nullptr) {
    if (const PeerId id = longest_idle(*own, carries_session); id != kNoPeer) return id;
  }
  if (const PeerId id = overdue(is_at_limit ? own->pending : pending_, now); id != kNoPeer) return id;
  if (!is_at_limit) {
    if (const PeerId id = longest_idle_of_richer(own == nullptr ? 0 : own->count, carries_session); id != kNoPeer) {
      return id;
    }
  }
  return is_at_limit ? share_is_used_up(holder, own->count) : all_are_used();
}

PeerId ChannelShares::longest_idle(Share& share, absl::FunctionRef<bool(PeerId)> carries_session) {
  while (!share.idle.empty()) {
    const PeerId id = share.idle.begin()->second;
    if (!carries_session(id)) return id;
    leave_queues(id);
    places_[id].state = State::kHeld;
  }
  return kNoPeer;
}

/// The channel that has rested longest of all, if its holder has more than `count` channels.
PeerId ChannelShares::longest_idle_of_richer(uint32_t count, absl::FunctionRef<bool(PeerId)> carries_session) {
  while (!idle_.empty()) {
    const PeerId id = idle_.begin()->second;
    if (places_[id].share->second.count <= count) return kNoPeer;
    if (!carries_session(id)) return id;
    leave_queues(id);
    places_[id].state = State::kHeld;
  }
  return kNoPeer;
}

PeerId ChannelShares::overdue(const Queue& pending, TimeNs now) const {
  const bool is_overdue = !pending.empty() && now - pending.begin()->first >= limits_.pending_ns;
  return is_overdue ? pending.begin()->second : kNoPeer;
}

absl::Status ChannelShares::share_is_used_up(const ChannelHolder& holder, uint32_t count) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      holder.name(), " has ", count, " ", limits_.what, " of this endpoint, as many as one principal may have (",
      limits_.channels_max, " in all): close sessions, or give programs certificates of their own"));
}

absl::Status ChannelShares::all_are_used() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("the endpoint has ", count_, " ", limits_.what, " (at most ", limits_.channels_max, ", the last ",
                   limits_.reserved, " of them kept for nodes): close sessions, or allow the node more of them"));
}

// --- Lives

void ChannelShares::add(PeerId id, const ChannelHolder& holder, bool is_pending, TimeNs now) {
  if (id >= places_.size()) places_.resize(id + 1);
  Place& place = places_[id];
  SKUA_CHECK(place.state == State::kNone, "a channel was added twice");
  place.share = shares_.try_emplace(holder).first;
  ++place.share->second.count;
  ++count_;
  place.state = State::kHeld;
  if (is_pending) wait(id, now);
}

void ChannelShares::wait(PeerId id, TimeNs now) {
  Place& place = places_[id];
  place.state = State::kPending;
  place.since_ns = now;
  place.share->second.pending.insert({now, id});
  pending_.insert({now, id});
}

void ChannelShares::leave_queues(PeerId id) {
  const Place& place = places_[id];
  const std::pair key(place.since_ns, id);
  if (place.state == State::kIdle) {
    place.share->second.idle.erase(key);
    idle_.erase(key);
  } else if (place.state == State::kPending) {
    place.share->second.pending.erase(key);
    pending_.erase(key);
  }
}

void ChannelShares::prove(PeerId id) {
  if (places_[id].state != State::kPending) return;
  leave_queues(id);
  places_[id].state = State::kHeld;
}

void ChannelShares::touch(PeerId id, TimeNs now) {
  Place& place = places_[id];
  if (place.state == State::kHeld) return;
  leave_queues(id);
  if (place.state == State::kPending) return wait(id, now);
  place.state = State::kHeld;
}

void ChannelShares::rest(PeerId id, TimeNs since) {
  Place& place = places_[id];
  if (place.state != State::kHeld) return;
  place.state = State::kIdle;
  place.since_ns = since;
  place.share->second.idle.insert({since, id});
  idle_.insert({since, id});
}

void ChannelShares::remove(PeerId id) {
  leave_queues(id);
  Place& place = places_[id];
  if (--place.share->second.count == 0) shares_.erase(place.share);
  place = Place{};
  --count_;
}

}  // namespace skua::rpc
