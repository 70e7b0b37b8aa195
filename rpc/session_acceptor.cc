#include "rpc/session_acceptor.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {

std::string SessionAcceptor::accept_offer(ByteSpan bytes, const OfferOrigin& origin, SessionId* made) {
  const KeyedRecord record = KeyedRecord::read(bytes);
  const auto refuse = [&](const char* why) { return refuse_offer(record.session, absl::FailedPreconditionError(why)); };
  const bool admits_keyless = context_.capabilities.keyed && context_.transport.channels()->admits_keyless();
  if (!record.has_channel && context_.capabilities.keyed && !admits_keyless) {
    return refuse("this node seals its packets, the peer does not: start both alike");
  }
  if (record.has_channel && !record.may_be_keyless && !context_.capabilities.keyed) {
    return refuse("the peer seals its packets, this node does not: start both alike");
  }
  // Where nobody proved a name, the carrier may not be secret either, so it carries no keys.
  const bool is_nameless = admits_keyless && origin.principal.empty() && !mutant(Mutant::kKeysToNobody);
  if (record.has_channel && !record.may_be_keyless && is_nameless) {
    return refuse("keys are for those who show a certificate, and the peer showed none");
  }
  if (!record.has_channel || !context_.capabilities.keyed || is_nameless) {
    return accept_session(record.session, kNoPeer, origin, made);
  }
  const absl::StatusOr<SessionOffer> offer = SessionOffer::decode(record.session);
  if (!offer.ok()) return refuse_offer(record.session, offer.status());
  const absl::StatusOr<Descriptor> opener = Descriptor::decode(as_byte_span(offer->descriptor));
  if (!opener.ok()) return refuse_offer(record.session, opener.status());
  const absl::StatusOr<Channels::Accepted> channel =
      context_.transport.channels()->accept(record.channel, *opener, origin);
  if (!channel.ok()) return refuse_offer(record.session, channel.status());
  const std::string answer = accept_session(record.session, channel->peer, origin, made);
  return KeyedRecord::write(as_byte_span(channel->answer), as_byte_span(answer));
}

std::string SessionAcceptor::refuse_offer(ByteSpan bytes, const absl::Status& why) {
  context_.count_drop(DropReason::kRefusedHandshake);
  SessionAnswer answer;
  if (const absl::StatusOr<SessionOffer> offer = SessionOffer::decode(bytes); offer.ok()) answer.nonce = offer->nonce;
  answer.code = why.code();
  answer.text = std::string(std_view(why.message()));
  return answer.encode();
}

std::string SessionAcceptor::accept_session(ByteSpan bytes, PeerId from, const OfferOrigin& origin, SessionId* made) {
  SessionAnswer answer;
  absl::StatusOr<SessionOffer> offer = SessionOffer::decode(bytes);
  SessionEntry* accepted = nullptr;
  absl::Status judgement = offer.status();
  if (offer.ok()) {
    judgement = judge_offer(*offer, from, origin, answer, accepted);
    answer.nonce = offer->nonce;
  }
  const Descriptor self = context_.transport.local_descriptor();
  answer.uuid = self.identity.uuid.bytes;
  answer.incarnation = self.identity.incarnation;
  answer.cluster_id = self.identity.cluster_id.bytes;
  if (!judgement.ok()) {
    context_.count_drop(DropReason::kRefusedHandshake);
    answer.code = judgement.code();
    answer.text = std::string(std_view(judgement.message()));
    return answer.encode();
  }
  if (made != nullptr) *made = accepted->handle();
  if (accepted->answer.empty()) accepted->answer = answer.encode();
  return accepted->answer;
}

absl::Status SessionAcceptor::check_offer(const SessionOffer& offer) const {
  if (!context_.options.accept_sessions) {
    return absl::FailedPreconditionError("this endpoint is a client's and accepts no sessions");
  }
  if (offer.version_min > kProtocolVersion || version_of(offer.version_max) < kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the peer speaks protocol versions ", offer.version_min, " to ",
                                                      version_of(offer.version_max), ", this node ", kProtocolVersion,
                                                      " to ", kBundleVersion, ": upgrade the older side"));
  }
  // 0 means that there is no such session (Endpoint::session_nonce).
  if (offer.nonce == 0) return absl::InvalidArgumentError("the offer has no number");
  return absl::OkStatus();
}

absl::StatusOr<SessionEntry*> SessionAcceptor::take_offer(const SessionOffer& offer, const EndpointIdentity& identity,
                                                          PeerId claimed, uint64_t source) {
  return context_.sessions.add_accepted(
      {.nonce = offer.nonce,
       .identity = identity,
       .remote_index = offer.session_index,
       .remote_generation = offer.session_generation,
       .offer_source = source,
       // A connection's PeerId ends with the connection, so it is no use here.
       .claimed = context_.capabilities.connected && !context_.capabilities.keyed ? kNoPeer : claimed,
       .may_have_reserved = context_.is_kept_for(identity)},
      context_.now_ns);
}

absl::StatusOr<PeerId> SessionAcceptor::resolve_claim(const Descriptor& opener, const OfferOrigin& origin) {
  if (!context_.capabilities.keyed) return context_.transport.resolve_claimed(opener);
  return context_.transport.channels()->claim_keyless(opener, origin);
}

