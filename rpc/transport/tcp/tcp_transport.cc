#include "rpc/transport/tcp/tcp_transport.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/transport/tcp/frame_pool.h"
#include "rpc/transport/tcp/links.h"

namespace skua::rpc {
namespace {

using tcp::ChunkPool;
using tcp::Connection;
using tcp::FramePool;
using tcp::Links;
using tcp::Peer;
using tcp::PeerTable;
using tcp::RxContext;
using tcp::RxOutcome;
using tcp::SocketAddress;
using tcp::TxCompletions;

constexpr char kTransportName[] = "tcp";

class TcpTransportImpl final : public TcpTransport {
 public:
  TcpTransportImpl(TcpOptions options, tcp::VersionRange versions, std::unique_ptr<ChunkPool> chunks);

  absl::Status open() { return links_.open(); }

  const Capabilities& capabilities() const override { return capabilities_; }
  const TransportCounters& counters() const override { return counters_; }
  Descriptor local_descriptor() const override;
  void set_placer(RxPlacer* placer) override;
  void set_peer_use(const PeerUse* use) override {
    links_.set_peer_use(use);
    peers_.set_peer_use(use);
  }
  absl::StatusOr<PeerId> resolve(const Descriptor& descriptor) override;
  size_t tx_burst(std::span<TxPacket> packets) override;
  size_t rx_burst(std::span<RxPacket> packets) override;
  void release(std::span<const RxBufferId> buffers) override;
  uint64_t host_of(PeerId peer) const override { return peers_.at(peer).host; }
  bool has_room(PeerId peer) override { return peers_.at(peer).tx.has_room_for_burst() && frames_.has_one(); }
  uint64_t progress(PeerId peer) const override;
  TxFrame take_frame(PeerId peer) override;
  void send_frames(std::span<const TxFrame> frames) override;
  size_t reap(std::span<TxToken> tokens) override { return completions_.reap(tokens); }
  void abandon_tx() override { links_.abandon_tx(); }
  void reject(PeerId peer, const absl::Status& why) override;
  size_t poll_links(std::span<LinkEvent> events) override { return peers_.poll(events); }
  void wait(DurationNs timeout_ns) override { links_.wait(timeout_ns); }
  void wake() override { links_.wake(); }
  int wait_fd() const override { return links_.wait_fd(); }
  DurationNs begin_wait(DurationNs timeout_ns) override { return links_.begin_wait(timeout_ns); }
  void end_wait() override { links_.end_wait(); }
  Stats stats() const override;

 private:
  bool queue(Peer& peer, TxPacket& packet, size_t index);
  void send_frames_to(Peer& peer, std::span<const TxFrame* const> frames);
  void receive(Connection& connection);

