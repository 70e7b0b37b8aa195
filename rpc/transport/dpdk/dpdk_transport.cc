#include "rpc/transport/dpdk/dpdk_transport.h"

#include <poll.h>
#include <rte_cycles.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/thread_mark.h"
#include "rpc/transport/dpdk/eal.h"

namespace skua::rpc::dpdk {
namespace {

constexpr char kTransportName[] = "dpdk";
constexpr size_t kPeersMax = 65'536;
constexpr size_t kRecordCount = 4096;
/// Drivers here cannot wait for packets, so a sleeping endpoint looks this often.
constexpr DurationNs kNap = 50 * kMicrosecond;
constexpr uint32_t kTurnsPerLook = 64;
constexpr DurationNs kWatchEvery = 20 * kMillisecond;
constexpr DurationNs kDownForGood = 500 * kMillisecond;
constexpr DurationNs kRestartEvery = 200 * kMillisecond;
constexpr DurationNs kLettingGo = 100 * kMillisecond;
constexpr size_t kLinkEventsMax = 1024;

}  // namespace

DpdkTransport::DpdkTransport(const std::vector<Port*>& ports, const SharedPools& pools, const DpdkOptions& options,
                             uint16_t lane, const EndpointIdentity& self)
    : options_(options),
      pools_(pools),
      lane_(lane),
      udp_port_(static_cast<uint16_t>(options.udp_port + lane)),
      self_(self),
      peers_(kPeersMax),
      records_(std::make_unique<TxRecord[]>(kRecordCount)),
      rng_(rte_rdtsc()),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SKUA_CHECK(wake_fd_ >= 0, "no file descriptor for the transport's wake-up");
  capabilities_.payload_max_bytes = UINT32_MAX;
  for (Port* port : ports) {
    lines_.emplace_back().port = port;
    capabilities_.payload_max_bytes =
        std::min(capabilities_.payload_max_bytes, payload_bytes_of(lines_.back(), port->mtu()));
    capabilities_.needs_registration = capabilities_.needs_registration || port->uses_dma();
  }
  capabilities_.segments_max = kTxSegmentsMax;
  capabilities_.inline_max_bytes = options.inline_max_bytes;
  capabilities_.lendable_count = options.mbuf_count / (2 * options.lanes);
  capabilities_.tx_completion = true;
  capabilities_.frames = true;
  for (size_t i = 0; i < kRecordCount; ++i) {
    records_[i].owner = this;
    records_[i].shared.free_cb = &DpdkTransport::on_segment_freed;
    records_[i].shared.fcb_opaque = &records_[i];
    records_[i].next = free_records_;
    free_records_ = &records_[i];
  }
}

DpdkTransport::~DpdkTransport() {
  abandon_tx();
  rte_pktmbuf_free_bulk(spare_.data(), static_cast<unsigned>(spare_count_));
  close(wake_fd_);
}

Descriptor DpdkTransport::local_descriptor() const {
  EndpointAddress address;
  address.udp_port = udp_port_;
  for (const Line& line : lines_) address.interfaces.push_back(line.port->address());
  return {kTransportName, self_, address.encode()};
}

void DpdkTransport::adopt() {
  if (thread_mark_ == this_thread_mark()) return;
  adopt_thread();
  thread_mark_ = this_thread_mark();
}

// --- Peers -----------------------------------------------------------------------------------------------------------

