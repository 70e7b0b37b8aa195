#include "rpc/bundles.h"

#include <algorithm>
#include <utility>

#include "rpc/endpoint_impl.h"

namespace skua::rpc {

Bundles::Bundles(EndpointImpl& endpoint, EndpointContext& context, ReceiveMemory& memory, IncomingCalls& incoming)
    : endpoint_(endpoint),
      context_(context),
      memory_(memory),
      incoming_(incoming),
      transport_(context.transport),
      integrity_(context.capabilities.integrity),
      is_stream_(context.capabilities.reliable),
      leases_(memory),
      calls_(*this, context.options.protocol) {
  gather(false);
}

// Inline, and defined before their users, because each small call runs this code.

void Bundles::deliver(SessionHot& hot, RawRecord record, LeaseParts request) {
  if (!incoming_.deliver_small(hot, record, time_of(record.time()), request)) [[unlikely]] {
    Lease(request).reset();
    refuse(hot, record.number, record.method());
  }
}

void Bundles::complete(CompletionFn& completion, LeaseParts response) {
  CallOutcome outcome;
  outcome.response.fill(response.bytes, response.owner, response.cookie);
  outcome.from_peer = outcome.may_have_executed = true;
  // Handlers may have gathered requests of this burst. They answer before this completion can free what they gathered.
  if (incoming_.has_gathered()) [[unlikely]] {
    burst_end();
  }
  ++context_.counters.calls_completed;
  if (!completion) return;
  completion(std::move(outcome));
}

/// Refuses the request as a large call's is refused: with an answer that says why.
void Bundles::refuse(SessionHot& hot, uint32_t number, uint8_t method) {
  ArrivedRequest arrived;
  arrived.slot = number & hot.mask;
  arrived.req_num = number;
  arrived.method = method;
  incoming_.deliver(session_of(hot), std::move(arrived));
}

/// Prefetches the sessions. fetch_for() follows the chain of pointers from there, step by step.
void Bundles::look_ahead(std::span<const RxPacket> burst) {
  for (size_t i = 0; i < burst.size(); ++i) {
    const RxPacket& packet = burst[i];
    ahead_[i] = {};
    if (packet.payload.size() < sizeof(uint32_t)) continue;  // it has no record
    ahead_[i].session = index_of_handle(load_le<uint32_t>(packet.header.data() + kBundleHeadBytes));
    ahead_[i].number = load_le<uint32_t>(packet.payload.data());
    __builtin_prefetch(&hot(ahead_[i].session), 1);
  }
}

/// Prefetches for the next packets: what the session of the packet two ahead points at, and what that in turn points at
/// for the next packet.
void Bundles::fetch_for(size_t at, size_t count) const {
  if (at + 2 < count) {
    const SessionHot& hot = this->hot(ahead_[at + 2].session);
    if (hot.association != nullptr) {
      __builtin_prefetch(hot.association, 1);
      __builtin_prefetch(reinterpret_cast<const std::byte*>(hot.association) + 64, 1);
    }
    if (hot.client != nullptr) __builtin_prefetch(hot.server() + (ahead_[at + 2].number & hot.mask), 1);
  }
  if (at + 1 < count) {
    const SessionHot& hot = this->hot(ahead_[at + 1].session);
    if (hot.association != nullptr) __builtin_prefetch(hot.association->sent.get(), 1);
  }
}

void Bundles::on_packet(std::span<const RxPacket> burst, size_t at, bool of_many) {
  const RxPacket& packet = burst[at];
  if (packet.payload.empty()) [[unlikely]] {  // the header's place alone cannot hold a record
    if (packet.buffer != kNoBuffer) memory_.release(packet.buffer);
    return drop(DropReason::kTooShort);
  }
  SKUA_CHECK(packet.header.data() + packet.header.size() == packet.payload.data(),
             "the transport gave a bundle in two pieces");
  if (of_many) fetch_for(at, burst.size());
  leases_.begin(packet.buffer);
  in_packet_ = true;
  current_is_lendable_ = packet.buffer != kNoBuffer;
  current_lends_ = current_is_lendable_ && memory_.may_lend();
  current_from_ = packet.from;
  waits_for_others_ = of_many && at + 1 < burst.size();
  calls_.on_bundle({packet.header.data(), packet.header.size() + packet.payload.size()}, packet.from);
  in_packet_ = false;
  leases_.end();
  context_.counters.rx_zero_copy_bytes += std::exchange(zero_copy_bytes_, 0);
}

LeaseParts Bundles::copy_out(const SessionHot& hot, ByteSpan bytes) {
  return memory_.copy_out(memory_.payer_of(context_.sessions[index_of_handle(hot.handle)], current_from_), bytes);
}

void Bundles::flush() {
  if (out_count_ == 0) return;
  context_.counters.packets_sent += out_count_;
  transport_.send_frames(std::span(out_).first(std::exchange(out_count_, 0)));
}

// --- Calls -----------------------------------------------------------------------------------------------------------

Session& Bundles::session_of(const SessionHot& hot) {
  return *context_.sessions[index_of_handle(hot.handle)].session;
}

void Bundles::arm(SessionHot& hot, Ticks by) {
  session_of(hot).arm_small(by, context_.now_ns);
}

void Bundles::make_slots(SessionHot& hot) {
  session_of(hot).make_slots();
}

bool Bundles::yield_slot(SessionHot& hot, uint32_t number) {
  return session_of(hot).yield_slot(number);
}

void Bundles::on_larger_answer(SessionHot& hot, uint32_t bytes) {
  session_of(hot).charge_for(bytes);
}

void Bundles::on_slot_freed(SessionHot& hot) {
  session_of(hot).on_slot_freed(context_.now_ns);
}

/// The call has become a large one meanwhile; the answer still completes it.
void Bundles::on_late_answer(SessionHot& hot, RawRecord record, ByteSpan bytes, Ticks echo) {
  Arrival arrival;
  arrival.header.type = PacketType::kResponse;
  arrival.header.session_index = index_of_handle(hot.handle);
  arrival.header.req_num = record.number;
  arrival.header.message_bytes = record.bytes();
  arrival.header.stamp = echo;
  arrival.payload = bytes;
  session_of(hot).on_packet(arrival, context_.now_ns);
}

void Bundles::on_sample(SessionHot& hot, Ticks delay, uint32_t answers, uint32_t record_bytes) {
  session_of(hot).on_small_sample(delay * kTickNs, answers, record_bytes, context_.now_ns);
}

void Bundles::count_retransmit() {
  ++context_.counters.retransmits;
}

void Bundles::drop(DropReason reason) {
  context_.count_drop(reason);
}

// --- Joining ---------------------------------------------------------------------------------------------------------

void Bundles::join(SessionEntry& entry) {
  // The peer had answered a join of this association before, so the association existed at the peer.
  const bool was_there = entry.association != nullptr && entry.association->remote_index != kNoAssociation;
  if (was_there && entry.joins_unanswered >= kJoinsPerAssociation) {
    associations_.retire(*entry.association);
    leave(entry);
  }
  entry.next_join_ns = context_.now_ns + context_.options.protocol.connect_retry_ns;
  ++entry.joins_unanswered;
  if (entry.association == nullptr) {
    Association* ours = associations_.to(entry.peer);
    if (ours == nullptr) ours = &associations_.make_own(entry.peer, static_cast<uint32_t>(context_.secret()));
    enter(entry, *ours);
  }
  Association& a = *entry.association;
  std::byte* at = calls_.writer().write(
      a, {.session = 0, .number = entry.remote_index, .bytes = JoinRecord::kBytes, .kind = RecordKind::kJoin});
  if (at == nullptr) {
    // There is no room, or the connection is still being made.
    entry.next_join_ns = context_.now_ns + context_.options.protocol.connect_retry_ns / 20;
    return;
  }
  JoinRecord{entry.remote_generation, a.index, a.epoch, entry.session->hot().handle}.write(at);
}

/// Counts the session in the association, which ends when its count is zero.
void Bundles::enter(SessionEntry& entry, Association& a) {
  const auto bytes = static_cast<uint32_t>(kPacketHeaderBytes) + entry.session->terms().payload_bytes;
  a.bundle_bytes_max = a.session_count == 0 ? bytes : std::min(a.bundle_bytes_max, bytes);
  // A stream loses nothing: small calls are not repeated, but ask after this time whether the peer lives, like others.
  if (a.session_count++ == 0)
    a.probe_ticks =
        to_ticks(is_stream_ ? context_.options.protocol.ping_after_ns : context_.options.protocol.rto_initial_ns);
  entry.association = &a;
}

/// Starts to remember what the association's bundles carry, if the wire may lose them.
void Bundles::remember(Association& a) {
  if (!is_stream_ && a.sent == nullptr) a.sent = std::make_unique<SentBundles>();
}

void Bundles::leave(SessionEntry& entry) {
  entry.next_join_ns = kTimeNever;
  entry.joins_unanswered = 0;
  Association* a = std::exchange(entry.association, nullptr);
  if (a == nullptr) return;
  entry.session->give_up_small(context_.now_ns);
  SessionHot& hot = entry.session->hot();
  hot.hinder(SessionHot::kNotJoined, true);
  hot.association = nullptr;
  if (entry.session->is_open()) entry.session->on_association_left(context_.now_ns);
  if (--a->session_count > 0) return;
  calls_.writer().finish(*a);
  associations_.end(*a);
}

void Bundles::on_join(const BundleHead& head, RawRecord record, ByteSpan bytes, PeerId from) {
  JoinRecord join;
  if (!JoinRecord::read(bytes, join)) return drop(DropReason::kBadLength);
  if (record.is(RecordKind::kJoin)) return on_join_request(head, record, join, from);
  // A completion of an earlier record may have ended the association, so it is looked up again.
  on_joined(record, join, associations_.find(head.association, head.epoch, from));
}

void Bundles::on_join_request(const BundleHead& head, RawRecord record, const JoinRecord& join, PeerId from) {
  SessionEntry* named = context_.sessions.at(record.number);
  if (named == nullptr) return drop(DropReason::kUnknownSession);
  SessionEntry& entry = *named;
  const bool is_open = entry.state == SessionEntry::State::kOpen && !entry.initiator && entry.version >= kBundleVersion;
  if (!is_open || entry.wire_generation != join.generation) return drop(DropReason::kOldGeneration);
  // Like every packet that names the session's generation, a join may bind the session to its sender.
  if (SessionBinding::is_lost_peer(entry, from) && !endpoint_.binding_.bind_again(entry, from)) return;
  if (entry.peer != from || from == kNoPeer) return drop(DropReason::kForeignSender);
  Association* a = associations_.of(from, join.association, join.epoch);
  SessionHot& hot = entry.session->hot();
  if (entry.association != nullptr && entry.association != a) {
    if (static_cast<int32_t>(head.stamp - entry.join_stamp) <= 0) return drop(DropReason::kDuplicate);
    leave(entry);
    entry.session->on_link_lost(context_.now_ns);  // what was sent through the old association is not received there
  }
  entry.join_stamp = head.stamp;
  if (entry.association == nullptr) {
    if (a == nullptr) {
      a = &associations_.make_accepted(from, join.association, join.epoch, static_cast<uint32_t>(context_.secret()));
    }
    enter(entry, *a);
  }
  std::byte* at = calls_.writer().write(
      *a, {.session = join.session, .number = 0, .bytes = JoinRecord::kBytes, .kind = RecordKind::kJoined});
  if (at == nullptr) return;  // no room for the answer: the peer asks again, and takes no records until then
  JoinRecord{entry.remote_generation, a->index, a->epoch, hot.handle}.write(at);
  hot.remote_handle = join.session;
  hot.association = a;
  remember(*a);
  hot.heard = to_ticks(context_.now_ns);
  hot.hinder(SessionHot::kNotJoined, false);
}

void Bundles::on_joined(RawRecord record, const JoinRecord& join, Association* a) {
  SessionHot& joined = hot(index_of_handle(record.session));
  const bool is_session = &joined != &nobody_ && joined.handle == record.session;
  if (a == nullptr || !a->is_ours || !is_session) return drop(DropReason::kUnknownAssociation);
  SessionEntry& entry = context_.sessions[index_of_handle(record.session)];
  if (entry.state != SessionEntry::State::kOpen || entry.association != a || entry.wire_generation != join.generation) {
    return drop(DropReason::kOldGeneration);
  }
  if (joined.association == a) return drop(DropReason::kDuplicate);
  a->remote_index = join.association;
  a->remote_epoch = join.epoch;
  entry.next_join_ns = kTimeNever;
  joined.remote_handle = join.session;
  joined.association = a;
  remember(*a);
  joined.hinder(SessionHot::kNotJoined, false);
}

}  // namespace skua::rpc
