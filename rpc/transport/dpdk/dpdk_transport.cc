#include "rpc/transport/dpdk/dpdk_transport.h"

#include <poll.h>
#include <rte_cycles.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "rpc/base/check.h"
#include "rpc/base/thread_mark.h"
#include "rpc/transport/dpdk/eal.h"

namespace skua::rpc::dpdk {
namespace {

constexpr size_t kPeersMax = 65'536;
/// The drivers here cannot wait for packets, so a sleeping endpoint looks for packets at this interval.
constexpr DurationNs kNap = 50 * kMicrosecond;
constexpr DurationNs kLettingGo = 100 * kMillisecond;

void prefetch(const Peer& peer) {
  rte_prefetch0(&peer);
  rte_prefetch0(reinterpret_cast<const std::byte*>(&peer) + 64);
}

/// The group of `beside` if the lane can share its bursts, else a new group.
std::shared_ptr<LaneGroup> group_of(const std::vector<Port*>& ports, const DpdkOptions& options, uint16_t lane,
                                    const std::shared_ptr<LaneGroup>& beside) {
  if (beside == nullptr || !beside->shares_queues_with(lane)) {
    return std::make_shared<LaneGroup>(ports, lane, options.lanes);
  }
  beside->join(lane);
  return beside;
}

}  // namespace

DpdkTransport::DpdkTransport(const std::vector<Port*>& ports, const SharedPools& pools, const DpdkOptions& options,
                             uint16_t lane, const EndpointIdentity& self, const DpdkTransport* beside)
    : options_(options),
      lane_(lane),
      udp_port_(static_cast<uint16_t>(options.udp_port + lane)),
      self_(self),
      peers_(kPeersMax),
      group_(group_of(ports, options, lane, beside == nullptr ? nullptr : beside->group_)),
      lines_(group_->lines()),
      watches_(ports.size()),
      spares_(pools.frames),
      bodies_(pools.attached),
      paths_(*this),
      rng_(rte_rdtsc()),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SKUA_CHECK(wake_fd_ >= 0, "no file descriptor for the transport's wake-up");
  capabilities_.payload_max_bytes = UINT32_MAX;
  for (Port* port : ports) {
    capabilities_.payload_max_bytes = std::min(capabilities_.payload_max_bytes, payload_bytes_of(*port, port->mtu()));
    capabilities_.needs_registration = capabilities_.needs_registration || port->uses_dma();
  }
  capabilities_.segments_max = kTxSegmentsMax;
  capabilities_.inline_max_bytes = options.inline_max_bytes;
  capabilities_.lendable_count = options.mbuf_count / (2 * options.lanes);
  capabilities_.tx_completion = true;
  capabilities_.frames = true;
  capabilities_.receives_in_memory = true;
}

DpdkTransport::~DpdkTransport() {
  abandon_tx();
  group_->leave(lane_);
  close(wake_fd_);
}

Descriptor DpdkTransport::local_descriptor() const {
  EndpointAddress address;
  address.udp_port = udp_port_;
  for (const Line& line : lines_) address.interfaces.push_back(line.port().address());
  return {kTransportName, self_, address.encode()};
}

void DpdkTransport::adopt() {
  if (thread_mark_ == this_thread_mark()) return;
  adopt_thread();
  thread_mark_ = this_thread_mark();
}

// --- Transmit --------------------------------------------------------------------------------------------------------

bool DpdkTransport::refill_spares() {
  if (spares_.reserve(1)) return true;
  for (Line& line : lines_) line.reclaim();
  return spares_.reserve(1);
}

bool DpdkTransport::is_mapped(ByteSpan piece) const {
  return std::any_of(regions_.begin(), regions_.end(), [&](const MutableByteSpan& region) {
    return piece.data() >= region.data() && piece.data() + piece.size() <= region.data() + region.size();
  });
}

