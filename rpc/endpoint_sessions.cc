// How sessions begin, break, come back and end.
//
//      connect()                        begin_connect() / finish_connect()             a peer's offer
//          |                                        |                                        |
//          v    answer                              v   answer                               v
//     kConnecting ------------> kOpen <------ kAwaitingAnswer                              kOpen
//          ^                      |
//          +----------------------+  peer silent, restarted, or it does not know the session:
//                                     calls that were sent get their outcome, calls that were not wait on
//                                     (the side that opened only; the other frees the session)
//
// A new connection of the same session gets new wire generations on both sides, so that nothing of the old one is
// believed.
//
// Who is at the other end. What an offer says about its sender (identity, descriptor) proves nothing, and changes no
// other session. An accepted session is bound to a peer of the transport by a packet that names the session's index and
// generation: only the receiver of the answer knows them. Until then the session is unproven; the number and lifetime
// of such sessions are limited. A session whose connection broke is bound again in the same way. If an offer comes as a
// packet of a known peer, its session is bound at once.
#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"
#include "rpc/endpoint_impl.h"
#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;

/// Reduces the terms to what the path to `peer` carries.
SessionTerms fit_path(SessionTerms terms, const Transport& transport, PeerId peer) {
  terms.payload_bytes = std::min(terms.payload_bytes, transport.payload_max_bytes(peer));
  const uint64_t by_index = uint64_t{terms.payload_bytes} * kPacketsPerMessageMax;
  terms.message_max_bytes = static_cast<uint32_t>(std::min<uint64_t>(by_index, terms.message_max_bytes));
  return terms;
}

}  // namespace

// --- Opening -------------------------------------------------------------------------------------------------------

void EndpointImpl::make_session(SessionEntry& entry) {
  const PeerId route = entry.peer == kUnbound ? kNoPeer : entry.peer;
  SessionTable::attach(entry, std::make_unique<Session>(static_cast<SessionHost&>(*this), context_.options.protocol,
                                                        entry.index, &receive_budget_, route));
  bundles_.add(entry.session->hot());
}

SessionTerms EndpointImpl::own_terms() const {
  const Capabilities& caps = context_.transport.capabilities();
  SessionTerms terms;
  terms.window = context_.options.protocol.window;
  terms.payload_bytes = std::min(caps.payload_max_bytes, context_.options.protocol.message_max_bytes);
  terms.credits = session_credits(context_.options.protocol, terms.payload_bytes, caps.lendable_count);
  const uint64_t by_index = uint64_t{terms.payload_bytes} * kPacketsPerMessageMax;
  terms.message_max_bytes =
      static_cast<uint32_t>(std::min<uint64_t>(by_index, context_.options.protocol.message_max_bytes));
  return terms;
}

/// The smaller value of each term, adjusted: windows are powers of two, and packet indices have 16 bits.
SessionTerms EndpointImpl::common_terms(const SessionTerms& offered) const {
  const SessionTerms own = own_terms();
  SessionTerms out;
  out.window = std::bit_floor(std::min(own.window, offered.window));
  out.credits = std::min(own.credits, offered.credits);
  out.payload_bytes = std::min(own.payload_bytes, offered.payload_bytes);
  const uint64_t by_index = uint64_t{out.payload_bytes} * kPacketsPerMessageMax;
  out.message_max_bytes =
      static_cast<uint32_t>(std::min<uint64_t>(by_index, std::min(own.message_max_bytes, offered.message_max_bytes)));
  return out;
}

/// The highest protocol version, with its flags. Bundles need a transport with frames.
uint8_t EndpointImpl::version_max() const {
  const bool bundles = context_.capabilities.frames && context_.options.bundles;
  const uint8_t version = bundles ? kBundleVersion : kProtocolVersion;
  return context_.options.trusted_wire ? version | version_flags::kTrustedWire : version;
}

