// SealedTransport's channels: how they are made, found, and ended.
#include <string.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rpc/base/check.h"
#include "rpc/transport/sealed/sealed_transport.h"

namespace skua::rpc {
namespace {

constexpr DurationNs kSweepEvery = kSecond;
/// The place of a channel that has ended is not used for so long: something that was meant for it may be under way.
/// Also not as long as the endpoint may keep a session that the channel's peer offered and never used.
constexpr DurationNs kQuarantineMin = 10 * kSecond;
/// Keys cost some microseconds. Channels that were made together do not get new ones together.
constexpr int kRotationsPerSweep = 64;

/// Which has a secret in it.
void wipe(std::string& text) {
  explicit_bzero(text.data(), text.size());
  text.clear();
}

SealMode stronger(SealMode a, SealMode b) {
  return std::max(a, b);
}

uint64_t random_number(const SealedOptions& options) {
  uint64_t out = 0;
  options.random({reinterpret_cast<std::byte*>(&out), sizeof out});
  return out;
}

}  // namespace

/// A session uses the channel, or waits for its peer's packets. An offer's session counts once the channel is proven:
/// before that, the channel has a deadline of its own.
bool SealedTransport::carries_session(PeerId id) const {
  return use_ == nullptr || use_->is_used(id) || (channels_[id].is_proven && use_->is_awaited(id));
}

/// The channel that has to end before the holder gets another one. kNoPeer: none has to.
absl::StatusOr<PeerId> SealedTransport::victim_for(Kind kind, const ChannelHolder& holder) {
  const auto carries = [this](PeerId id) { return carries_session(id); };
  return shares_of(kind).victim_for(holder, clock_.now_ns(), carries);
}

/// `is_proven`: more than an offer's word is known of where the peer is.
PeerId SealedTransport::take(Kind kind, const ChannelHolder& holder, PeerId wire, PeerId victim, bool is_proven) {
  const TimeNs now = clock_.now_ns();
  if (victim != kNoPeer) free(victim);
  const DurationNs quarantine_ns = std::max(kQuarantineMin, options_.unproven_after_ns);
  const bool is_rested = !free_.empty() && now - channels_[free_.front()].unused_since_ns >= quarantine_ns;
  if (!is_rested && channels_.size() < places_max()) {
    free_.push_front(static_cast<PeerId>(channels_.size()));
    channels_.emplace_back();
  }
  SKUA_CHECK(!free_.empty(), "there was room for a channel");
  const PeerId id = free_.front();
  free_.pop_front();
  Channel& channel = channels_[id];
  channel = Channel{};
  channel.kind = kind;
  channel.is_proven = is_proven;
  channel.unused_since_ns = now;
  shares_of(kind).add(id, holder, !channel.is_proven, now);
  set_wire(id, wire);
  return id;
}

void SealedTransport::free(PeerId id) {
  Channel& channel = channels_[id];
  if (channel.kind == Kind::kDialled) dialled_.erase(channel.wire);
  if (channel.kind == Kind::kAccepted) accepted_.erase({channel.origin.principal, channel.offer.nonce});
  set_wire(id, kNoPeer);
  shares_of(channel.kind).remove(id);
  wipe(channel.answer);
  channel = Channel{};  // the keys wipe themselves
  channel.unused_since_ns = clock_.now_ns();
  free_.push_back(id);
  std::erase_if(events_, [id](const LinkEvent& event) { return event.peer == id; });
}

/// Ends channels that no session has used for a while, and goes on to new keys where that is due.
void SealedTransport::sweep(TimeNs now) {
  next_sweep_ns_ = now + kSweepEvery;
  int rotations = kRotationsPerSweep;
  for (PeerId id = 0; id < channels_.size(); ++id) {
    Channel& channel = channels_[id];
    if (channel.kind == Kind::kFree) continue;
    if (channel.keys != nullptr && rotations > 0 && channel.keys->sealer.rotate(now)) --rotations;
    if (carries_session(id)) {
      channel.unused_since_ns = now;
      shares_of(channel.kind).touch(id, now);
    } else if (now - channel.unused_since_ns >= options_.unused_after_ns) {
      free(id);
    } else {
      shares_of(channel.kind).rest(id, channel.unused_since_ns);
    }
  }
}

void SealedTransport::set_wire(PeerId id, PeerId wire) {
  Channel& channel = channels_[id];
  channel.is_linked = false;
  if (channel.wire == wire) return;
  if (const auto before = by_wire_.find(channel.wire); before != by_wire_.end()) {
    OfWire& known = before->second;
    (channel.is_proven ? known.proven : known.unproven).erase(id);
    if (known.proven.empty() && known.unproven.empty()) by_wire_.erase(before);
  }
  if (channel.is_keyless()) keyless_.erase(channel.wire);
  channel.wire = wire;
  if (wire == kNoPeer) return;
  if (channel.is_keyless()) keyless_[wire] = id;
  OfWire& known = by_wire_[wire];
  (channel.is_proven ? known.proven : known.unproven).insert(id);
}

/// Somebody uses the channel now: it begins to rest again.
void SealedTransport::rest_anew(PeerId id) {
  const TimeNs now = clock_.now_ns();
  channels_[id].unused_since_ns = now;
  shares_of(channels_[id].kind).touch(id, now);
}

/// The first frame of an accepted channel has come: its opener has the secret.
void SealedTransport::prove(PeerId id) {
  Channel& channel = channels_[id];
  wipe(channel.answer);
  if (const auto known = by_wire_.find(channel.wire); known != by_wire_.end()) {
    known->second.unproven.erase(id);
    known->second.proven.insert(id);
  }
  channel.is_proven = true;
  shares_of(channel.kind).prove(id);
}

/// A new offer: what was agreed before ends, and so do the sessions that used it.
void SealedTransport::make_offer(PeerId id) {
  Channel& channel = channels_[id];
  if (std::exchange(channel.keys, nullptr) != nullptr) {
    events_.push_back({id, LinkEvent::Kind::kRefused, {}, absl::AbortedError("the peer has lost the session's keys")});
  }
  channel.is_used_up = false;
  channel.offer = {.mode = options_.mode, .channel = id, .nonce = {}};
  options_.random(channel.offer.nonce);
}

absl::StatusOr<PeerId> SealedTransport::resolve(const Descriptor& peer) {
  absl::StatusOr<PeerId> wire = wire_->resolve(peer);
  if (!wire.ok()) return wire.status();
  const auto known = dialled_.find(*wire);
  std::string descriptor = peer.encode();
  if (known != dialled_.end() && channels_[known->second].descriptor == descriptor) return known->second;
  PeerId id = kNoPeer;
  if (known != dialled_.end()) {
    id = known->second;  // another process is there now
  } else {
    const absl::StatusOr<PeerId> victim = victim_for(Kind::kDialled, {});
    if (!victim.ok()) return victim.status();
    id = take(Kind::kDialled, {}, *wire, *victim, true);
    dialled_[*wire] = id;
  }
  channels_[id].descriptor = std::move(descriptor);
  make_offer(id);
  return id;
}

// --- Keyless peers

/// The keyless channel of a peer of the wire, which is made if need be. `holder` pays for it.
absl::StatusOr<PeerId> SealedTransport::keyless_at(PeerId wire, Acquaintance by, const ChannelHolder& holder) {
  if (const auto known = keyless_.find(wire); known != keyless_.end()) {
    // A claim that was never used does not last longer because it is made again.
    if (by != Acquaintance::kClaim || channels_[known->second].is_proven) rest_anew(known->second);
    return known->second;
  }
  const absl::StatusOr<PeerId> victim = victim_for(Kind::kKeyless, holder);
  if (!victim.ok()) return victim.status();
  // A packet alone ends nobody's channel: packets of that one may stand in the same burst.
  if (by == Acquaintance::kPacket && *victim != kNoPeer) {
    return absl::ResourceExhaustedError("there is no channel for another peer without keys");
  }
  const PeerId id = take(Kind::kKeyless, holder, wire, *victim, by != Acquaintance::kClaim);
  channels_[id].frames_of = wire;
  channels_[id].is_incoming = by == Acquaintance::kPacket;
  return id;
}

/// Of a peer that has sent a packet over its connection. It has no name by which it could pay: its place on the wire
/// pays.
absl::StatusOr<PeerId> SealedTransport::keyless_of_packet(PeerId wire) {
  return keyless_at(wire, Acquaintance::kPacket, ChannelHolder::of({.source = wire_->host_of(wire), .principal = {}}));
}

absl::StatusOr<PeerId> SealedTransport::keyless(PeerId dialled) {
  if (!options_.admits_keyless) {
    return absl::FailedPreconditionError("the peer does not seal its packets, this endpoint does");
  }
  return keyless_at(channels_[dialled].wire, Acquaintance::kDialled, {});
}

absl::StatusOr<PeerId> SealedTransport::claim_keyless(const Descriptor& opener, const OfferOrigin& origin) {
  const absl::StatusOr<PeerId> wire = wire_->resolve_claimed(opener);
  if (!wire.ok()) return wire.status();
  return keyless_at(*wire, Acquaintance::kClaim, ChannelHolder::of(origin));
}

absl::StatusOr<PeerId> SealedTransport::resolve_claimed(const Descriptor& /*peer*/) {
  return absl::FailedPreconditionError("a claim of a peer without keys needs its origin");
}

// --- Channels with keys

std::string SealedTransport::offer(PeerId peer) {
  rest_anew(peer);
  Channel& channel = channels_[peer];
  if (channel.is_used_up) make_offer(peer);
  return channel.offer.encode();
}

void SealedTransport::make_keys(Channel& channel, const RootSecret& secret, const Hash& transcript, ChannelSide side) {
  const ChannelUse use{.mode = channel.mode, .rotation = options_.rotation, .make_aead = options_.make_aead};
  channel.keys = std::make_unique<ChannelKeys>(secret, transcript, side, use, clock_.now_ns());
  ++sealed_.channels_made;
}

ChannelAnswer SealedTransport::known_answer(const Channel& channel) const {
  return {.mode = channel.mode,
          .channel = static_cast<uint32_t>(&channel - channels_.data()),
          .epoch = channel.epoch,
          .nonce = channel.offer.nonce,
          .secret = {}};
}

absl::StatusOr<Channels::Accepted> SealedTransport::accept(ByteSpan bytes, const Descriptor& opener,
                                                           const OfferOrigin& origin) {
  const std::optional<ChannelOffer> offer = ChannelOffer::decode(bytes);
  if (!offer.has_value()) return absl::InvalidArgumentError("the offer of the channel is malformed");
  AcceptedKey key{origin.principal, offer->nonce};
  if (const auto known = accepted_.find(key); known != accepted_.end()) {
    Channel& channel = channels_[known->second];
    if (channel.offer != *offer) return absl::InvalidArgumentError("another channel has this offer's nonce");
    rest_anew(known->second);
    return Accepted{known->second, channel.answer.empty() ? known_answer(channel).encode() : channel.answer};
  }
  const ChannelHolder holder = ChannelHolder::of(origin);
  const absl::StatusOr<PeerId> victim = victim_for(Kind::kAccepted, holder);
  if (!victim.ok()) return victim.status();
  PeerId wire = kNoPeer;
  // Over connections the opener is found by its first frame.
  if (!capabilities_.connected) {
    absl::StatusOr<PeerId> resolved = wire_->resolve_claimed(opener);
    if (!resolved.ok()) return resolved.status();
    wire = *resolved;
  }
  const PeerId id = take(Kind::kAccepted, holder, wire, *victim, false);
  accepted_[key] = id;
  Channel& channel = channels_[id];
  channel.mode = stronger(options_.mode, offer->mode);
  channel.remote = offer->channel;
  channel.offer = *offer;
  channel.origin = origin;
  channel.epoch = random_number(options_);
  ChannelAnswer answer = known_answer(channel);
  options_.random(answer.secret.emplace().bytes());
  make_keys(channel, *answer.secret, channel_transcript(*offer, answer), ChannelSide::kAcceptor);
  channel.answer = answer.encode();
  return Accepted{id, channel.answer};
}

absl::Status SealedTransport::finish(PeerId peer, ByteSpan bytes) {
  Channel& channel = channels_[peer];
  const std::optional<ChannelAnswer> answer = ChannelAnswer::decode(bytes);
  if (channel.kind != Kind::kDialled || !answer.has_value()) {
    return absl::InvalidArgumentError("the answer of the channel is malformed");
  }
  if (answer->mode < channel.offer.mode) {
    return absl::FailedPreconditionError("the peer protects its packets less than was asked for");
  }
  if (answer->nonce != channel.offer.nonce) return absl::AbortedError("the answer is to an earlier offer");
  if (channel.keys != nullptr && channel.epoch == answer->epoch) return absl::OkStatus();
  // An offer makes keys once: the keys of another epoch need another nonce.
  if (channel.keys != nullptr || !answer->secret.has_value()) {
    make_offer(peer);
    return absl::AbortedError("the channel was given up meanwhile: open the session again");
  }
  channel.mode = answer->mode;
  channel.remote = answer->channel;
  channel.epoch = answer->epoch;
  channel.is_linked = false;
  make_keys(channel, *answer->secret, channel_transcript(channel.offer, *answer), ChannelSide::kOpener);
  return absl::OkStatus();
}

bool SealedTransport::is_used(PeerId wire) const {
  const auto channels = by_wire_.find(wire);
  // A channel that was just agreed on has no session for a moment. An offer's word for its address counts only after a
  // frame of the channel has come. A keyless peer that came by a connection has proved nothing by its packets.
  return channels != by_wire_.end() && std::ranges::any_of(channels->second.proven, [this](PeerId id) {
           const bool is_recent =
               !channels_[id].is_incoming && clock_.now_ns() - channels_[id].unused_since_ns < options_.unused_after_ns;
           return is_recent || carries_session(id);
         });
}

}  // namespace skua::rpc