absl::StatusOr<PeerId> DpdkTransport::resolve(const Descriptor& peer, PeerWord word) {
  if (peer.transport != kTransportName) {
    return absl::InvalidArgumentError(absl::StrCat("the peer speaks ", peer.transport,
                                                   ", this endpoint dpdk: start both with "
                                                   "the same transport"));
  }
  absl::StatusOr<EndpointAddress> address = EndpointAddress::decode(as_byte_span(peer.address));
  if (!address.ok()) return address.status();
  const Uuid& cluster = peer.identity.cluster_id;
  if (!cluster.is_zero() && !self_.cluster_id.is_zero() && cluster != self_.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat("the peer belongs to cluster ", cluster.to_string(),
                                                      ", this endpoint to ", self_.cluster_id.to_string()));
  }
  auto route = [&](size_t line, const InterfaceAddress& to, const MacAddress& next_hop) {
    const InterfaceAddress& from = lines_[line].port->address();
    const FrameSource source = source_of(to, address->udp_port);
    // A stranger may name another's address and a wrong next hop.
    if (const PeerId known = peers_.find(source); known != kNoPeer && !peers_.may_replace(known, word)) {
      return absl::StatusOr<PeerId>(known);
    }
    const FrameTemplate frame(from, udp_port_, to, address->udp_port, next_hop);
    absl::StatusOr<PeerId> id = peers_.put({source, static_cast<uint16_t>(line), frame}, now_ns_);
    if (id.ok()) want_path(*id);
    return id;
  };
  for (size_t i = 0; i < lines_.size(); ++i) {
    for (const InterfaceAddress& to : address->interfaces) {
      if (lines_[i].port->address().on_link(to)) return route(i, to, to.mac);
    }
  }
  for (size_t i = 0; i < lines_.size(); ++i) {
    const Port& port = *lines_[i].port;
    for (const InterfaceAddress& to : address->interfaces) {
      if (port.has_gateway() && port.address().family == to.family) return route(i, to, port.gateway());
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("no DPDK port here leads to ", address->interfaces.front().to_string(),
                                                 ": none is in its network, and none has a gateway"));
}

// --- Transmit --------------------------------------------------------------------------------------------------------

bool DpdkTransport::refill_spares() {
  if (spare_count_ > 0) return true;
  if (rte_pktmbuf_alloc_bulk(pools_.frames, spare_.data(), kBurstMax) != 0) {
    for (Line& line : lines_) line.port->reclaim(lane_);
    if (rte_pktmbuf_alloc_bulk(pools_.frames, spare_.data(), kBurstMax) != 0) return false;
  }
  spare_count_ = kBurstMax;
  return true;
}

bool DpdkTransport::may_gather(const Peer& peer, ByteSpan piece) const {
  const Port& port = *lines_[peer.port].port;
  if (!port.gathers()) return false;
  if (!port.uses_dma()) return true;
  return std::any_of(regions_.begin(), regions_.end(), [&](const MutableByteSpan& region) {
    return piece.data() >= region.data() && piece.data() + piece.size() <= region.data() + region.size();
  });
}