std::string EndpointImpl::make_offer(SessionEntry& entry) {
  SessionOffer offer;
  offer.version_min = kProtocolVersion;
  offer.version_max = version_max();
  offer.terms = fit_path(own_terms(), context_.transport, entry.peer);
  offer.session_index = entry.index;
  offer.session_generation = entry.wire_generation;
  offer.nonce = entry.nonce;
  offer.descriptor = context_.transport.local_descriptor().encode();
  ++entry.attempts;
  return offer.encode();
}

absl::StatusOr<SessionEntry*> EndpointImpl::dial(const Descriptor& peer, State state) {
  absl::StatusOr<PeerId> id = context_.transport.resolve(peer);
  if (!id.ok()) return id.status();
  absl::StatusOr<SessionEntry*> entry = context_.sessions.add_dialled(*id, context_.now_ns);
  if (!entry.ok()) return entry;
  make_session(**entry);
  (*entry)->state = state;
  context_.timers.set((*entry)->index, context_.now_ns);
  return entry;
}

absl::StatusOr<SessionId> EndpointImpl::connect(const Descriptor& peer) {
  if (context_.capabilities.keyed) {
    return absl::FailedPreconditionError("sessions of this transport need keys: open them by begin_connect()");
  }
  absl::StatusOr<SessionEntry*> entry = dial(peer, State::kConnecting);
  if (!entry.ok()) return entry.status();
  return (*entry)->handle();
}

absl::StatusOr<Endpoint::Offer> EndpointImpl::begin_connect(const Descriptor& peer) {
  absl::StatusOr<SessionEntry*> entry = dial(peer, State::kAwaitingAnswer);
  if (!entry.ok()) return entry.status();
  return Endpoint::Offer{(*entry)->handle(), with_channel((*entry)->peer, make_offer(**entry))};
}

absl::Status EndpointImpl::finish_connect(SessionId session, ByteSpan bytes) {
  SessionEntry* entry = context_.sessions.find(session);
  if (entry == nullptr) return absl::NotFoundError("the session was closed before its answer came");
  if (entry->state != State::kAwaitingAnswer) return absl::FailedPreconditionError("the session awaits no answer");
  const KeyedRecord record = KeyedRecord::read(bytes);
  absl::StatusOr<SessionAnswer> answer = SessionAnswer::decode(record.session);
  if (!answer.ok()) return answer.status();
  if (answer->nonce != entry->nonce) {
    return absl::InvalidArgumentError("the answer belongs to another session's offer");
  }
  if (answer->code != absl::StatusCode::kOk) {
    absl::Status refused(answer->code, absl::StrCat("the peer refused the session: ", answer->text));
    entry->session->abort_all(refused, context_.now_ns);
    return refused;
  }
  if (absl::Status agreed = finish_channel(*entry, record); !agreed.ok()) return agreed;
  return on_answer(*entry, *answer);
}

/// What the answer says of keys.
absl::Status EndpointImpl::finish_channel(SessionEntry& entry, const KeyedRecord& record) {
  if (!context_.capabilities.keyed) {
    return record.has_channel ? absl::FailedPreconditionError("the peer seals its packets, this endpoint does not")
                              : absl::OkStatus();
  }
  if (record.has_channel) return context_.transport.channels()->finish(entry.peer, record.channel);
  const absl::StatusOr<PeerId> keyless = context_.transport.channels()->keyless(entry.peer);
  if (!keyless.ok()) return keyless.status();
  context_.sessions.lead_to(entry, *keyless);
  return absl::OkStatus();
}