/// Builds the mbufs for a packet. Null: there is no free mbuf.
rte_mbuf* DpdkTransport::build(const Peer& peer, TxPacket& packet) {
  rte_mbuf* frame = take_spare();
  if (frame == nullptr) return nullptr;
  auto* at = rte_pktmbuf_mtod(frame, std::byte*);
  peer.frame.write(at, kPacketHeaderBytes + packet.payload_bytes);
  at += peer.frame.size();
  std::memcpy(at, packet.header.data(), kPacketHeaderBytes);
  at += kPacketHeaderBytes;

  // Copied pieces come first. After the first gathered piece all are gathered, so that the order stays.
  size_t segment = 0;
  size_t copied = 0;
  const bool whole_is_small = packet.payload_bytes <= options_.inline_max_bytes;
  for (; segment < packet.segment_count; ++segment) {
    const ByteSpan piece = packet.segments[segment];
    if (!whole_is_small && piece.size() > options_.inline_max_bytes && may_gather(lines_[peer.port].port(), piece)) {
      break;
    }
    std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
    copied += piece.size();
  }
  const size_t length = peer.frame.size() + kPacketHeaderBytes + copied;
  frame->data_len = static_cast<uint16_t>(length);
  frame->pkt_len = static_cast<uint32_t>(length);
  packet.done = segment == packet.segment_count;
  if (!packet.done) {
    const std::span pieces = std::span(packet.segments).subspan(segment, packet.segment_count - segment);
    if (!bodies_.attach(frame, pieces, packet.token) && !attach_after_reclaiming(peer, frame, pieces, packet.token))
        [[unlikely]] {
      // No records or mbufs are left to attach with: copy the rest.
      for (const ByteSpan piece : pieces) {
        std::memcpy(rte_pktmbuf_append(frame, static_cast<uint16_t>(piece.size())), piece.data(), piece.size());
        copied += piece.size();
      }
      packet.done = true;
    } else {
      counters_.tx_zero_copy_bytes += packet.payload_bytes - copied;
    }
  }
  counters_.tx_copied_bytes += copied;
  return frame;
}

bool DpdkTransport::attach_after_reclaiming(const Peer& peer, rte_mbuf* frame, std::span<const ByteSpan> pieces,
                                            TxToken token) {
  line_of(peer).reclaim();
  return bodies_.attach(frame, pieces, token);
}

size_t DpdkTransport::tx_burst(std::span<TxPacket> packets) {
  adopt();
  const AttachedBodies::InCall in_call(bodies_);
  for (Line& line : lines_) {
    line.flush();
    // Drivers free sent mbufs lazily, so ask them to.
    if (bodies_.are_scarce()) line.reclaim();
  }
  size_t taken = 0;
  for (; taken < packets.size(); ++taken) {
    TxPacket& packet = packets[taken];
    Peer& peer = peers_.at(packet.peer);
    Line& line = line_of(peer);
    peer.last_used_ns = now_ns_;
    if (line.is_full()) break;
    rte_mbuf* frame = build(peer, packet);
    if (frame == nullptr) break;
    line.push(frame);
    ++counters_.tx_packets;
    counters_.tx_bytes += packet.payload_bytes;
  }
  for (Line& line : lines_) line.flush();
  if (taken < packets.size()) ++counters_.tx_full;
  return taken;
}

bool DpdkTransport::has_room(PeerId peer) {
  return line_of(peers_.at(peer)).has_room();
}

TxFrame DpdkTransport::take_frame(PeerId to) {
  const Peer& peer = peers_.at(to);
  if (!line_of(peer).has_room()) return {};
  rte_mbuf* frame = take_spare();
  if (frame == nullptr) return {};
  auto* at = rte_pktmbuf_mtod(frame, std::byte*);
  // Must happen before the engine writes, because write() stores beyond the headers.
  peer.frame.write(at);
  return {.peer = to,
          .size = 0,
          .bytes = at + peer.frame.size(),
          .room = peer.room,
          .cookie = reinterpret_cast<uintptr_t>(frame)};
}

void DpdkTransport::send_frames(std::span<const TxFrame> frames) {
  adopt();
  uint32_t touched = 0;  // bit set of lines
  size_t sent = 0;
  size_t bytes = 0;
  for (const TxFrame& frame : frames) {
    auto* packet = reinterpret_cast<rte_mbuf*>(frame.cookie);  // NOLINT(performance-no-int-to-ptr)
    Peer& peer = peers_.at(frame.peer);
    Line& line = line_of(peer);
    if (frame.size == 0 || (line.is_full() && !make_room(line))) [[unlikely]] {
      spares_.give_back(packet);
      continue;
    }
    const uint32_t size = frame.size;
    const size_t headers = peer.frame.size();
    peer.last_used_ns = now_ns_;
    peer.frame.set_length(frame.bytes - headers, size);
    packet->data_len = static_cast<uint16_t>(headers + size);
    packet->pkt_len = static_cast<uint32_t>(headers + size);
    line.push(packet);
    touched |= 1u << peer.port;
    ++sent;
    bytes += size;
  }
  counters_.tx_packets += sent;
  counters_.tx_bytes += bytes - sent * kPacketHeaderBytes;
  const bool may_wait = group_->may_wait();
  for (; touched != 0; touched &= touched - 1) {
    Line& line = lines_[static_cast<size_t>(std::countr_zero(touched))];
    if (!may_wait || line.has_burst()) line.flush();
  }
}

