#include "rpc/session_dialer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/protocol/session.h"
#include "rpc/transport/channels.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;

}  // namespace

// --- Offers ----------------------------------------------------------------------------------------------------------

absl::StatusOr<SessionEntry*> SessionDialer::dial(const Descriptor& peer, State state) {
  absl::StatusOr<PeerId> id = context_.transport.resolve(peer);
  if (!id.ok()) return id.status();
  absl::StatusOr<SessionEntry*> entry = context_.sessions.add_dialled(*id, context_.now_ns);
  if (!entry.ok()) return entry;
  lives_.make(**entry);
  (*entry)->state = state;
  context_.timers.set((*entry)->index, context_.now_ns);
  return entry;
}

absl::StatusOr<SessionId> SessionDialer::connect(const Descriptor& peer) {
  if (context_.capabilities.keyed) {
    return absl::FailedPreconditionError("sessions of this transport need keys: open them by begin_connect()");
  }
  absl::StatusOr<SessionEntry*> entry = dial(peer, State::kConnecting);
  if (!entry.ok()) return entry.status();
  return (*entry)->handle();
}

absl::StatusOr<Endpoint::Offer> SessionDialer::begin_connect(const Descriptor& peer) {
  absl::StatusOr<SessionEntry*> entry = dial(peer, State::kAwaitingAnswer);
  if (!entry.ok()) return entry.status();
  return Endpoint::Offer{(*entry)->handle(), with_channel((*entry)->peer, make_offer(**entry))};
}

std::string SessionDialer::make_offer(SessionEntry& entry) {
  SessionOffer offer;
  offer.version_min = kProtocolVersion;
  offer.version_max = policy_.version_max();
  offer.terms = policy_.fit_path(policy_.own_terms(), entry.peer);
  offer.session_index = entry.index;
  offer.session_generation = entry.wire_generation;
  offer.nonce = entry.nonce;
  offer.descriptor = context_.transport.local_descriptor().encode();
  ++entry.attempts;
  return offer.encode();
}

std::string SessionDialer::with_channel(PeerId peer, std::string offer) {
  if (!context_.capabilities.keyed) return offer;
  Channels& channels = *context_.transport.channels();
  return KeyedRecord::write(as_byte_span(channels.offer(peer)), as_byte_span(offer), channels.admits_keyless());
}

void SessionDialer::send_offers() {
  for (uint32_t index : std::exchange(offers_due_, {})) {
    SessionEntry& entry = context_.sessions[index];
    if (!std::exchange(entry.offer_due, false) || entry.state != SessionEntry::State::kConnecting) continue;
    PacketHeader header;
    header.type = PacketType::kConnect;
    header.session_index = UINT32_MAX;
    transmits_.send_control(entry.peer, header, as_byte_span(make_offer(entry)));
  }
}

TimeNs SessionDialer::run_timer(SessionEntry& entry) {
  const ProtocolOptions& protocol = context_.options.protocol;
  TimeNs next = entry.session->on_timer(context_.now_ns);
  const bool overdue = context_.now_ns - entry.connecting_since_ns >= protocol.connect_timeout_ns;
  if (overdue && entry.session->outstanding_calls() > 0) {
    entry.session->abort_all(
        absl::UnavailableError(absl::StrCat("no answer to ", entry.attempts, " attempts to open the session in ",
                                            (context_.now_ns - entry.connecting_since_ns) / kMillisecond,
                                            " ms: is the peer running and reachable?")),
        context_.now_ns);
  }
  if (entry.state == State::kConnecting && context_.now_ns >= entry.next_attempt_ns) {
    entry.offer_due = true;
    offers_due_.push_back(entry.index);
    entry.next_attempt_ns = context_.now_ns + (overdue ? 10 : 1) * protocol.connect_retry_ns;
  }
  if (entry.state == State::kConnecting) next = std::min(next, entry.next_attempt_ns);
  return std::min(next, context_.now_ns + protocol.connect_timeout_ns);
}

// --- Answers ---------------------------------------------------------------------------------------------------------

absl::Status SessionDialer::finish_connect(SessionId session, ByteSpan bytes) {
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

absl::Status SessionDialer::finish_channel(SessionEntry& entry, const KeyedRecord& record) {
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

absl::Status SessionDialer::on_answer(SessionEntry& entry, const SessionAnswer& answer) {
  const bool is_version =
      version_of(answer.version) > 0 && answer.version == common_version(answer.version, policy_.version_max());
  if (!is_version || answer.terms != policy_.common_terms(answer.terms)) {
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
  lives_.open(entry, answer.terms);
  // The first join comes after the ping, which tells the peer where to bind the session.
  if (entry.version >= kBundleVersion) entry.next_join_ns = context_.now_ns;
  context_.timers.set_earlier(entry.index,
                              std::min(entry.next_join_ns, context_.now_ns + context_.options.protocol.ping_after_ns));
  entry.session->send_ping();  // the peer may not know yet whose packets belong to the session
  return absl::OkStatus();
}

void SessionDialer::on_accept(const Arrival& arrival, PeerId from) {
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