absl::Status EndpointImpl::on_answer(SessionEntry& entry, const SessionAnswer& answer) {
  const bool is_version =
      version_of(answer.version) > 0 && answer.version == common_version(answer.version, version_max());
  if (!is_version || answer.terms != common_terms(answer.terms)) {
    context_.count_drop(DropReason::kMalformedHandshake);
    return absl::InvalidArgumentError("the answer grants more than the offer asked for, or terms that contradict");
  }
  if (answer.terms.payload_bytes > context_.transport.payload_max_bytes(entry.peer)) {
    return absl::UnavailableError(
        "the path was found to be narrower while the session was being opened: open it again");
  }
  entry.remote_index = answer.session_index;
  entry.remote_generation = answer.session_generation;
  entry.identity.uuid.bytes = answer.uuid;
  entry.identity.incarnation = answer.incarnation;
  entry.identity.cluster_id.bytes = answer.cluster_id;
  entry.version = version_of(answer.version);
  entry.session->set_sealed((answer.version & version_flags::kTrustedWire) == 0);
  open_session(entry, answer.terms);
  // The first join comes after the ping, which tells the peer where to bind the session.
  if (entry.version >= kBundleVersion) entry.next_join_ns = context_.now_ns;
  context_.timers.set_earlier(entry.index,
                              std::min(entry.next_join_ns, context_.now_ns + context_.options.protocol.ping_after_ns));
  entry.session->send_ping();  // the peer may not know yet whose packets belong to the session
  return absl::OkStatus();
}

void EndpointImpl::open_session(SessionEntry& entry, const SessionTerms& terms) {
  const bool again = std::exchange(entry.was_open, true);
  entry.state = State::kOpen;
  entry.attempts = 0;
  entry.link_lost = false;
  entry.resend_at_ns = kTimeNever;
  const SessionAddress address{entry.index, entry.wire_generation, entry.remote_index, entry.remote_generation};
  entry.session->open(address, terms, context_.capabilities.reliable, context_.now_ns);
  context_.timers.set_earlier(entry.index, context_.now_ns + context_.options.protocol.ping_after_ns);
  if (again) ++context_.counters.sessions_reconnected;
  notify(entry,
         !entry.initiator ? SessionEvent::Kind::kAccepted
         : again          ? SessionEvent::Kind::kReconnected
                          : SessionEvent::Kind::kConnected,
         absl::OkStatus());
}

// --- Accepting -------------------------------------------------------------------------------------------------------

std::string EndpointImpl::accept_offer(ByteSpan bytes, const OfferOrigin& origin, SessionId* made) {
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
    return accept_session(record.session, kNoPeer, origin.source, made);
  }
  const absl::StatusOr<SessionOffer> offer = SessionOffer::decode(record.session);
  if (!offer.ok()) return refuse_offer(record.session, offer.status());
  const absl::StatusOr<Descriptor> opener = Descriptor::decode(as_byte_span(offer->descriptor));
  if (!opener.ok()) return refuse_offer(record.session, opener.status());
  const absl::StatusOr<Channels::Accepted> channel =
      context_.transport.channels()->accept(record.channel, *opener, origin);
  if (!channel.ok()) return refuse_offer(record.session, channel.status());
  const std::string answer = accept_session(record.session, channel->peer, origin.source, made);
  return KeyedRecord::write(as_byte_span(channel->answer), as_byte_span(answer));
}

std::string EndpointImpl::refuse_offer(ByteSpan bytes, const absl::Status& why) {
  context_.count_drop(DropReason::kRefusedHandshake);
  SessionAnswer answer;
  if (const absl::StatusOr<SessionOffer> offer = SessionOffer::decode(bytes); offer.ok()) answer.nonce = offer->nonce;
  answer.code = why.code();
  answer.text = std::string(std_view(why.message()));
  return answer.encode();
}

std::string EndpointImpl::with_channel(PeerId peer, std::string offer) {
  if (!context_.capabilities.keyed) return offer;
  Channels& channels = *context_.transport.channels();
  return KeyedRecord::write(as_byte_span(channels.offer(peer)), as_byte_span(offer), channels.admits_keyless());
}