/// False: the driver takes nothing and the line stays full, so the next frame is dropped.
bool DpdkTransport::make_room(Line& line) {
  line.flush();
  if (line.is_full()) ++counters_.tx_full;
  return !line.is_full();
}

size_t DpdkTransport::reap(std::span<TxToken> tokens) {
  return bodies_.reap(tokens);
}

void DpdkTransport::abandon_tx() {
  for (Line& line : lines_) {
    line.flush();
    line.drop();
  }
  const uint64_t give_up = rte_rdtsc() + rte_get_tsc_hz() / (kSecond / kLettingGo);
  while (!bodies_.all_read() && rte_rdtsc() < give_up) {
    for (Line& line : lines_) line.reclaim();
    // A device that loops back (net_ring) holds the memory until the packets are received.
    std::array<RxPacket, kBurstMax> unwanted;
    for (size_t i = 0, count = rx_burst(unwanted); i < count; ++i) release(std::span(&unwanted[i].buffer, 1));
  }
  if (bodies_.all_read()) return;
  // A stopped device has released everything. Packets that other lanes lose by the restart are repeated by their
  // sessions.
  for (Line& line : lines_) static_cast<void>(line.port().restart());
}

// --- Receive ---------------------------------------------------------------------------------------------------------

size_t DpdkTransport::look(std::span<RxPacket> packets) {
  std::array<rte_mbuf*, kBurstMax> received;
  const size_t room_max = std::min(packets.size(), received.size());
  size_t filled = 0;
  for (size_t i = 0; i < lines_.size() && filled < room_max; ++i) {
    Line& line = lines_[next_line_];
    if (++next_line_ == lines_.size()) next_line_ = 0;
    const size_t wanted = group_->is_shared() ? received.size() : room_max - filled;
    size_t count = line.receive(received.data(), static_cast<uint16_t>(wanted));
    if (count > 0) filled += accept(line, received.data(), count, packets.subspan(filled));
    if (group_->has_all_lanes() || filled == room_max) continue;
    count = rte_ring_sc_dequeue_burst(line.port().inbox(lane_), reinterpret_cast<void**>(received.data()),
                                      static_cast<unsigned>(room_max - filled), nullptr);
    if (count > 0) filled += accept(line, received.data(), count, packets.subspan(filled));
  }
  return filled;
}

/// Packets that another lane of the group received for this one.
size_t DpdkTransport::receive_own(std::span<RxPacket> packets) {
  std::array<rte_mbuf*, kBurstMax> received;
  const uint32_t count =
      group_->take(lane_, received.data(), static_cast<uint32_t>(std::min(packets.size(), received.size())));
  return count == 0 ? 0 : accept(lines_.front(), received.data(), count, packets);
}

size_t DpdkTransport::rx_burst(std::span<RxPacket> packets) {
  adopt();
  if (group_->is_shared()) {
    if (const size_t filled = receive_own(packets); filled > 0 || !group_->should_look()) return filled;
    for (Line& line : lines_) line.flush();
  }
  return look(packets);
}

size_t DpdkTransport::accept(Line& line, rte_mbuf** packets, size_t count, std::span<RxPacket> out) {
  for (size_t i = 0; i < count; ++i) rte_prefetch0(rte_pktmbuf_mtod(packets[i], void*));
  size_t filled = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    rte_mbuf* packet = packets[i];
    if (packet->nb_segs > 1 && rte_pktmbuf_linearize(packet) != 0) {
      ++counters_.rx_dropped;
      rte_pktmbuf_free(packet);
      continue;
    }
    const ByteSpan frame(rte_pktmbuf_mtod(packet, const std::byte*), packet->data_len);
    ParsedFrame parsed;  // NOLINT(cppcoreguidelines-pro-type-member-init): parse_frame() fills what it accepts
    if (!parse_frame(frame, kPacketHeaderBytes, parsed)) {
      not_for_engine(line, packet);
      continue;
    }
    if (parsed.to_port != udp_port_) {
      if (!hand_over(line, packet, parsed.to_port)) {
        ++counters_.rx_dropped;
        rte_pktmbuf_free(packet);
      }
      continue;
    }
    if (filled == out.size()) [[unlikely]] {
      keep_for_later(packet);
      continue;
    }
    RxPacket& rx = out[filled++];
    rx.from = peers_.find(parsed.source);
    if (count > 1 && rx.from != kNoPeer) prefetch(peers_.at(rx.from));  // the answer will need it
    rx.placed = false;
    const std::byte* header = frame.data() + parsed.payload_offset;
    rx.header = ByteSpan(header, kPacketHeaderBytes);
    rx.payload = ByteSpan(header + kPacketHeaderBytes, parsed.payload_bytes - kPacketHeaderBytes);
    rx.buffer = reinterpret_cast<uintptr_t>(packet);
    rx.placement = 0;
    bytes += rx.payload.size();
  }
  counters_.rx_packets += filled;
  counters_.rx_bytes += bytes;
  counters_.rx_zero_copy_bytes += bytes;
  return filled;
}