/// `from`: the peer whose packet brought the offer, or the channel that the session is for. kNoPeer: another channel
/// brought it, or the sender is unknown. A channel's session is bound by the first packet of the channel.
absl::Status SessionAcceptor::judge_offer(const SessionOffer& offer, PeerId from, const OfferOrigin& origin,
                                          SessionAnswer& answer, SessionEntry*& accepted) {
  if (absl::Status wrong = check_offer(offer); !wrong.ok()) return wrong;
  absl::StatusOr<Descriptor> descriptor = Descriptor::decode(as_byte_span(offer.descriptor));
  if (!descriptor.ok()) return descriptor.status();
  if (SessionEntry* old = context_.sessions.find_accepted(offer.nonce, descriptor->identity.uuid); old != nullptr) {
    const bool is_same_peer = !context_.capabilities.keyed || old->channel == from;
    if (!is_same_peer || old->remote_index != offer.session_index ||
        old->remote_generation != offer.session_generation) {
      return absl::AbortedError("the offer has the number of another one");
    }
    accepted = old;  // a repeated offer gets the answer again
    return absl::OkStatus();
  }
  const bool is_by_packet = from != kNoPeer && !context_.capabilities.keyed;
  if (is_by_packet) {
    absl::Status way = binding_.make_way(from, descriptor->identity, offer.session_index, offer.session_generation);
    if (!way.ok()) return way;
  } else {
    limit_unproven();
  }
  // A connected transport finds the peer by its packets; only others need the claimed address.
  PeerId claimed = from;
  if (claimed == kNoPeer && !context_.capabilities.connected) {
    absl::StatusOr<PeerId> resolved = resolve_claim(*descriptor, origin);
    if (!resolved.ok()) return resolved.status();
    claimed = *resolved;
  }
  absl::StatusOr<SessionEntry*> made = take_offer(offer, descriptor->identity, claimed, origin.source);
  if (!made.ok()) return made.status();
  SessionEntry& entry = **made;
  if (context_.capabilities.keyed) entry.channel = from;
  lives_.make(entry);

  answer.version = common_version(offer.version_max, policy_.version_max());
  entry.version = version_of(answer.version);
  entry.session->set_sealed((answer.version & version_flags::kTrustedWire) == 0);
  answer.terms = policy_.common_terms(offer.terms);
  if (claimed != kNoPeer) answer.terms = policy_.fit_path(answer.terms, claimed);
  answer.session_index = entry.index;
  answer.session_generation = entry.wire_generation;
  if (is_by_packet) {
    SKUA_CHECK(binding_.bind(entry, from), "make_way() made none");
  } else {
    context_.timers.set_earlier(entry.index, context_.now_ns + context_.options.protocol.unproven_after_ns);
  }
  lives_.open(entry, answer.terms);
  accepted = &entry;
  return absl::OkStatus();
}

/// Makes room for one more unproven session.
void SessionAcceptor::limit_unproven() {
  SessionEntry* excess = context_.sessions.excess_unproven();
  if (excess == nullptr) return;
  lives_.end(*excess, absl::ResourceExhaustedError("the peer did not use the session, others wait"));
}

/// Whether the session of this offer is bound to another peer. The sender may still be the same process, whose old
/// connection broke without our knowledge. An answer would make it send packets that are dropped here, so the offer
/// gets none; the sender will repeat it.
bool SessionAcceptor::is_bound_elsewhere(const SessionOffer& offer, PeerId from) const {
  const absl::StatusOr<Descriptor> descriptor = Descriptor::decode(as_byte_span(offer.descriptor));
  if (!descriptor.ok()) return false;
  const SessionEntry* made = context_.sessions.find_accepted(offer.nonce, descriptor->identity.uuid);
  return made != nullptr && made->peer != kUnbound && made->peer != from;
}

void SessionAcceptor::on_connect(const Arrival& arrival, PeerId from) {
  if (!context_.options.accept_by_packet && !mutant(Mutant::kOpenByPacket)) {
    return context_.count_drop(DropReason::kRefusedHandshake);
  }
  absl::StatusOr<SessionOffer> offer = SessionOffer::decode(arrival.payload);
  if (!offer.ok()) return context_.count_drop(DropReason::kMalformedHandshake);
  if (is_bound_elsewhere(*offer, from)) return context_.count_drop(DropReason::kForeignSender);
  const std::string answer = accept_session(arrival.payload, from, {}, nullptr);
  // A datagram transport finds the sender's address in the offer's descriptor.
  if (from == kNoPeer) {
    absl::StatusOr<Descriptor> descriptor = Descriptor::decode(as_byte_span(offer->descriptor));
    if (!descriptor.ok()) return;
    absl::StatusOr<PeerId> peer = context_.transport.resolve_claimed(*descriptor);
    if (!peer.ok()) return;
    from = *peer;
  }
  PacketHeader header;
  header.type = PacketType::kAccept;
  header.session_index = offer->session_index;
  header.session_generation = offer->session_generation;
  transmits_.send_control(from, header, as_byte_span(answer));
}

}  // namespace skua::rpc