/// Makes a session by the offer of it. `from`: the peer whose packet brought the offer, or whose channel it is for.
std::string EndpointImpl::accept_session(ByteSpan bytes, PeerId from, uint64_t source, SessionId* made) {
  SessionAnswer answer;
  absl::StatusOr<SessionOffer> offer = SessionOffer::decode(bytes);
  SessionEntry* accepted = nullptr;
  absl::Status judgement = offer.status();
  if (offer.ok()) {
    judgement = judge_offer(*offer, from, source, answer, accepted);
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

absl::Status EndpointImpl::check_offer(const SessionOffer& offer) const {
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

absl::StatusOr<SessionEntry*> EndpointImpl::take_offer(const SessionOffer& offer, const EndpointIdentity& identity,
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

/// `from`: the peer whose packet brought the offer, or the channel that the session is for. kNoPeer: another channel
/// brought it, or the sender is unknown. A channel's session is bound by the first packet of the channel.
absl::Status EndpointImpl::judge_offer(const SessionOffer& offer, PeerId from, uint64_t source, SessionAnswer& answer,
                                       SessionEntry*& accepted) {
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
    absl::Status way = make_way(from, descriptor->identity, offer.session_index, offer.session_generation);
    if (!way.ok()) return way;
  } else {
    limit_unproven();
  }
  // A connected transport finds the peer by its packets; only others need the claimed address.
  PeerId claimed = from;
  if (claimed == kNoPeer && !context_.capabilities.connected) {
    absl::StatusOr<PeerId> resolved = context_.transport.resolve_claimed(*descriptor);
    if (!resolved.ok()) return resolved.status();
    claimed = *resolved;
  }
  absl::StatusOr<SessionEntry*> made = take_offer(offer, descriptor->identity, claimed, source);
  if (!made.ok()) return made.status();
  SessionEntry& entry = **made;
  if (context_.capabilities.keyed) entry.channel = from;
  make_session(entry);

  answer.version = common_version(offer.version_max, version_max());
  entry.version = version_of(answer.version);
  entry.session->set_sealed((answer.version & version_flags::kTrustedWire) == 0);
  answer.terms = common_terms(offer.terms);
  if (claimed != kNoPeer) answer.terms = fit_path(answer.terms, context_.transport, claimed);
  answer.session_index = entry.index;
  answer.session_generation = entry.wire_generation;
  if (is_by_packet) {
    SKUA_CHECK(bind(entry, from), "make_way() made none");
  } else {
    context_.timers.set_earlier(entry.index, context_.now_ns + context_.options.protocol.unproven_after_ns);
  }
  open_session(entry, answer.terms);
  accepted = &entry;
  return absl::OkStatus();
}

absl::Status EndpointImpl::make_way(PeerId from, const EndpointIdentity& identity, uint32_t remote_index,
                                    uint32_t remote_generation) {
  if (SessionEntry* old = context_.sessions.find_bound(from, remote_index); old != nullptr) {
    if (old->identity.uuid == identity.uuid && identity.incarnation < old->identity.incarnation) {
      return absl::AbortedError("the offer is from an earlier life of the endpoint");
    }
    if (old->identity == identity && static_cast<int32_t>(remote_generation - old->remote_generation) < 0) {
      return absl::AbortedError("the offer is older than the session that stands");
    }
    doom(*old, absl::UnavailableError("the peer opened the session anew"));
  }
  return context_.sessions.room_for(from, context_.transport.host_of(from));
}

bool EndpointImpl::bind(SessionEntry& entry, PeerId from) {
  const absl::Status way = make_way(from, entry.identity, entry.remote_index, entry.remote_generation);
  if (!way.ok()) {
    context_.count_drop(DropReason::kRefusedHandshake);
    doom(entry, way);
    return false;
  }
  entry.link_down_ns = kTimeNever;
  context_.sessions.bind(entry, from, context_.transport.host_of(from));
  return true;
}

bool EndpointImpl::bind_again(SessionEntry& entry, PeerId from) {
  if (!bind(entry, from)) return false;
  if (entry.link_lost) resume(entry);
  return true;
}

/// Called when the session has a connection again, or asks for one: repeats what was in flight.
void EndpointImpl::resume(SessionEntry& entry) {
  // Without a peer there is no receiver. The peer's next packet binds the session and calls this again.
  entry.resend_at_ns = kTimeNever;
  if (entry.peer == kUnbound) return;
  if (entry.session->is_quiet()) {
    entry.session->send_ping();
    entry.resend_at_ns = context_.now_ns + context_.options.protocol.connect_retry_ns;
    context_.timers.set_earlier(entry.index, entry.resend_at_ns);
    return;
  }
  entry.link_lost = false;
  // A quiet session of the opener repeats everything when its ping is answered.
  if (!entry.initiator || !context_.capabilities.connected) entry.session->on_link_lost(context_.now_ns);
}

/// The connection broke: packets with the session's numbers may come from another peer.
void EndpointImpl::unbind(SessionEntry& entry) {
  bundles_.leave(entry);
  context_.sessions.unbind(entry);
}

/// Makes room for one more unproven session.
void EndpointImpl::limit_unproven() {
  SessionEntry* excess = context_.sessions.excess_unproven();
  if (excess == nullptr) return;
  doom(*excess, absl::ResourceExhaustedError("the peer did not use the session, others wait"));
}

/// Whether the session of this offer is bound to another peer. The sender may still be the same process, whose old
/// connection broke without our knowledge. An answer would make it send packets that are dropped here, so the offer
/// gets none; the sender will repeat it.
bool EndpointImpl::is_bound_elsewhere(const SessionOffer& offer, PeerId from) const {
  const absl::StatusOr<Descriptor> descriptor = Descriptor::decode(as_byte_span(offer.descriptor));
  if (!descriptor.ok()) return false;
  const SessionEntry* made = context_.sessions.find_accepted(offer.nonce, descriptor->identity.uuid);
  return made != nullptr && made->peer != kUnbound && made->peer != from;
}

void EndpointImpl::dispatch_control(const Arrival& arrival, PeerId from) {
  if (arrival.header.type == PacketType::kUnknownSession) return on_unknown_session(arrival, from);
  // What opens a session has to come from somebody whose name is known.
  if (context_.capabilities.keyed) return context_.count_drop(DropReason::kRefusedHandshake);
  if (arrival.header.type == PacketType::kConnect) {
    if (!context_.options.accept_by_packet && !mutant(Mutant::kOpenByPacket))
      return context_.count_drop(DropReason::kRefusedHandshake);
    absl::StatusOr<SessionOffer> offer = SessionOffer::decode(arrival.payload);
    if (!offer.ok()) return context_.count_drop(DropReason::kMalformedHandshake);
    if (is_bound_elsewhere(*offer, from)) return context_.count_drop(DropReason::kForeignSender);
    const std::string answer = accept_session(arrival.payload, from, 0, nullptr);
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
    return transmits_.send_control(from, header, as_byte_span(answer));
  }
  const PacketHeader& header = arrival.header;
  SessionEntry* entry = context_.sessions.at(header.session_index);
  if (entry == nullptr || entry->wire_generation != header.session_generation) {
    return context_.count_drop(DropReason::kUnknownSession);
  }
  if (entry->state != State::kConnecting) return context_.count_drop(DropReason::kDuplicate);
  if (entry->peer != from) return context_.count_drop(DropReason::kForeignSender);
  absl::StatusOr<SessionAnswer> answer = SessionAnswer::decode(arrival.payload);
  if (!answer.ok() || answer->nonce != entry->nonce) return context_.count_drop(DropReason::kMalformedHandshake);
  if (answer->code == absl::StatusCode::kOk) {
    static_cast<void>(on_answer(*entry, *answer));  // an error is counted; the next attempt may succeed
    return;
  }
  context_.count_drop(DropReason::kRefusedHandshake);
  // Waiting calls fail now with the reason, instead of waiting for nothing. The attempts go on, at a lower rate.
  entry->session->abort_all(absl::Status(answer->code, absl::StrCat("the peer refused the session: ", answer->text)),
                            context_.now_ns);
}

}  // namespace skua::rpc