/// A lane of a shared group takes a whole burst off the device, even if it was asked for fewer packets.
void DpdkTransport::keep_for_later(rte_mbuf* packet) {
  if (group_->give(lane_, packet)) return;
  ++counters_.rx_dropped;
  rte_pktmbuf_free(packet);
}

void DpdkTransport::not_for_engine(Line& line, rte_mbuf* packet) {
  std::array<std::byte, 128> reply;
  const ByteSpan frame(rte_pktmbuf_mtod(packet, const std::byte*), packet->data_len);
  size_t bytes = answer_arp(frame, line.port().address(), reply);
  if (bytes == 0) bytes = answer_path_probe(frame, line.port().address(), reply);
  ParsedFrame parsed;
  const bool is_transport = bytes == 0 && parse_transport_frame(frame, PathProbe::kBytes, parsed);
  if (bytes > 0) {
    send_small(line, ByteSpan(reply).first(bytes));
  } else if (is_transport && parsed.to_port == udp_port_) {
    paths_.on_echo(peers_.find(parsed.source), frame.subspan(parsed.payload_offset, parsed.payload_bytes));
  } else if (is_transport && hand_over(line, packet, parsed.to_port)) {
    return;
  } else {
    ++counters_.rx_dropped;
  }
  rte_pktmbuf_free(packet);
}

/// Sends a small frame of the transport itself, or drops it if there is no room.
void DpdkTransport::send_small(Line& line, ByteSpan frame) {
  rte_mbuf* packet = line.is_full() ? nullptr : take_spare();
  if (packet == nullptr) return;
  std::memcpy(rte_pktmbuf_append(packet, static_cast<uint16_t>(frame.size())), frame.data(), frame.size());
  line.push(packet);
  line.flush();
}

bool DpdkTransport::hand_over(Line& line, rte_mbuf* packet, uint16_t to_port) {
  const int lane = to_port - options_.udp_port;
  if (lane < 0 || lane >= options_.lanes || lane == lane_) return false;
  if (group_->inbox(static_cast<size_t>(lane)) != nullptr) return group_->give(static_cast<size_t>(lane), packet);
  return rte_ring_mp_enqueue(line.port().inbox(static_cast<uint16_t>(lane)), packet) == 0;
}

void DpdkTransport::release(std::span<const RxBufferId> buffers) {
  std::array<rte_mbuf*, kBurstMax> packets;
  for (size_t begin = 0; begin < buffers.size(); begin += packets.size()) {
    const size_t end = std::min(begin + packets.size(), buffers.size());
    unsigned count = 0;
    for (size_t i = begin; i < end; ++i) {
      auto* packet = reinterpret_cast<rte_mbuf*>(buffers[i]);  // NOLINT(performance-no-int-to-ptr)
      if (!spares_.recycle(packet)) packets[count++] = packet;
    }
    if (count > 0) rte_pktmbuf_free_bulk(packets.data(), count);
  }
}

// --- Memory, sleep ---------------------------------------------------------------------------------------------------

absl::Status DpdkTransport::register_region(MutableByteSpan region) {
  for (Line& line : lines_) {
    if (absl::Status status = line.port().map(region); !status.ok()) return status;
  }
  regions_.push_back(region);
  return absl::OkStatus();
}

void DpdkTransport::unregister_region(MutableByteSpan region) {
  for (Line& line : lines_) line.port().unmap(region);
  std::erase_if(regions_, [&](const MutableByteSpan& known) { return known.data() == region.data(); });
}

void DpdkTransport::wait(DurationNs timeout_ns) {
  for (Line& line : lines_) line.flush();
  const timespec time{0, std::min(timeout_ns, kNap)};
  pollfd wake{wake_fd_, POLLIN, 0};
  if (ppoll(&wake, 1, &time, nullptr) > 0) {
    eventfd_t value;
    eventfd_read(wake_fd_, &value);
  }
}

void DpdkTransport::wake() {
  eventfd_write(wake_fd_, 1);
}

}  // namespace skua::rpc::dpdk