  const TcpOptions options_;
  const SteadyClock steady_clock_;
  const tcp::Dialect& newest_;
  Capabilities capabilities_;
  TransportCounters counters_;
  std::unique_ptr<ChunkPool> chunks_;
  RxContext rx_;
  TxCompletions completions_;
  PeerTable peers_;
  FramePool frames_;
  Links links_;
  std::vector<Peer*> dirty_;
  size_t next_active_ = 0;
};

TcpTransportImpl::TcpTransportImpl(TcpOptions options, tcp::VersionRange versions, std::unique_ptr<ChunkPool> chunks)
    : options_(std::move(options)),
      newest_(*tcp::find_dialect(options_.dialects, versions.max)),
      chunks_(std::move(chunks)),
      peers_(options_.peers_max, {.bytes_max = options_.tx_queue_max_bytes,
                                  .inline_max_bytes = options_.inline_max_bytes,
                                  .frame_bytes = uint32_t{tcp::kFrameBytesMax} + options_.frame_max_bytes}),
      frames_(options_.frame_max_bytes),
      links_({.options = &options_,
              .dialects = options_.dialects,
              .versions = versions,
              .clock = options_.clock != nullptr ? options_.clock : &steady_clock_,
              .peers = &peers_,
              .rx = &rx_,
              .completions = &completions_}) {
  capabilities_.payload_max_bytes = options_.payload_max_bytes;
  capabilities_.segments_max = kTxSegmentsMax;
  capabilities_.inline_max_bytes = options_.inline_max_bytes;
  // The transport keeps one chunk, and each lent packet may be the only one in its chunk.
  capabilities_.lendable_count = options_.rx_chunk_count - 1;
  capabilities_.reliable = true;
  capabilities_.ordered = true;
  capabilities_.connected = true;
  capabilities_.integrity = true;
  capabilities_.tx_completion = true;
  capabilities_.wakes_on_receive = true;
  capabilities_.frames = true;
  capabilities_.frame_max_bytes = options_.frame_max_bytes;
  rx_.chunks = chunks_.get();
  rx_.counters = &counters_;
  rx_.payload_max_bytes = options_.payload_max_bytes;
  rx_.place_above_bytes = options_.place_above_bytes;
  dirty_.reserve(kBurstMax);
}

Descriptor TcpTransportImpl::local_descriptor() const {
  return {.transport = kTransportName, .identity = options_.self, .address = links_.address().encode()};
}

void TcpTransportImpl::set_placer(RxPlacer* placer) {
  if (placer == rx_.placer) return;
  links_.cancel_placements(rx_.placer);
  rx_.placer = placer;
}

absl::StatusOr<PeerId> TcpTransportImpl::resolve(const Descriptor& descriptor) {
  const EndpointIdentity& identity = descriptor.identity;
  if (descriptor.transport != kTransportName) {
    return absl::InvalidArgumentError(
        absl::StrCat("a descriptor of transport '", descriptor.transport,
                     "' was given to the TCP transport; start both sides with the same transport"));
  }
  absl::StatusOr<SocketAddress> address = SocketAddress::decode(as_byte_span(descriptor.address));
  if (!address.ok()) return address.status();
  if (identity.uuid.is_zero() || identity.uuid == options_.self.uuid) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot connect to endpoint ", identity.uuid.to_string(),
                     identity.uuid.is_zero() ? ": a descriptor needs a uuid" : ": that is this endpoint itself"));
  }
  if (tcp::is_foreign_cluster(identity.cluster_id, options_.self.cluster_id)) {
    return absl::FailedPreconditionError(
        absl::StrCat("endpoint ", identity.uuid.to_string(), " belongs to cluster ", identity.cluster_id.to_string(),
                     ", this one to ", options_.self.cluster_id.to_string(), ": use the right control address"));
  }
  absl::StatusOr<Peer*> peer = peers_.resolve(identity.uuid);
  if (!peer.ok()) return peer.status();
  if (!address->is_none()) (*peer)->address = *address;
  return (*peer)->id;
}

// --- Transmit

bool TcpTransportImpl::queue(Peer& peer, TxPacket& packet, size_t index) {
  tcp::TxFraming framing{.dialect = &newest_, .provisional = true};
  if (peer.link != nullptr) {
    const Connection& link = *peer.link;
    framing = {.dialect = link.dialect, .has = link.receiver.asked_count(), .asks = link.sends.asks()};
    if (link.sends.is_on()) framing.zero_copy_above_bytes = options_.zero_copy_above_bytes;
  }
  if (!peer.tx.push(packet, static_cast<uint8_t>(index), framing, completions_, counters_)) return false;
  if (peer.link != nullptr) peer.link->told = framing.has;
  return true;
}

size_t TcpTransportImpl::tx_burst(std::span<TxPacket> packets) {
  packets = packets.first(std::min(packets.size(), kBurstMax));
  completions_.begin_burst(packets);
  size_t taken = 0;
  for (; taken < packets.size(); ++taken) {
    TxPacket& packet = packets[taken];
    SKUA_CHECK(packet.peer < peers_.size(), "tx_burst to a peer that was never resolved");
    SKUA_CHECK(packet.payload_bytes <= options_.payload_max_bytes, "a packet is larger than payload_max_bytes");
    Peer& peer = peers_.at(packet.peer);
    if (!queue(peer, packet, taken)) {
      // The queue may be full only with packets of this burst.
      if (peer.dirty) links_.send(peer);
      if (!queue(peer, packet, taken)) {
        ++counters_.tx_full;
        break;
      }
    }
    if (!peer.dirty) {
      peer.dirty = true;
      dirty_.push_back(&peer);
    }
  }
  for (Peer* peer : dirty_) {
    peer->dirty = false;
    links_.send(*peer);
  }
  dirty_.clear();
  completions_.end_burst();
  return taken;
}

