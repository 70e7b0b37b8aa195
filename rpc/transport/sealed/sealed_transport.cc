#include "rpc/transport/sealed/sealed_transport.h"

#include <algorithm>
#include <utility>

#include "rpc/base/check.h"
#include "rpc/transport/sealed/keyless_checksum.h"
#include "rpc/transport/sealed/seal_mutants.h"

namespace skua::rpc {
namespace {

/// What the endpoint sees of the wire.
Capabilities with_seals(Capabilities wire) {
  SKUA_CHECK(wire.frames, "a transport without frames cannot carry sealed ones");
  const uint32_t packet_bytes =
      std::min(wire.payload_max_bytes, wire.frame_max_bytes - static_cast<uint32_t>(kSealedHeadBytes));
  wire.payload_max_bytes = packet_bytes - static_cast<uint32_t>(kPacketHeaderBytes);
  wire.segments_max = kTxSegmentsMax;
  wire.inline_max_bytes = 0;
  wire.integrity = true;
  wire.tx_completion = false;
  wire.needs_registration = false;
  wire.one_sided = false;
  wire.keyed = true;
  return wire;
}

}  // namespace

SealedTransport::SealedTransport(std::shared_ptr<Transport> wire, const Clock& clock, SealedOptions options)
    : wire_(std::move(wire)),
      clock_(clock),
      options_(std::move(options)),
      capabilities_(with_seals(wire_->capabilities())),
      needs_checksums_(!wire_->capabilities().integrity),
      keyed_shares_(ChannelLimits::of(options_.channels_max, options_.unproven_after_ns)),
      keyless_shares_(ChannelLimits::of_keyless(options_.channels_max, options_.unproven_after_ns)) {
  wire_->set_peer_use(this);
}

const TransportCounters& SealedTransport::counters() const {
  counters_ = wire_->counters();
  counters_.rx_dropped += sealed_.refused();
  return counters_;
}

uint32_t SealedTransport::payload_max_bytes(PeerId peer) const {
  const PeerId wire = channels_[peer].wire;
  if (wire == kNoPeer) return capabilities_.payload_max_bytes;
  constexpr uint32_t kHeads = kPacketHeaderBytes;  // the packet's own header is sealed with it
  return std::min(capabilities_.payload_max_bytes, wire_->payload_max_bytes(wire) - kHeads);
}

uint64_t SealedTransport::host_of(PeerId peer) const {
  const Channel& channel = channels_[peer];
  if (channel.kind == Kind::kAccepted) return channel.origin.source;
  const PeerId wire = channel.is_keyless() ? channel.frames_of : channel.wire;
  return wire == kNoPeer ? 0 : wire_->host_of(wire);
}

// --- Sending ---------------------------------------------------------------------------------------------------------

uint32_t SealedTransport::write(Channel& channel, std::span<const ByteSpan> pieces, std::byte* frame) {
  if (!channel.is_keyless()) [[likely]] {
    return seal(channel, pieces, frame);
  }
  uint32_t bytes = 0;
  for (const ByteSpan piece : pieces) {
    copy_bytes(frame + bytes, piece);
    bytes += static_cast<uint32_t>(piece.size());
  }
  if (needs_checksums_) add_checksum({frame, bytes});
  return bytes;
}

uint32_t SealedTransport::seal(Channel& channel, std::span<const ByteSpan> pieces, std::byte* frame) {
  if (channel.keys == nullptr) return 0;
  ChannelKeys& keys = *channel.keys;
  const uint32_t bytes =
      keys.sealer.seal(channel.remote, static_cast<uint8_t>(keys.opener.generation()), pieces, frame);
  if (bytes > 0) {
    ++sealed_.sealed;
  } else if (!std::exchange(channel.is_used_up, true)) {
    const auto id = static_cast<PeerId>(&channel - channels_.data());
    events_.push_back({id, LinkEvent::Kind::kRefused, {}, absl::UnavailableError("the channel is used up")});
  }
  return bytes;
}

uint64_t SealedTransport::progress(PeerId peer) const {
  const PeerId wire = channels_[peer].wire;
  return wire == kNoPeer ? 0 : wire_->progress(wire);
}

bool SealedTransport::has_room(PeerId peer) {
  const PeerId wire = channels_[peer].wire;
  if (wire == kNoPeer) return false;
  if (wire_->has_room(wire)) return true;
  // A wire may make room only while it is given packets.
  wire_->tx_burst({});
  return wire_->has_room(wire);
}

/// Writes a packet into memory of its own. False: the wire takes no packet now.
bool SealedTransport::send_loose(Channel& channel, const TxPacket& packet) {
  if (!wire_->has_room(channel.wire)) return false;
  const size_t bytes = channel.head_bytes() + kPacketHeaderBytes + packet.payload_bytes;
  auto memory = std::make_unique<std::byte[]>(bytes);
  std::array<ByteSpan, kTxSegmentsMax + 1> pieces = {packet.header};
  std::copy_n(packet.segments.begin(), packet.segment_count, pieces.begin() + 1);
  if (write(channel, std::span(pieces).first(size_t{1} + packet.segment_count), memory.get()) == 0) return true;
  TxPacket sealed;
  sealed.peer = channel.wire;
  sealed.token = next_token_++;
  // To the wire, the first bytes are the header, whether they are a seal's head or a packet's.
  static_assert(kSealedHeadBytes == kPacketHeaderBytes);
  copy_bytes(sealed.header.data(), {memory.get(), kPacketHeaderBytes});
  sealed.segments[0] = {memory.get() + kPacketHeaderBytes, bytes - kPacketHeaderBytes};
  sealed.segment_count = 1;
  sealed.payload_bytes = static_cast<uint32_t>(sealed.segments[0].size());
  // A packet that is not taken is lost, as one on the way. A wire that loses nothing then lacks a frame number at the
  // receiver, which breaks the connection, so that the engine repeats.
  const bool is_read_later = wire_->tx_burst(std::span(&sealed, 1)) == 1 && !sealed.done;
  if (is_read_later) loose_[sealed.token] = std::move(memory);
  return true;
}

void SealedTransport::reap_loose() {
  std::array<TxToken, kBurstMax> tokens;
  while (const size_t count = loose_.empty() ? 0 : wire_->reap(tokens)) {
    for (size_t i = 0; i < count; ++i) loose_.erase(tokens[i]);
  }
}

void SealedTransport::abandon_tx() {
  wire_->abandon_tx();
  reap_loose();
}

size_t SealedTransport::tx_burst(std::span<TxPacket> packets) {
  if (!loose_.empty()) reap_loose();
  size_t count = 0;
  size_t taken = 0;
  for (; taken < packets.size(); ++taken) {
    TxPacket& packet = packets[taken];
    Channel& channel = channels_[packet.peer];
    // Without keys or an address the packet is lost, as on the way to a peer that is gone.
    packet.done = true;
    if (!channel.can_send()) continue;
    if (count == frames_.size()) {
      wire_->send_frames(std::span(frames_).first(count));
      count = 0;
    }
    TxFrame& frame = frames_[count] = wire_->take_frame(channel.wire);
    if (frame.bytes == nullptr) {
      // In order: what was sealed before goes first.
      wire_->send_frames(std::span(frames_).first(std::exchange(count, 0)));
      if (send_loose(channel, packet)) continue;
      packet.done = false;
      break;
    }
    ++count;
    // The path has shrunk.
    if (frame.room < channel.head_bytes() + kPacketHeaderBytes + packet.payload_bytes) continue;
    std::array<ByteSpan, kTxSegmentsMax + 1> pieces = {packet.header};
    std::copy_n(packet.segments.begin(), packet.segment_count, pieces.begin() + 1);
    frame.size = write(channel, std::span(pieces).first(size_t{1} + packet.segment_count), frame.bytes);
  }
  wire_->send_frames(std::span(frames_).first(count));
  return taken;
}

/// The engine writes behind the place of the head. Until the frame is sealed, that place holds the wire's peer.
TxFrame SealedTransport::take_frame(PeerId peer) {
  const Channel& channel = channels_[peer];
  if (!channel.can_send()) return {};
  TxFrame frame = wire_->take_frame(channel.wire);
  if (frame.bytes == nullptr) return {};
  if (channel.is_keyless()) [[unlikely]] {
    frame.peer = peer;
    return frame;
  }
  if (frame.room < kFrameRoomMin + kSealedHeadBytes) {
    wire_->send_frames(std::span(&frame, 1));
    return {};
  }
  store_le(frame.bytes, frame.peer);
  return {.peer = peer,
          .size = 0,
          .bytes = frame.bytes + kSealedHeadBytes,
          .room = frame.room - static_cast<uint32_t>(kSealedHeadBytes),
          .cookie = frame.cookie};
}

void SealedTransport::send_frames(std::span<const TxFrame> frames) {
  while (!frames.empty()) {
    const std::span<const TxFrame> some = frames.first(std::min(frames.size(), frames_.size()));
    for (size_t i = 0; i < some.size(); ++i) {
      if (const Channel& channel = channels_[some[i].peer]; channel.is_keyless()) [[unlikely]] {
        frames_[i] = some[i];
        frames_[i].peer = channel.frames_of;
        if (channel.wire == kNoPeer) frames_[i].size = 0;
        if (needs_checksums_ && frames_[i].size > 0) add_checksum({frames_[i].bytes, frames_[i].size});
        continue;
      }
      std::byte* const bytes = some[i].bytes - kSealedHeadBytes;
      frames_[i] = {.peer = load_le<PeerId>(bytes),
                    .size = 0,
                    .bytes = bytes,
                    .room = some[i].room + static_cast<uint32_t>(kSealedHeadBytes),
                    .cookie = some[i].cookie};
      const ByteSpan packet(some[i].bytes, some[i].size);
      if (!packet.empty()) frames_[i].size = seal(channels_[some[i].peer], std::span(&packet, 1), bytes);
    }
    wire_->send_frames(std::span(frames_).first(some.size()));
    frames = frames.subspan(some.size());
  }
}

// --- Receiving -------------------------------------------------------------------------------------------------------

size_t SealedTransport::rx_burst(std::span<RxPacket> packets) {
  const size_t received = wire_->rx_burst(packets);
  if (received == 0) return 0;
  // A connection that broke is known before frames of the next one are looked at.
  if (capabilities_.connected) gather_links();
  size_t kept = 0;
  for (size_t i = 0; i < received; ++i) {
    if (i + 1 < received) __builtin_prefetch(packets[i + 1].header.data());
    if (open(packets[i])) [[likely]] {
      if (kept != i) packets[kept] = packets[i];
      ++kept;
    } else if (packets[i].buffer != kNoBuffer) {
      wire_->release(std::span(&packets[i].buffer, 1));
    }
  }
  return kept;
}

namespace {

/// Frames lie in one piece.
bool is_whole(const RxPacket& packet) {
  return packet.header.size() == kSealedHeadBytes &&
         (packet.payload.empty() || packet.payload.data() == packet.header.data() + kSealedHeadBytes);
}

/// The packet as one piece. The wire lends memory that nobody else reads.
MutableByteSpan whole(const RxPacket& packet) {
  return {const_cast<std::byte*>(packet.header.data()), packet.header.size() + packet.payload.size()};  // NOLINT
}

}  // namespace

/// False: the packet is not for the endpoint.
bool SealedTransport::open(RxPacket& packet) {
  SealedHead head;
  if (!is_whole(packet) || !SealedHead::read(packet.header.data(), head) ||
      head.frame_bytes != kSealedHeadBytes + packet.payload.size() || packet.payload.size() < kPacketHeaderBytes) {
    if (take_keyless(packet)) return true;
    return refuse(packet, sealed_.unsealed, "a packet was not sealed");
  }
  if (head.channel >= channels_.size() || channels_[head.channel].keys == nullptr) {
    return refuse(packet, sealed_.unknown_channel, "a frame of a channel that is not here");
  }
  Channel& channel = channels_[head.channel];
  switch (channel.keys->opener.open(head, whole(packet))) {
    case SealFault::kNone: break;
    case SealFault::kMode: return refuse(packet, sealed_.wrong_mode, "a frame of another mode");
    case SealFault::kReplay: return refuse(packet, sealed_.replayed, "a frame came again");
    case SealFault::kGeneration: return refuse(packet, sealed_.wrong_generation, "a frame of a key that is not held");
    case SealFault::kForged: return refuse(packet, sealed_.forged, "a frame was forged or damaged");
  }
  ++sealed_.opened;
  const PeerId from = packet.from;
  if (channel.kind == Kind::kAccepted && capabilities_.connected && channel.wire != from && channel.wire != kNoPeer) {
    // The opener has a new connection, so the old one is dead. Its end has to be told before anything of the new one
    // is taken, so both go: the opener connects once more, and repeats what is thrown away here.
    const absl::Status why = absl::UnavailableError("the peer has connected anew");
    wire_->reject(channel.wire, why);
    wire_->reject(from, why);
    return false;
  }
  if (capabilities_.reliable && channel.is_linked && head.number != channel.next_number) {
    return refuse(packet, sealed_.missing, "a frame is missing");
  }
  on_opened(head.channel, head, from);
  packet.from = head.channel;
  packet.header = packet.payload.first(kPacketHeaderBytes);
  packet.payload = packet.payload.subspan(kPacketHeaderBytes);
  return true;
}

/// Whether the packet is a keyless peer's.
bool SealedTransport::take_keyless(RxPacket& packet) {
  const bool has_seals_version = std::to_integer<uint8_t>(packet.header[0]) >> 4 == kSealedVersion;
  if (!options_.admits_keyless || has_seals_version || packet.from == kNoPeer) return false;
  auto known = keyless_.find(packet.from);
  if (known == keyless_.end()) {
    // Who is reached by datagrams, or was dialled, is known before it may send: by its offer or its answer.
    if (!capabilities_.connected || dialled_.contains(packet.from)) return false;
    if (!keyless_of_packet(packet.from).ok()) return false;
    known = keyless_.find(packet.from);
  }
  // Damage is refused before the packet counts for anything.
  if (needs_checksums_ && !(is_whole(packet) && check_checksum(whole(packet)))) return false;
  const PeerId id = known->second;
  if (!channels_[id].is_proven) prove(id);
  // Before the endpoint sees the packet, nothing else may end its channel.
  rest_anew(id);
  ++sealed_.keyless;
  packet.from = mutant(SealMutant::kUnsealedForKeys) ? 0 : id;
  return true;
}

void SealedTransport::on_opened(PeerId id, const SealedHead& head, PeerId from) {
  Channel& channel = channels_[id];
  if (!channel.is_proven) [[unlikely]] {
    prove(id);
  }
  channel.next_number = head.number + 1;
  // Old frames tell old things.
  if (head.number + 1 == channel.keys->opener.numbers_end()) {
    FrameSealer& sealer = channel.keys->sealer;
    sealer.on_heard(head.heard);
    if (sealer.has_sealed_enough()) [[unlikely]] {
      sealer.rotate(clock_.now_ns());
    }
    if (channel.kind == Kind::kAccepted && from != kNoPeer && channel.wire != from) set_wire(id, from);
  }
  channel.is_linked = true;
}

bool SealedTransport::refuse(const RxPacket& packet, uint64_t& counter, const char* why) {
  ++counter;
  if (capabilities_.reliable && packet.from != kNoPeer) wire_->reject(packet.from, absl::DataLossError(why));
  return false;
}

// --- Links -----------------------------------------------------------------------------------------------------------

size_t SealedTransport::poll_links(std::span<LinkEvent> events) {
  if (const TimeNs now = clock_.now_ns(); now >= next_sweep_ns_) sweep(now);
  gather_links();
  const size_t told = std::min(events_.size(), events.size());
  std::move(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(told), events.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(told));
  return told;
}

void SealedTransport::gather_links() {
  for (size_t count = of_wire_.size(); count == of_wire_.size();) {
    count = wire_->poll_links(of_wire_);
    for (size_t i = 0; i < count; ++i) {
      const auto known = by_wire_.find(of_wire_[i].peer);
      if (known == by_wire_.end()) continue;
      const OfWire& channels = known->second;
      std::vector<PeerId> ids(channels.proven.begin(), channels.proven.end());
      ids.insert(ids.end(), channels.unproven.begin(), channels.unproven.end());
      tell(of_wire_[i], ids);
    }
  }
}

/// Tells of an event of the wire's peer that these channels have.
void SealedTransport::tell(const LinkEvent& event, std::span<const PeerId> ids) {
  for (const PeerId id : ids) {
    LinkEvent& told = events_.emplace_back(event);
    told.peer = id;
    if (event.kind == LinkEvent::Kind::kUp) continue;
    channels_[id].is_linked = false;
    channels_[id].unused_since_ns = clock_.now_ns();  // its sessions wait for the next connection
    // The PeerId of a connection that came in ends with the connection.
    const bool is_over =
        capabilities_.connected && (channels_[id].kind == Kind::kAccepted || channels_[id].is_incoming);
    if (is_over && event.kind == LinkEvent::Kind::kDown) set_wire(id, kNoPeer);
  }
}

}  // namespace skua::rpc
