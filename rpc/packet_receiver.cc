#include "rpc/packet_receiver.h"

#include <algorithm>

#include "rpc/protocol/piece_run.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"
#include "rpc/session_binding.h"

namespace skua::rpc {
namespace {

/// Whether the packet says that it is only a part of a message. Small messages do not, and skip take_pieces().
bool is_piece(const RxPacket& packet) {
  return packet.header.size() == kHeaderBytes && message_bytes_of(packet.header.data()) > packet.payload.size() &&
         !packet.placed;
}

}  // namespace

static_assert(kPacketHeaderBytes == kHeaderBytes, "transports carry exactly the wire's header");

// --- Memory ----------------------------------------------------------------------------------------------------------

bool PacketReceiver::keep(const Arrival& arrival, Lease& lease) {
  if (arrival.payload.empty()) return true;
  const SessionEntry& entry = context_.sessions[arrival.header.session_index];
  if (bundles_.in_packet()) [[unlikely]] {
    LeaseParts parts;
    const bool is_kept = bundles_.keep(entry.session->hot(), arrival.payload, parts);
    lease = Lease(parts);
    return is_kept;
  }
  if (current_->placed) {
    current_kept_ = true;
    memory_.lend_placed(arrival.payload, current_->placement, lease);
    return true;
  }
  const bool lendable = current_->buffer != kNoBuffer;
  if (!lendable || !memory_.may_lend()) [[unlikely]] {
    const bool is_request = arrival.header.type == PacketType::kRequest;
    const LeaseParts copy = memory_.copy_out(memory_.payer_of(entry, current_->from, is_request), arrival.payload);
    lease = Lease(copy);
    if (copy.owner != nullptr) return true;
    // There is no memory for a copy. Lending above the watermark is better than losing the packet.
    if (!lendable) return false;
  }
  if (mutant(Mutant::kReleaseLeaseEarly)) {
    lease.fill(arrival.payload, nullptr, 0);
    return true;
  }
  current_kept_ = true;
  memory_.lend(arrival.payload, current_->buffer, lease);
  return true;
}

RxPlacer::Placement PacketReceiver::place(PeerId from, ByteSpan header, size_t payload_bytes) {
  const DecodedHeader decoded = decode_header(header);
  if (!decoded.ok || decoded.header.message_bytes != payload_bytes) return {};
  const PacketHeader& h = decoded.header;
  const SessionEntry* entry = context_.sessions.at(h.session_index);
  if (entry == nullptr || entry->state != SessionEntry::State::kOpen ||
      entry->wire_generation != h.session_generation ||
      (entry->peer != from && !SessionBinding::is_lost_peer(*entry, from)) || !entry->session->expects(h)) {
    return {};
  }
  const Placement out = memory_.place(memory_.payer_of(*entry, from, h.type == PacketType::kRequest), payload_bytes);
  if (out.to == nullptr) entry->session->on_unplaceable(h, context_.now_ns);
  return out;
}

// --- Packets ---------------------------------------------------------------------------------------------------------

void PacketReceiver::dispatch(size_t count) {
  const std::span<RxPacket> packets = std::span(received_).first(count);
  const bool are_many_peers = packets.size() > 1 && packets[0].from != packets[1].from;
  receive_max_ = are_many_peers ? kBurstMax : kBurstMax / 2;
  if (are_many_peers) bundles_.look_ahead(packets);
  const bool has_frames = context_.capabilities.frames;
  for (size_t at = 0; at < packets.size();) {
    if (has_frames && is_bundle(packets[at].header.data())) [[likely]] {
      bundles_.on_packet(packets, at++, are_many_peers);
      continue;
    }
    size_t taken = is_piece(packets[at]) ? take_pieces(packets.subspan(at)) : 0;
    if (taken == 0) {
      dispatch(packets[at]);
      taken = 1;
    }
    at += taken;
  }
}

/// Takes pieces that follow each other in a message that has begun to arrive. They are copied and checked in one pass:
/// a damaged piece may be copied, because it is overwritten when it comes again. Returns how many packets it took. 0:
/// the first packet has to be dispatched like all others.
size_t PacketReceiver::take_pieces(std::span<RxPacket> packets) {
  const RxPacket& front = packets.front();
  PacketHeader header;
  PieceRun run;
  if (!decode_header(front.header, header)) return 0;
  const SessionEntry* entry = context_.sessions.at(header.session_index);
  if (entry == nullptr || entry->state != SessionEntry::State::kOpen ||
      entry->wire_generation != header.session_generation || entry->peer != front.from ||
      !entry->session->join(header, run)) {
    return 0;
  }
  const auto first = internal::HeaderWords::load(front.header.data());
  constexpr uint64_t kBytesAndIndex = (uint64_t{1} << 48) - 1;
  const auto count_max = static_cast<uint32_t>(std::min<size_t>(packets.size(), run.count_max));
  const bool sealed = !context_.capabilities.integrity && entry->session->is_sealed();
  uint32_t count = 0;
  bool is_intact = true;
  for (; count < count_max; ++count) {
    const RxPacket& packet = packets[count];
    const auto words = internal::HeaderWords::load(packet.header.data());
    const bool is_next = words.first == first.first && words.second == first.second &&
                         (words.third & kBytesAndIndex) == (first.third & kBytesAndIndex) + (uint64_t{count} << 32) &&
                         packet.from == front.from && packet.payload.size() == run.bytes(count);
    if (!is_next) break;
    if (sealed) {
      const uint32_t crc = crc32c_copy(words.crc(nullptr, 0), packet.payload, run.place(count));
      is_intact = crc == load_le<uint32_t>(packet.header.data() + internal::kCrcOffset);
    } else {
      copy_bytes(run.place(count), packet.payload);
    }
    if (packet.buffer != kNoBuffer) memory_.release(packet.buffer);
    if (!is_intact) [[unlikely]] {
      context_.count_drop(DropReason::kBadChecksum);
      break;
    }
    words.store(header);
  }
  if (count > 0) entry->session->take_run(header, run, count, context_.now_ns);
  return is_intact ? count : count + 1;
}

/// A checksum of 0 says that the packet has none. This is accepted for sessions without checksums, and for unknown
/// sessions: a peer that still uses a session from before this endpoint's restart has to be told so.
bool PacketReceiver::is_unsealed(const RxPacket& packet, const PacketHeader& header, const SessionEntry* entry) const {
  if (load_le<uint32_t>(packet.header.data() + internal::kCrcOffset) != 0) return false;
  const bool is_known =
      entry != nullptr && entry->session != nullptr && entry->wire_generation == header.session_generation;
  return is_known ? !entry->session->is_sealed() : is_for_session(header.type);
}

void PacketReceiver::dispatch(RxPacket& packet) {
  current_ = &packet;
  current_kept_ = false;
  Arrival arrival;
  if (!decode_header(packet.header, arrival.header)) [[unlikely]] {
    context_.count_drop(decode_header(packet.header).reason);
  } else if (SessionEntry* entry = context_.sessions.at(arrival.header.session_index);
             !context_.capabilities.integrity && !verify_checksum(packet.header, packet.payload) &&
             !is_unsealed(packet, arrival.header, entry)) [[unlikely]] {
    context_.count_drop(DropReason::kBadChecksum);
  } else {
    arrival.payload = packet.payload;
    const PacketHeader& header = arrival.header;
    if (entry != nullptr && entry->state == SessionEntry::State::kOpen &&
        entry->wire_generation == header.session_generation && entry->peer == packet.from &&
        is_for_session(header.type)) [[likely]] {
      entry->session->on_packet(arrival, context_.now_ns);
    } else {
      strays_.dispatch(arrival, packet.from);
    }
  }
  if (!current_kept_) discard_current();
  current_ = nullptr;
}

void PacketReceiver::discard_current() {
  if (current_->placed) {
    memory_.abandon(current_->placement);
  } else if (current_->buffer != kNoBuffer) {
    memory_.release(current_->buffer);
  }
}

}  // namespace skua::rpc