uint64_t TcpTransportImpl::progress(PeerId id) const {
  const Peer& peer = peers_.at(id);
  if (peer.link == nullptr || !peer.link->broken.ok()) return 0;
  // The kernel may have taken bytes that the peer's kernel does not take yet.
  const uint64_t waiting = tcp::unacknowledged_bytes(peer.link->fd.get());
  const bool is_sending = waiting > 0 || !peer.tx.empty();
  constexpr uint64_t kNeverZero = uint64_t{1} << 62;
  return peer.link->receiver.progress() + (is_sending ? kNeverZero + peer.tx.written_bytes() - waiting : 0);
}

TxFrame TcpTransportImpl::take_frame(PeerId id) {
  SKUA_CHECK(id < peers_.size(), "take_frame for a peer that was never resolved");
  Peer& peer = peers_.at(id);
  if (peer.link == nullptr) links_.connect(peer);
  // A dial to this machine may connect at once, but the hello is not answered yet.
  if (peer.link == nullptr || !peer.link->broken.ok() || !has_room(id)) return {};
  const uint32_t number = frames_.take();
  peer.tx.reserve_frame();
  return {.peer = id,
          .bytes = frames_.at(number),
          .room = frames_.room(),
          .cookie = uint64_t{peer.link->generation} << 32 | number};
}

void TcpTransportImpl::send_frames(std::span<const TxFrame> frames) {
  while (!frames.empty()) {
    const std::span<const TxFrame> some = frames.first(std::min(frames.size(), tcp::kTxGatherMax));
    frames = frames.subspan(some.size());
    // One write per peer, in the order of each peer's first frame.
    uint64_t sent = 0;
    static_assert(tcp::kTxGatherMax <= 64);
    for (size_t i = 0; i < some.size(); ++i) {
      std::array<const TxFrame*, tcp::kTxGatherMax> of_peer;
      size_t count = 0;
      for (size_t j = i; j < some.size(); ++j) {
        if (some[j].peer != some[i].peer || (sent >> j & 1) != 0) continue;
        sent |= uint64_t{1} << j;
        of_peer[count++] = &some[j];
      }
      if (count > 0) send_frames_to(peers_.at(some[i].peer), std::span(of_peer).first(count));
    }
  }
}

void TcpTransportImpl::send_frames_to(Peer& peer, std::span<const TxFrame* const> frames) {
  std::array<iovec, tcp::kTxGatherMax> pieces;
  size_t count = 0;
  size_t payload = 0;
  for (const TxFrame* frame : frames) {
    const auto number = static_cast<uint32_t>(frame->cookie);
    SKUA_CHECK(frames_.at(number) == frame->bytes, "a frame is not what take_frame gave");
    SKUA_CHECK(frame->size == 0 || (frame->size >= kPacketHeaderBytes && frame->size <= frame->room),
               "a frame is smaller than a header or larger than its room");
    peer.tx.give_up_frame();
    const bool stands = peer.link != nullptr && peer.link->generation == frame->cookie >> 32;
    if (frame->size == 0 || !stands) continue;
    const tcp::Dialect& dialect = *peer.link->dialect;
    const auto payload_bytes = static_cast<uint32_t>(frame->size - kPacketHeaderBytes);
    std::byte* start = frame->bytes - dialect.frame_bytes;
    peer.link->told = peer.link->receiver.asked_count();
    dialect.pack(start, {.payload_bytes = payload_bytes, .has = peer.link->told});
    pieces[count++] = {start, dialect.frame_bytes + size_t{frame->size}};
    payload += payload_bytes;
  }
  if (count > 0) {
    counters_.tx_packets += count;
    counters_.tx_bytes += count * kPacketHeaderBytes + payload;
    const size_t copied = std::min(links_.write_frames(peer, std::span(pieces).first(count)), payload);
    counters_.tx_copied_bytes += copied;
    counters_.tx_zero_copy_bytes += payload - copied;
  }
  for (const TxFrame* frame : frames) frames_.give_back(static_cast<uint32_t>(frame->cookie));
}

void TcpTransportImpl::reject(PeerId id, const absl::Status& why) {
  if (Connection* const link = peers_.at(id).link; link != nullptr) links_.fail(*link, why);
}

// --- Receive