/// The packet as the driver takes it, or null for want of memory.
rte_mbuf* DpdkTransport::build(const Peer& peer, TxPacket& packet) {
  if (!refill_spares()) return nullptr;
  rte_mbuf* frame = spare_[--spare_count_];
  auto* at = rte_pktmbuf_mtod(frame, std::byte*);
  peer.frame.write(at, kPacketHeaderBytes + packet.payload_bytes);
  at += peer.frame.size();
  std::memcpy(at, packet.header.data(), kPacketHeaderBytes);
  at += kPacketHeaderBytes;

  // Copied pieces come first: from the first gathered one on, all are gathered, so that their order stays.
  size_t segment = 0;
  size_t copied = 0;
  const bool whole_is_small = packet.payload_bytes <= options_.inline_max_bytes;
  for (; segment < packet.segment_count; ++segment) {
    const ByteSpan piece = packet.segments[segment];
    if (!whole_is_small && piece.size() > options_.inline_max_bytes && may_gather(peer, piece)) break;
    std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
    copied += piece.size();
  }
  const size_t length = peer.frame.size() + kPacketHeaderBytes + copied;
  frame->data_len = static_cast<uint16_t>(length);
  frame->pkt_len = static_cast<uint32_t>(length);
  packet.done = segment == packet.segment_count;
  if (!packet.done) {
    if (!attach_body(frame, packet, segment)) {
      // No records or mbufs left to attach with: copy the rest.
      for (; segment < packet.segment_count; ++segment) {
        const ByteSpan piece = packet.segments[segment];
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

bool DpdkTransport::attach_body(rte_mbuf* frame, TxPacket& packet, size_t first_segment) {
  const auto count = static_cast<unsigned>(packet.segment_count - first_segment);
  std::array<rte_mbuf*, kTxSegmentsMax> bodies;
  if (free_records_ == nullptr) return false;
  if (rte_pktmbuf_alloc_bulk(pools_.attached, bodies.data(), count) != 0) {
    lines_[peers_.at(packet.peer).port].port->reclaim(lane_);
    if (rte_pktmbuf_alloc_bulk(pools_.attached, bodies.data(), count) != 0) return false;
  }
  TxRecord* record = free_records_;
  free_records_ = record->next;
  ++records_in_use_;
  record->token = packet.token;
  rte_mbuf_ext_refcnt_set(&record->shared, static_cast<uint16_t>(count));
  rte_mbuf* last = frame;
  for (size_t i = 0; i < count; ++i) {
    const ByteSpan piece = packet.segments[first_segment + i];
    auto* address = const_cast<std::byte*>(piece.data());
    rte_pktmbuf_attach_extbuf(bodies[i], address, reinterpret_cast<uintptr_t>(address),
                              static_cast<uint16_t>(piece.size()), &record->shared);
    bodies[i]->data_off = 0;
    bodies[i]->data_len = static_cast<uint16_t>(piece.size());
    frame->pkt_len += static_cast<uint32_t>(piece.size());
    last->next = bodies[i];
    last = bodies[i];
  }
  frame->nb_segs = static_cast<uint16_t>(1 + count);
  return true;
}

void DpdkTransport::on_segment_freed(void* /*address*/, void* opaque) {
  auto* record = static_cast<TxRecord*>(opaque);
  std::atomic<TxRecord*>& list = record->owner->freed_;
  record->next = list.load(std::memory_order_relaxed);
  while (!list.compare_exchange_weak(record->next, record, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

size_t DpdkTransport::tx_burst(std::span<TxPacket> packets) {
  adopt();
  for (Line& line : lines_) {
    flush(line);
    // Few records left: drivers give memory back lazily, so they are asked.
    if (records_in_use_ > kRecordCount - kBurstMax) line.port->reclaim(lane_);
  }
  size_t taken = 0;
  for (; taken < packets.size(); ++taken) {
    TxPacket& packet = packets[taken];
    Peer& peer = peers_.at(packet.peer);
    Line& line = lines_[peer.port];
    peer.last_used_ns = now_ns_;
    if (line.pending_count == kPendingMax) break;
    rte_mbuf* frame = build(peer, packet);
    if (frame == nullptr) break;
    line.pending[line.pending_count++] = frame;
    ++counters_.tx_packets;
    counters_.tx_bytes += packet.payload_bytes;
  }
  for (Line& line : lines_) flush(line);
  if (taken < packets.size()) ++counters_.tx_full;
  return taken;
}

void DpdkTransport::flush(Line& line) {
  if (line.pending_count == 0) return;
  const uint16_t sent = line.port->send(lane_, line.pending.data(), line.pending_count);
  if (sent == 0) return;
  line.pending_count = static_cast<uint16_t>(line.pending_count - sent);
  std::copy_n(line.pending.begin() + sent, line.pending_count, line.pending.begin());
}

void DpdkTransport::drop_pending(Line& line) {
  rte_pktmbuf_free_bulk(line.pending.data(), line.pending_count);
  line.pending_count = 0;
}

bool DpdkTransport::has_room(PeerId peer) {
  // For a whole burst, so that what was begun for this peer never stands in front of another's.
  return has_room(lines_[peers_.at(peer).port]);
}

TxFrame DpdkTransport::take_frame(PeerId to) {
  TxFrame out;
  const Peer& peer = peers_.at(to);
  if (!has_room(lines_[peer.port]) || !refill_spares()) return out;
  rte_mbuf* frame = spare_[--spare_count_];
  auto* at = rte_pktmbuf_mtod(frame, std::byte*);
  // Now, because it stores beyond the headers, where the engine is about to write.
  peer.frame.write(at);
  out.peer = to;
  out.bytes = at + peer.frame.size();
  out.room = peer.room;
  out.cookie = reinterpret_cast<uintptr_t>(frame);
  return out;
}

void DpdkTransport::send_frames(std::span<const TxFrame> frames) {
  adopt();
  uint32_t touched = 0;  // lines, a bit each
  for (const TxFrame& frame : frames) {
    auto* packet = reinterpret_cast<rte_mbuf*>(frame.cookie);  // NOLINT(performance-no-int-to-ptr)
    if (frame.size == 0) [[unlikely]] {
      give_back(packet);
      continue;
    }
    Peer& peer = peers_.at(frame.peer);
    Line& line = lines_[peer.port];
    if (line.pending_count == kPendingMax) [[unlikely]] {
      flush(line);
      if (line.pending_count == kPendingMax) {
        ++counters_.tx_full;
        give_back(packet);
        continue;
      }
    }
    peer.last_used_ns = now_ns_;
    peer.frame.set_length(frame.bytes - peer.frame.size(), frame.size);
    const size_t length = peer.frame.size() + frame.size;
    packet->data_len = static_cast<uint16_t>(length);
    packet->pkt_len = static_cast<uint32_t>(length);
    line.pending[line.pending_count++] = packet;
    touched |= 1u << peer.port;
    ++counters_.tx_packets;
    counters_.tx_bytes += frame.size - kPacketHeaderBytes;
  }
  for (; touched != 0; touched &= touched - 1) flush(lines_[static_cast<size_t>(std::countr_zero(touched))]);
}

/// A frame that was not sent: nothing of its mbuf has changed since it came from the pool, but for its bytes.
void DpdkTransport::give_back(rte_mbuf* frame) {
  if (spare_count_ == spare_.size()) return rte_pktmbuf_free(frame);
  spare_[spare_count_++] = frame;
}

size_t DpdkTransport::reap(std::span<TxToken> tokens) {
  if (records_in_use_ == 0) return 0;
  size_t count = 0;
  while (count < tokens.size()) {
    if (completed_ == nullptr) completed_ = freed_.exchange(nullptr, std::memory_order_acquire);
    if (completed_ == nullptr) break;
    TxRecord* record = completed_;
    completed_ = record->next;
    tokens[count++] = record->token;
    record->next = free_records_;
    free_records_ = record;
    --records_in_use_;
  }
  return count;
}

void DpdkTransport::abandon_tx() {
  for (Line& line : lines_) {
    flush(line);
    drop_pending(line);
  }
  if (records_in_use_ == 0) return;
  auto all_freed = [&] {
    size_t freed = 0;
    for (const TxRecord* r = freed_.load(std::memory_order_acquire); r != nullptr; r = r->next) ++freed;
    for (const TxRecord* r = completed_; r != nullptr; r = r->next) ++freed;
    return freed == records_in_use_;
  };
  const uint64_t give_up = rte_rdtsc() + rte_get_tsc_hz() / (kSecond / kLettingGo);
  while (!all_freed() && rte_rdtsc() < give_up) {
    for (Line& line : lines_) line.port->reclaim(lane_);
    // A device that loops back (net_ring) has our memory until somebody receives it.
    std::array<RxPacket, kBurstMax> unwanted;
    for (size_t i = 0, count = rx_burst(unwanted); i < count; ++i) release(std::span(&unwanted[i].buffer, 1));
  }
  if (all_freed()) return;
  // A stopped device has let go of everything. What other lanes lose by it, their sessions repeat.
  for (Line& line : lines_) static_cast<void>(line.port->restart());
}

// --- Receive ---------------------------------------------------------------------------------------------------------

size_t DpdkTransport::rx_burst(std::span<RxPacket> packets) {
  adopt();
  std::array<rte_mbuf*, kBurstMax> received;
  const size_t room_max = std::min(packets.size(), received.size());
  size_t filled = 0;
  for (size_t i = 0; i < lines_.size() && filled < room_max; ++i) {
    Line& line = lines_[next_line_];
    if (++next_line_ == lines_.size()) next_line_ = 0;
    size_t count = line.port->receive(lane_, received.data(), static_cast<uint16_t>(room_max - filled));
    filled += accept(line, received.data(), count, packets.subspan(filled));
    if (options_.lanes == 1 || filled == room_max) continue;
    count = rte_ring_sc_dequeue_burst(line.port->inbox(lane_), reinterpret_cast<void**>(received.data()),
                                      static_cast<unsigned>(room_max - filled), nullptr);
    filled += accept(line, received.data(), count, packets.subspan(filled));
  }
  return filled;
}

size_t DpdkTransport::accept(Line& line, rte_mbuf** packets, size_t count, std::span<RxPacket> out) {
  for (size_t i = 0; i < count; ++i) rte_prefetch0(rte_pktmbuf_mtod(packets[i], void*));
  size_t filled = 0;
  for (size_t i = 0; i < count; ++i) {
    rte_mbuf* packet = packets[i];
    if (packet->nb_segs > 1 && rte_pktmbuf_linearize(packet) != 0) {
      ++counters_.rx_dropped;
      rte_pktmbuf_free(packet);
      continue;
    }
    const ByteSpan frame(rte_pktmbuf_mtod(packet, const std::byte*), packet->data_len);
    ParsedFrame parsed;
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
    RxPacket& rx = out[filled++];
    rx.from = peers_.find(parsed.source);
    rx.placed = false;
    rx.header = frame.subspan(parsed.payload_offset, kPacketHeaderBytes);
    rx.payload = frame.subspan(parsed.payload_offset + kPacketHeaderBytes, parsed.payload_bytes - kPacketHeaderBytes);
    rx.buffer = reinterpret_cast<uintptr_t>(packet);
    rx.placement = 0;
    counters_.rx_bytes += rx.payload.size();
    counters_.rx_zero_copy_bytes += rx.payload.size();
  }
  counters_.rx_packets += filled;
  return filled;
}

void DpdkTransport::not_for_engine(Line& line, rte_mbuf* packet) {
  std::array<std::byte, 128> reply;
  const ByteSpan frame(rte_pktmbuf_mtod(packet, const std::byte*), packet->data_len);
  size_t bytes = answer_arp(frame, line.port->address(), reply);
  if (bytes == 0) bytes = answer_path_probe(frame, line.port->address(), reply);
  ParsedFrame parsed;
  const bool is_transport = bytes == 0 && parse_transport_frame(frame, PathProbe::kBytes, parsed);
  if (bytes > 0) {
    send_small(line, ByteSpan(reply).first(bytes));
  } else if (is_transport && parsed.to_port == udp_port_) {
    on_path_echo(frame, parsed);
  } else if (is_transport && hand_over(line, packet, parsed.to_port)) {
    return;
  } else {
    ++counters_.rx_dropped;
  }
  rte_pktmbuf_free(packet);
}

/// A small frame of the transport's own; dropped when there is no room.
void DpdkTransport::send_small(Line& line, ByteSpan frame) {
  if (line.pending_count == kPendingMax || !refill_spares()) return;
  rte_mbuf* packet = spare_[--spare_count_];
  std::memcpy(rte_pktmbuf_append(packet, static_cast<uint16_t>(frame.size())), frame.data(), frame.size());
  line.pending[line.pending_count++] = packet;
  flush(line);
}

bool DpdkTransport::hand_over(Line& line, rte_mbuf* packet, uint16_t to_port) {
  const int lane = to_port - options_.udp_port;
  if (lane < 0 || lane >= options_.lanes || lane == lane_) return false;
  return rte_ring_mp_enqueue(line.port->inbox(static_cast<uint16_t>(lane)), packet) == 0;
}

void DpdkTransport::release(std::span<const RxBufferId> buffers) {
  std::array<rte_mbuf*, kBurstMax> packets;
  for (size_t begin = 0; begin < buffers.size(); begin += packets.size()) {
    const size_t count = std::min(packets.size(), buffers.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      packets[i] = reinterpret_cast<rte_mbuf*>(buffers[begin + i]);  // NOLINT(performance-no-int-to-ptr)
    }
    rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(count));
  }
}

// --- Links -----------------------------------------------------------------------------------------------------------

size_t DpdkTransport::poll_links(std::span<LinkEvent> events) {
  if (++turns_ % kTurnsPerLook != 0 && events_.empty()) return 0;
  if (const uint64_t tsc = rte_rdtsc(); tsc >= next_watch_tsc_) {
    next_watch_tsc_ = tsc + rte_get_tsc_hz() / (kSecond / kWatchEvery);
    now_ns_ = static_cast<TimeNs>(static_cast<double>(tsc) * 1e9 / static_cast<double>(rte_get_tsc_hz()));
    for (size_t i = 0; i < lines_.size(); ++i) watch(lines_[i], i, now_ns_);
    if (!searching_.empty()) search_paths(now_ns_);
  }
  const size_t count = std::min(events.size(), events_.size());
  std::move(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count), events.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void DpdkTransport::watch(Line& line, size_t index, TimeNs now) {
  if (line.port->link_up()) {
    line.down_since_ns = 0;
    return;
  }
  if (line.down_since_ns == 0) {
    line.down_since_ns = now;
    line.next_complaint_ns = now + kDownForGood;
    line.next_restart_ns = now + kRestartEvery;
  }
  drop_pending(line);
  if (lane_ == 0 && now >= line.next_restart_ns) {
    line.next_restart_ns = now + kRestartEvery;
    static_cast<void>(line.port->restart());
  }
  if (now < line.next_complaint_ns) return;
  line.next_complaint_ns = now + kDownForGood;
  for (PeerId id = 0; id < peers_.size() && events_.size() < kLinkEventsMax; ++id) {
    if (peers_.at(id).port != index) continue;
    LinkEvent event;
    event.peer = id;
    event.kind = LinkEvent::Kind::kRefused;
    event.why = absl::UnavailableError(absl::StrCat("DPDK port ", line.port->name(), " has had no link for ",
                                                    (now - line.down_since_ns) / kMillisecond,
                                                    " ms: is the other end there, the cable in, the interface up?"));
    events_.push_back(std::move(event));
  }
}

// --- Paths -----------------------------------------------------------------------------------------------------------

uint32_t DpdkTransport::payload_bytes_of(const Line& line, uint16_t mtu) const {
  return static_cast<uint32_t>(mtu - ip_udp_bytes(line.port->address().family) - kPacketHeaderBytes);
}

uint32_t DpdkTransport::payload_max_bytes(PeerId peer) const {
  if (peer >= paths_.size()) return capabilities_.payload_max_bytes;
  const uint32_t path = payload_bytes_of(lines_[peers_.at(peer).port], paths_[peer].mtu.mtu());
  return std::min(path, capabilities_.payload_max_bytes);
}

void DpdkTransport::want_path(PeerId id) {
  if (paths_.size() <= id) paths_.resize(id + 1);
  const Peer& peer = peers_.at(id);
  auto& [to, path] = paths_[id];
  if (!(to == peer.source)) {
    to = peer.source;
    path.reset();
    std::erase(searching_, id);
  }
  const bool before = path.searching();
  path.want(lines_[peer.port].port->mtu(), rng_.next(), now_ns_);
  if (path.searching() && !before) searching_.push_back(id);
  note_room(id);
}

/// After whatever may have changed what is believed of the path.
void DpdkTransport::note_room(PeerId id) {
  Peer& peer = peers_.at(id);
  const size_t in_mbuf =
      rte_pktmbuf_data_room_size(pools_.frames) - RTE_PKTMBUF_HEADROOM - peer.frame.size() - kFrameSlack;
  peer.room = static_cast<uint32_t>(std::min(in_mbuf, kPacketHeaderBytes + payload_max_bytes(id)));
}

void DpdkTransport::search_paths(TimeNs now) {
  std::erase_if(searching_, [&](PeerId id) {
    PathMtu& path = paths_[id].mtu;
    if (now < path.next_round_ns()) return false;
    const Peer& peer = peers_.at(id);
    Line& line = lines_[peer.port];
    if (line.down_since_ns != 0) {
      path.postpone(now);
      return false;
    }
    const uint16_t before = path.mtu();
    for (const uint16_t ip_bytes : path.begin_round(now)) ask_path(peer, path, ip_bytes);
    note_room(id);
    if (path.mtu() < before) {  // once per search, so there are not more of these than peers
      LinkEvent event;
      event.peer = id;
      event.kind = LinkEvent::Kind::kRefused;
      event.why = absl::OutOfRangeError(
          absl::StrCat("the path from DPDK port ", line.port->name(), " to the peer carries IP packets of ", path.mtu(),
                       " bytes, not of ", before,
                       ": its sessions are opened anew with packets that fit. Set the MTU of the "
                       "switches between, or --dpdk-mtu ",
                       path.mtu(), " on both sides"));
      events_.push_back(std::move(event));
    }
    return !path.searching();
  });
}

void DpdkTransport::ask_path(const Peer& peer, const PathMtu& path, uint16_t ip_bytes) {
  Line& line = lines_[peer.port];
  if (line.pending_count == kPendingMax || !refill_spares()) return;
  rte_mbuf* packet = spare_[--spare_count_];
  auto* at = reinterpret_cast<std::byte*>(rte_pktmbuf_append(packet, static_cast<uint16_t>(kEthernetBytes + ip_bytes)));
  std::memset(at, 0, kEthernetBytes + ip_bytes);
  peer.frame.write(at, ip_bytes - ip_udp_bytes(line.port->address().family));
  PathProbe{path.nonce(), ip_bytes, PathProbe::Kind::kAsk}.write(at + peer.frame.size());
  line.pending[line.pending_count++] = packet;
  flush(line);
}

void DpdkTransport::on_path_echo(ByteSpan frame, const ParsedFrame& parsed) {
  PathProbe echo;
  if (!PathProbe::read(frame.subspan(parsed.payload_offset, parsed.payload_bytes), echo)) return;
  const PeerId id = peers_.find(parsed.source);
  if (id >= paths_.size()) return;
  paths_[id].mtu.on_echo(echo.nonce, echo.ip_bytes);
  note_room(id);
}

// --- Memory, sleep ---------------------------------------------------------------------------------------------------

absl::Status DpdkTransport::register_region(MutableByteSpan region) {
  for (Line& line : lines_) {
    if (absl::Status status = line.port->map(region); !status.ok()) return status;
  }
  regions_.push_back(region);
  return absl::OkStatus();
}

void DpdkTransport::unregister_region(MutableByteSpan region) {
  for (Line& line : lines_) line.port->unmap(region);
  std::erase_if(regions_, [&](const MutableByteSpan& known) { return known.data() == region.data(); });
}

void DpdkTransport::wait(DurationNs timeout_ns) {
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
