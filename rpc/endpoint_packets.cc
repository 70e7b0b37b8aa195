// Receive and transmit: between transport bursts and sessions.
#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/endpoint_impl.h"
#include "rpc/protocol/mutants.h"

namespace skua::rpc {

static_assert(kPacketHeaderBytes == kHeaderBytes, "transports carry exactly the wire's header");
static_assert(kTxSegmentsMax == Message::kBodiesMax + 1, "a whole message fits one packet's segments");

// --- Lent memory -----------------------------------------------------------------------------------------------------

void EndpointImpl::TransportLeases::return_lease(uint64_t cookie) {
  endpoint_.check_thread();
  --endpoint_.lent_count_;
  endpoint_.release_buffer(cookie);
}

void EndpointImpl::PoolLeases::return_lease(uint64_t cookie) {
  endpoint_.check_thread();
  Held& held = held_[cookie];
  shares_.give(held.payer, held.buffer.capacity());
  held.buffer.reset();
  free_.push_back(static_cast<uint32_t>(cookie));
}

uint64_t EndpointImpl::PoolLeases::hold(Buffer buffer, const Payer& payer) {
  shares_.take(payer, buffer.capacity());
  if (free_.empty()) {
    held_.push_back({std::move(buffer), payer});
    return held_.size() - 1;
  }
  const uint32_t cookie = free_.back();
  free_.pop_back();
  held_[cookie] = {std::move(buffer), payer};
  return cookie;
}

void EndpointImpl::flush_releases() {
  if (to_release_count_ == 0) return;
  transport_.release(std::span(to_release_).first(to_release_count_));
  to_release_count_ = 0;
}

bool EndpointImpl::copy_out(const Arrival& arrival, Lease& lease) {
  const ByteSpan payload = arrival.payload;
  std::optional<Assembly> copy =
      allocate_for(payer_of(*entries_[arrival.header.session_index], current_->from), payload.size());
  if (!copy.has_value()) return false;
  copy_bytes(copy->data, payload);
  counters_.rx_copied_bytes += payload.size();
  ++counters_.leases_copied_out;
  lease = std::move(copy->lease);
  return true;
}

bool EndpointImpl::keep(const Arrival& arrival, Lease& lease) {
  if (arrival.payload.empty()) return true;
  if (bundles_.in_packet()) [[unlikely]] {
    return bundles_.keep(entries_[arrival.header.session_index]->session->hot(), arrival.payload, lease);
  }
  if (current_->placed) {
    current_kept_ = true;
    counters_.rx_zero_copy_bytes += arrival.payload.size();
    lease.fill(arrival.payload, &pool_leases_, current_->placement);
    return true;
  }
  const bool lendable = current_->buffer != kNoBuffer;
  if (!lendable || lent_count_ >= lent_watermark_) [[unlikely]] {
    if (copy_out(arrival, lease)) return true;
    // Without memory to copy to, lending above the watermark is the lesser evil.
    if (!lendable) return false;
  }
  counters_.rx_zero_copy_bytes += arrival.payload.size();
  if (mutant(Mutant::kReleaseLeaseEarly)) {
    lease.fill(arrival.payload, nullptr, 0);
    return true;
  }
  current_kept_ = true;
  ++lent_count_;
  lease.fill(arrival.payload, &transport_leases_, current_->buffer);
  return true;
}

std::optional<Assembly> EndpointImpl::assemble(const Session& session, size_t bytes) {
  const SessionEntry& entry = *entries_[session.address().local_index];
  return allocate_for(payer_of(entry, entry.peer), bytes);
}

std::optional<Assembly> EndpointImpl::allocate_for(const Payer& payer, size_t bytes) {
  if (!pool_leases_.shares().may_take(payer, bytes)) return std::nullopt;
  absl::StatusOr<Buffer> buffer = buffers_.allocate(bytes);
  if (!buffer.ok()) return std::nullopt;
  Assembly out;
  out.data = buffer->data();
  const uint64_t cookie = pool_leases_.hold(*std::move(buffer), payer);
  out.lease = Lease({out.data, bytes}, &pool_leases_, cookie);
  return out;
}

Payer EndpointImpl::payer_of(const SessionEntry& entry, PeerId from) const {
  if (entry.initiator || from == kNoPeer || from == kUnbound) return {};
  return {.peer = from,
          .host = transport_.host_of(from),
          .is_node = may_have_reserved_ && may_have_reserved_(entry.identity)};
}

RxPlacer::Placement EndpointImpl::place(PeerId from, ByteSpan header, size_t payload_bytes) {
  const DecodedHeader decoded = decode_header(header);
  if (!decoded.ok || decoded.header.message_bytes != payload_bytes) return {};
  const PacketHeader& h = decoded.header;
  if (h.session_index >= entries_.size()) return {};
  const SessionEntry& entry = *entries_[h.session_index];
  if (entry.state != SessionEntry::State::kOpen || entry.wire_generation != h.session_generation ||
      (entry.peer != from && !is_lost_peer(entry, from)) || !entry.session->expects(h)) {
    return {};
  }
  const Payer payer = payer_of(entry, from);
  absl::StatusOr<Buffer> buffer =
      pool_leases_.shares().may_take(payer, payload_bytes) ? buffers_.allocate(payload_bytes) : Buffer();
  if (!buffer.ok() || buffer->data() == nullptr) {
    entry.session->on_unplaceable(h, now_ns_);
    return {};
  }
  Placement out;
  out.to = buffer->data();
  out.cookie = pool_leases_.hold(*std::move(buffer), payer);
  return out;
}

void EndpointImpl::abandon(uint64_t cookie) {
  pool_leases_.return_lease(cookie);
}

// --- Receive ---------------------------------------------------------------------------------------------------------

void EndpointImpl::dispatch(RxPacket& packet) {
  if (is_bundle(packet.header.data()) && capabilities_.frames) [[likely]] {
    return bundles_.on_packet(packet);
  }
  current_ = &packet;
  current_kept_ = false;
  Arrival arrival;
  if (!decode_header(packet.header, arrival.header)) [[unlikely]] {
    count_drop(decode_header(packet.header).reason);
  } else if (!capabilities_.integrity && !verify_checksum(packet.header, packet.payload)) [[unlikely]] {
    count_drop(DropReason::kBadChecksum);
  } else {
    arrival.payload = packet.payload;
    const PacketHeader& header = arrival.header;
    SessionEntry* entry = header.session_index < entries_.size() ? entries_[header.session_index].get() : nullptr;
    if (entry != nullptr && entry->state == SessionEntry::State::kOpen &&
        entry->wire_generation == header.session_generation && entry->peer == packet.from &&
        is_for_session(header.type)) [[likely]] {
      entry->session->on_packet(arrival, now_ns_);
    } else {
      dispatch_aside(arrival, packet.from);
    }
  }
  if (!current_kept_) discard_current();
  current_ = nullptr;
}

void EndpointImpl::discard_current() {
  if (current_->placed) {
    pool_leases_.return_lease(current_->placement);
  } else if (current_->buffer != kNoBuffer) {
    release_buffer(current_->buffer);
  }
}

/// May a packet from `from` that names the session's generation bind the session?
bool EndpointImpl::is_lost_peer(const SessionEntry& entry, PeerId from) {
  return entry.state == SessionEntry::State::kOpen && !entry.initiator && entry.peer == kUnbound && from != kNoPeer &&
         (entry.claimed == kNoPeer || entry.claimed == from);
}

/// Whoever waits for an answer learns that the session is none here.
void EndpointImpl::tell_unknown(const PacketHeader& header, PeerId from) {
  const bool asks =
      header.type == PacketType::kRequest || header.type == PacketType::kPull || header.type == PacketType::kPing;
  if (!asks || from == kNoPeer) return;
  PacketHeader reply;
  reply.type = PacketType::kUnknownSession;
  reply.session_index = header.session_index;
  reply.session_generation = header.session_generation;
  send_control(from, reply, {});
}

/// Packets that are not for an open session that is bound to their sender.
void EndpointImpl::dispatch_aside(const Arrival& arrival, PeerId from) {
  const PacketHeader& header = arrival.header;
  if (header.type == PacketType::kConnect || header.type == PacketType::kAccept ||
      header.type == PacketType::kUnknownSession) {
    return dispatch_control(arrival, from);
  }
  SessionEntry* entry = header.session_index < entries_.size() ? entries_[header.session_index].get() : nullptr;
  const bool known = entry != nullptr && entry->wire_generation == header.session_generation &&
                     (entry->state == SessionEntry::State::kOpen || entry->state == SessionEntry::State::kConnecting ||
                      entry->state == SessionEntry::State::kAwaitingAnswer);
  if (!known) {
    count_drop(entry == nullptr ? DropReason::kUnknownSession : DropReason::kOldGeneration);
    return tell_unknown(header, from);
  }
  if (is_lost_peer(*entry, from)) {
    if (!bind_again(*entry, from)) return tell_unknown(header, from);
    if (is_for_session(header.type)) return entry->session->on_packet(arrival, now_ns_);
  }
  // Whoever has seen a session's packets knows its numbers: they prove nothing. Not answered, because the answer would end a session.
  if (entry->peer != from) return count_drop(DropReason::kForeignSender);
  if (entry->state != SessionEntry::State::kOpen) return count_drop(DropReason::kNotReady);
  doom(*entry, absl::UnavailableError("the peer closed the session"));  // what is left: kDisconnect
}

// --- Transmit --------------------------------------------------------------------------------------------------------

void EndpointImpl::mark_ready(Session& session) {
  if (!session.ready_hook.linked()) ready_.push_back(session);
}

PacketSink* EndpointImpl::express(const Session& session) {
  // Not past sessions that wait for the wire, not to a peer that takes nothing now (its packets would hold up the burst), and not
  // from a body's release while the burst is being counted off.
  if (flushing_ || !ready_.empty() || !has_room_for(session)) return nullptr;
  return has_room() || flush_staged() > 0 ? this : nullptr;
}

void EndpointImpl::emit(const Session& session, const PacketHeader& header, const MessagePtr& payload, size_t offset,
                        size_t length) {
  stage(session.route(), header, payload, offset, length);
}

void EndpointImpl::stage(PeerId peer, const PacketHeader& header, const MessagePtr& payload, size_t offset,
                         size_t length) {
  SKUA_CHECK(has_room(), "a packet was emitted without room in the burst");
  TxPacket& packet = staged_[staged_count_++];
  packet.peer = peer;
  packet.done = false;
  packet.payload_bytes = static_cast<uint32_t>(length);
  size_t segments = 0;
  packet.token = kNoToken;
  if (length > 0) {
    segments = payload->slice(offset, length, packet.segments);
    packet.token = reinterpret_cast<uintptr_t>(MessagePtr(payload).leak());
  }
  packet.segment_count = static_cast<uint8_t>(segments);
  if (capabilities_.integrity) {
    encode_header(header, packet.header.data());
  } else {
    encode_sealed_header(header, packet.segments.data(), segments, packet.header.data());
  }
}

void EndpointImpl::send_control(PeerId peer, const PacketHeader& header, ByteSpan payload) {
  // Control packets are repeated by whoever needs them; one that finds no room is as good as lost.
  if (!transport_.has_room(peer) || (!has_room() && flush_staged() == 0)) return;
  MessagePtr message = make_message();
  message->append_copy(payload);
  stage(peer, header, message, 0, payload.size());
}

size_t EndpointImpl::flush_staged() {
  if (staged_count_ == 0) return 0;
  flushing_ = true;
  const size_t taken = transport_.tx_burst(std::span(staged_).first(staged_count_));
  for (size_t i = 0; i < taken; ++i) {
    if (staged_[i].token == kNoToken) continue;
    if (staged_[i].done || mutant(Mutant::kFreeBeforeTxDone)) {
      let_go(staged_[i].token);
    } else {
      ++in_wire_count_;  // until reap()
    }
  }
  counters_.packets_sent += taken;
  if (taken < staged_count_) {
    std::copy(staged_.begin() + taken, staged_.begin() + staged_count_, staged_.begin());
  }
  staged_count_ -= taken;
  flushing_ = false;
  return taken;
}

void EndpointImpl::send_offers() {
  for (uint32_t index : std::exchange(offers_due_, {})) {
    SessionEntry& entry = *entries_[index];
    if (!std::exchange(entry.offer_due, false) || entry.state != SessionEntry::State::kConnecting) continue;
    PacketHeader header;
    header.type = PacketType::kConnect;
    header.session_index = UINT32_MAX;
    send_control(entry.peer, header, as_byte_span(make_offer(entry)));
  }
}

size_t EndpointImpl::transmit() {
  size_t sent = 0;
  bundles_.send_all();
  if (!offers_due_.empty()) send_offers();
  for (Session* session = parked_.empty() ? nullptr : &parked_.front(); session != nullptr;) {
    Session* next = parked_.next(*session);
    if (has_room_for(*session)) {
      session->ready_hook.unlink();
      ready_.push_back(*session);
    }
    session = next;
  }
  while (!ready_.empty()) {
    Session& session = ready_.front();
    session.ready_hook.unlink();
    if (!has_room_for(session)) {
      parked_.push_back(session);
      continue;
    }
    // One burst each, in turn.
    if (session.transmit(*this, now_ns_)) ready_.push_back(session);
    if (!has_room()) {
      const size_t taken = flush_staged();
      sent += taken;
      if (taken == 0) return sent;
    }
  }
  sent += flush_staged();
  bundles_.send_all();
  return sent;
}

void EndpointImpl::reap() {
  if (!capabilities_.tx_completion || in_wire_count_ == 0) return;
  std::array<TxToken, kBurstMax> tokens;
  while (const size_t count = transport_.reap(tokens)) {
    for (size_t i = 0; i < count; ++i) {
      if (mutant(Mutant::kFreeBeforeTxDone)) continue;
      --in_wire_count_;
      let_go(tokens[i]);
    }
    if (count < tokens.size()) break;
  }
}

}  // namespace skua::rpc