size_t TcpTransportImpl::rx_burst(std::span<RxPacket> packets) {
  rx_.packets = packets.first(std::min(packets.size(), kBurstMax));
  rx_.count = 0;
  if (links_.owes()) links_.tell_owed();
  if (links_.turn_due()) links_.turn();
  const std::vector<Connection*>& active = links_.active();
  if (active.empty()) return 0;
  // Start with another connection each time, so that no connection is always last.
  const size_t count = active.size();
  size_t at = ++next_active_ % count;
  for (size_t i = 0; i < count && rx_.count < rx_.packets.size(); ++i) {
    // A connection that broke has left the list.
    if (at >= active.size()) at = 0;
    if (active.empty()) break;
    receive(*active[at++]);
  }
  links_.sweep_active();
  return rx_.count;
}

void TcpTransportImpl::receive(Connection& connection) {
  const size_t before = rx_.count;
  RxOutcome outcome = connection.receiver.receive(connection.fd.get(), rx_);
  if (outcome == RxOutcome::kStarved) {
    // Partly received packets must not take chunks away from complete ones.
    links_.spill_all();
    outcome = connection.receiver.receive(connection.fd.get(), rx_);
  }
  links_.after_read(connection, outcome, rx_.count > before);
}

void TcpTransportImpl::release(std::span<const RxBufferId> buffers) {
  for (const RxBufferId buffer : buffers) {
    if (buffer != kNoBuffer) chunks_->drop_ref(static_cast<uint32_t>(buffer));
  }
}

TcpTransport::Stats TcpTransportImpl::stats() const {
  Stats out = links_.stats();
  out.chunk_refs = chunks_->ref_count();
  return out;
}

absl::Status check_options(const TcpOptions& options, const tcp::VersionRange& versions) {
  const auto invalid = [](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("TCP transport options: ", what));
  };
  if (options.self.uuid.is_zero()) return invalid("self.uuid must not be zero");
  for (uint32_t version = versions.min; version <= versions.max; ++version) {
    if (tcp::find_dialect(options.dialects, static_cast<uint16_t>(version)) == nullptr) {
      return invalid(absl::StrCat("this build does not speak version ", version));
    }
  }
  if (versions.min == 0 || versions.min > versions.max) return invalid("no version to offer");
  if (options.inline_max_bytes > tcp::kTxStagingBusyBytes / 4) return invalid("inline_max_bytes too large");
  if (options.rx_chunk_count < 2) return invalid("rx_chunk_count must be at least 2");
  const uint64_t in_chunk = uint64_t{options.place_above_bytes} + tcp::kFrameBytesMax + kPacketHeaderBytes;
  if (in_chunk > options.rx_chunk_bytes || options.rx_chunk_bytes < tcp::kRxPeekBytes) {
    return invalid("rx_chunk_bytes must hold a packet of place_above_bytes");
  }
  const uint32_t frame_bytes = options.frame_max_bytes;
  if (frame_bytes < kFrameRoomMin || frame_bytes > tcp::kFrameRoomMax ||
      frame_bytes + tcp::kFrameBytesMax > options.rx_chunk_bytes || frame_bytes > options.payload_max_bytes) {
    return invalid("frame_max_bytes must be 256 to 16,384, and fit in a chunk and in payload_max_bytes");
  }
  if (options.payload_max_bytes > uint32_t{1} << 30) return invalid("payload_max_bytes above 1 GiB");
  if (options.tx_queue_max_bytes == 0 || options.handshakes_max == 0 || options.peers_max == 0 ||
      options.callers_max == 0) {
    return invalid("tx_queue_max_bytes, handshakes_max, peers_max and callers_max must not be zero");
  }
  if (options.connect_timeout_ns <= 0 || options.reconnect_min_ns <= 0 ||
      options.reconnect_max_ns < options.reconnect_min_ns) {
    return invalid("timeouts must be positive, and reconnect_max_ns not below reconnect_min_ns");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpTransport>> TcpTransport::create(TcpOptions options) {
  if (options.dialects.empty()) options.dialects = tcp::builtin_dialects();
  tcp::VersionRange versions{options.version_min, options.version_max};
  if (versions.min == 0) versions.min = options.dialects.front().version;
  if (versions.max == 0) versions.max = options.dialects.back().version;
  if (absl::Status status = check_options(options, versions); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<ChunkPool>> chunks = ChunkPool::create(options.rx_chunk_bytes, options.rx_chunk_count);
  if (!chunks.ok()) return chunks.status();
  auto transport = std::make_unique<TcpTransportImpl>(std::move(options), versions, std::move(*chunks));
  if (absl::Status status = transport->open(); !status.ok()) return status;
  return std::unique_ptr<TcpTransport>(std::move(transport));
}

}  // namespace skua::rpc
