#include "rpc/transport/verbs/verbs_transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc::verbs {
namespace {

constexpr char kTransportName[] = "verbs";
constexpr size_t kPeersMax = 65'536;
/// How long resolve() waits for the handle of an own dial. The kernel mostly knows the neighbour, and then the first
/// packet is not lost. A claim may name an address that nobody reaches, and nothing is sent there before its offer has
/// an answer.
constexpr DurationNs kResolvePatience = 2 * kMillisecond;
constexpr DurationNs kLettingGo = 5 * kMillisecond;

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> VerbsTransport::create(Device& device, AddressResolver& resolver,
                                                                  const VerbsOptions& options,
                                                                  const EndpointIdentity& self, Rng rng, RcHub* hub) {
  UdQueueOptions queue_options;
  queue_options.send_depth = options.send_depth;
  queue_options.receive_depth = options.receive_depth;
  queue_options.inline_bytes = static_cast<uint32_t>(kPacketHeaderBytes + options.inline_max_bytes);
  absl::StatusOr<std::unique_ptr<CompletionChannel>> channel = CompletionChannel::create(device);
  if (!channel.ok()) return channel.status();
  absl::StatusOr<std::unique_ptr<UdQueue>> queue = UdQueue::create(device, **channel, queue_options, rng.fork(1));
  if (!queue.ok()) return queue.status();
  return std::make_unique<VerbsTransport>(device, resolver, options, self, *std::move(channel), *std::move(queue),
                                          rng.fork(2), hub);
}

VerbsTransport::VerbsTransport(Device& device, AddressResolver& resolver, const VerbsOptions& options,
                               const EndpointIdentity& self, std::unique_ptr<CompletionChannel> channel,
                               std::unique_ptr<UdQueue> queue, Rng rng, RcHub* hub)
    : device_(device),
      resolver_(resolver),
      inline_max_bytes_(
          std::min(options.inline_max_bytes, uint32_t{device.mtu_bytes()} - uint32_t{kPacketHeaderBytes})),
      self_(self),
      channel_(std::move(channel)),
      queue_(std::move(queue)),
      peers_(kPeersMax),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SKUA_CHECK(wake_fd_ >= 0, "no file descriptor for the transport's wake-up");
  address_.network = device_.gid().network;
  address_.lid = device_.lid();
  address_.mtu_bytes = device_.mtu_bytes();
  address_.qp_number = queue_->number();
  address_.qkey = queue_->qkey();
  address_.gid = device_.gid().gid;
  capabilities_.payload_max_bytes = static_cast<uint32_t>(device_.mtu_bytes() - kPacketHeaderBytes);
  capabilities_.segments_max = queue_->gather_max() - 1;
  capabilities_.inline_max_bytes = inline_max_bytes_;
  capabilities_.lendable_count = queue_->receive_depth();
  capabilities_.integrity = true;
  capabilities_.tx_completion = true;
  capabilities_.needs_registration = true;
  capabilities_.loopback = true;
  capabilities_.wakes_on_receive = true;
  capabilities_.receives_in_memory = true;
  capabilities_.frames = true;
  now_ns_ = clock_.now_ns();
  // If the device has no READs, everything goes in packets.
  absl::StatusOr<std::unique_ptr<RcConnections>> connections =
      RcConnections::create(*this, device_, resolver_, *channel_, hub, rng);
  if (connections.ok()) connections_ = *std::move(connections);
  capabilities_.one_sided = connections_ != nullptr;
}

VerbsTransport::~VerbsTransport() {
  connections_.reset();
  abandon_tx();
  for (const RegionTable::Region& region : regions_.all()) device_.memory().release(region.bytes);
  close(wake_fd_);
}

Descriptor VerbsTransport::local_descriptor() const {
  return {kTransportName, self_, address_.encode()};
}

// --- Peers -----------------------------------------------------------------------------------------------------------

/// The peer's address, or why there can be no packets between it and this endpoint.
absl::StatusOr<EndpointAddress> VerbsTransport::reachable_address(const Descriptor& peer) const {
  if (peer.transport != kTransportName) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer speaks ", peer.transport, ", this endpoint verbs: start both with the same transport"));
  }
  absl::StatusOr<EndpointAddress> address = EndpointAddress::decode(as_byte_span(peer.address));
  if (!address.ok()) return address.status();
  const Uuid& cluster = peer.identity.cluster_id;
  if (!cluster.is_zero() && !self_.cluster_id.is_zero() && cluster != self_.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat("the peer belongs to cluster ", cluster.to_string(),
                                                      ", this endpoint to ", self_.cluster_id.to_string()));
  }
  if (address->network != address_.network || address->gid.is_ipv4() != address_.gid.is_ipv4()) {
    const auto kind = [](const EndpointAddress& a) {
      return absl::StrCat(to_string(a.network), " ", a.gid.to_string());
    };
    return absl::InvalidArgumentError(absl::StrCat("the peer's RDMA address is ", kind(*address), ", this endpoint's ",
                                                   kind(address_), ": choose GIDs of one kind (--verbs-gid-index)"));
  }
  return address;
}

absl::StatusOr<PeerId> VerbsTransport::resolve(const Descriptor& peer, PeerWord word) {
  absl::StatusOr<EndpointAddress> address = reachable_address(peer);
  if (!address.ok()) return address.status();
  const TimeNs now = clock_.now_ns();
  const Source source = source_of(*address, address_);
  const PeerId known = peers_.find(source);
  if (known != kNoPeer) {
    const Peer& entry = peers_.at(known);
    const bool may_replace = peers_.may_replace(known, word);
    const KnownHandle handle{.pending = entry.handle->pending(),
                             .failed = entry.handle->error() != 0,
                             .asked_by = entry.asked_by,
                             .age_ns = now - entry.resolved_ns};
    if (entry.address == *address && !must_resolve(handle, word, may_replace)) {
      if (handle.failed) unresolved_.push_back(known);  // who claims it is told why again
      return known;
    }
    // A claim may name another endpoint's queue pair with a wrong key.
    if (entry.address != *address && !may_replace) {
      return absl::UnavailableError(
          "sessions with another endpoint at that RDMA address stand: try again when they have ended");
    }
  }
  absl::StatusOr<std::shared_ptr<AddressHandle>> handle =
      resolver_.resolve(*address, needs_grh(address_, *address), word, word == PeerWord::kClaim ? 0 : kResolvePatience);
  if (!handle.ok()) return handle.status();
  if (known != kNoPeer) {
    bury(peers_.at(known).handle);
    if (connections_ != nullptr && peers_.at(known).address != *address) connections_->forget(known);
  }
  const size_t count_before = peers_.size();
  absl::StatusOr<PeerId> id = peers_.put({source, *address, *handle, now, word}, now);
  if (id.ok() && (*handle)->get() == nullptr) unresolved_.push_back(*id);
  const bool taken_over = id.ok() && known == kNoPeer && peers_.size() == count_before;
  if (taken_over && connections_ != nullptr) connections_->forget(*id);
  return id;
}

uint32_t VerbsTransport::payload_max_bytes(PeerId peer) const {
  return std::min(capabilities_.payload_max_bytes,
                  peers_.at(peer).address.mtu_bytes - static_cast<uint32_t>(kPacketHeaderBytes));
}

void VerbsTransport::bury(std::shared_ptr<AddressHandle> handle) {
  if (queue_->completed_count() < queue_->built_count())
    replaced_.emplace_back(queue_->built_count(), std::move(handle));
}

// --- Transmit --------------------------------------------------------------------------------------------------------

size_t VerbsTransport::tx_burst(std::span<TxPacket> packets) {
  if (queue_->in_error()) recover(clock_.now_ns());
  size_t taken = 0;
  uint32_t room = queue_->send_room();
  for (; taken < packets.size(); ++taken) {
    TxPacket& packet = packets[taken];
    Peer& peer = peers_.at(packet.peer);
    if (!usable(peer) || packet.payload_bytes > capabilities_.payload_max_bytes) {
      packet.done = true;
      ++stats_.tx_unsendable;
      continue;
    }
    if (room == 0) {
      queue_->poll_sent();
      room = queue_->send_room();
      if (room == 0) break;
    }
    --room;
    peer.last_used_ns = now_ns_;
    build(peer, packet);
    ++counters_.tx_packets;
    counters_.tx_bytes += packet.payload_bytes;
  }
  queue_->post();
  if (taken < packets.size()) ++counters_.tx_full;
  return taken;
}

/// Does not wait for room: a datagram that is not sent is repeated later.
void VerbsTransport::send_own(PeerId to, ByteSpan datagram) {
  const Peer& peer = peers_.at(to);
  if (!usable(peer)) return;
  if (queue_->send_room() == 0) queue_->poll_sent();
  if (queue_->send_room() == 0) return;
  std::byte* room = nullptr;
  UdQueue::SendSlot& slot = queue_->next_slot(room);
  copy_bytes(room, datagram);
  const auto bytes = static_cast<uint32_t>(datagram.size());
  slot.pieces[0] = {reinterpret_cast<uintptr_t>(room), bytes, queue_->slot_key()};
  slot.request.num_sge = 1;
  address_request(slot, peer);
  queue_->commit(slot, bytes, kNoToken);
  queue_->post();
}

inline void VerbsTransport::address_request(UdQueue::SendSlot& slot, const Peer& peer) {
  slot.request.wr.ud.ah = peer.handle->get();
  slot.request.wr.ud.remote_qpn = peer.address.qp_number;
  slot.request.wr.ud.remote_qkey = peer.address.qkey;
}

void VerbsTransport::build(const Peer& peer, TxPacket& packet) {
  std::byte* room = nullptr;
  UdQueue::SendSlot& slot = queue_->next_slot(room);
  std::memcpy(room, packet.header.data(), kPacketHeaderBytes);
  const uint32_t copied = gather(slot, room, packet);
  address_request(slot, peer);
  packet.done = copied == packet.payload_bytes;
  queue_->commit(slot, static_cast<uint32_t>(kPacketHeaderBytes + packet.payload_bytes),
                 packet.done ? kNoToken : packet.token);
  counters_.tx_copied_bytes += copied;
  counters_.tx_zero_copy_bytes += packet.payload_bytes - copied;
}

uint32_t VerbsTransport::gather(UdQueue::SendSlot& slot, std::byte* room, const TxPacket& packet) {
  uint32_t used = kPacketHeaderBytes;
  slot.pieces[0] = {reinterpret_cast<uintptr_t>(room), used, queue_->slot_key()};
  int count = 1;
  // Copy everything if the device takes fewer pieces than there are, or if no token would report that the pieces were
  // read.
  const bool copy_all = packet.payload_bytes <= inline_max_bytes_ || packet.segment_count >= queue_->gather_max() ||
                        packet.token == kNoToken;
  for (size_t i = 0; i < packet.segment_count; ++i) {
    const ByteSpan piece = packet.segments[i];
    const auto bytes = static_cast<uint32_t>(piece.size());
    const RegionTable::Region* region = copy_all || piece.size() <= inline_max_bytes_ ? nullptr : regions_.find(piece);
    if (region != nullptr) {
      slot.pieces[static_cast<size_t>(count++)] = {reinterpret_cast<uintptr_t>(piece.data()), bytes, region->key};
      continue;
    }
    copy_bytes(room + used, piece);
    // A copied piece that directly follows another copied piece extends that piece of the work request.
    ibv_sge& last = slot.pieces[static_cast<size_t>(count - 1)];
    if (last.addr + last.length == reinterpret_cast<uintptr_t>(room) + used) {
      last.length += bytes;
    } else {
      slot.pieces[static_cast<size_t>(count++)] = {reinterpret_cast<uintptr_t>(room) + used, bytes, queue_->slot_key()};
    }
    used += bytes;
  }
  slot.request.num_sge = count;
  return static_cast<uint32_t>(used - kPacketHeaderBytes);
}

bool VerbsTransport::has_room(PeerId /*peer*/) {
  if (queue_->send_room() >= kBurstMax) return true;
  queue_->poll_sent();
  return queue_->send_room() >= kBurstMax;
}

TxFrame VerbsTransport::take_frame(PeerId to) {
  TxFrame out;
  if (!usable(peers_.at(to)) || !has_room(to)) return out;
  const std::optional<uint32_t> frame = queue_->take_frame();
  if (!frame.has_value()) return out;
  out.peer = to;
  out.bytes = queue_->frame_at(*frame);
  out.room = static_cast<uint32_t>(kPacketHeaderBytes) + payload_max_bytes(to);
  out.cookie = *frame;
  return out;
}

inline void VerbsTransport::build(const Peer& peer, const TxFrame& frame) {
  UdQueue::SendSlot& slot = queue_->next_slot_of(static_cast<uint32_t>(frame.cookie));
  slot.pieces[0] = {reinterpret_cast<uintptr_t>(frame.bytes), frame.size, queue_->slot_key()};
  slot.request.num_sge = 1;
  address_request(slot, peer);
  queue_->commit(slot, frame.size, kNoToken);
  ++counters_.tx_packets;
  counters_.tx_bytes += frame.size - kPacketHeaderBytes;
}

void VerbsTransport::send_frames(std::span<const TxFrame> frames) {
  for (const TxFrame& frame : frames) {
    SKUA_CHECK(queue_->is_frame(frame.cookie), "a frame was sent that is not out");
    const auto number = static_cast<uint32_t>(frame.cookie);
    if (frame.size == 0) {
      queue_->give_back_frame(number);
      continue;
    }
    SKUA_CHECK(frame.size >= kPacketHeaderBytes && frame.size <= frame.room, "a frame of a size that no packet has");
    Peer& peer = peers_.at(frame.peer);
    if (!usable(peer)) {
      queue_->give_back_frame(number);
      ++stats_.tx_unsendable;
      continue;
    }
    peer.last_used_ns = now_ns_;
    build(peer, frame);
  }
  queue_->post();
}

size_t VerbsTransport::reap(std::span<TxToken> tokens) {
  return queue_->tokens_waiting() ? queue_->reap(tokens) : 0;
}

void VerbsTransport::abandon_tx() {
  const TimeNs give_up = clock_.now_ns() + kLettingGo;
  while (queue_->tokens_waiting() && queue_->completed_count() < queue_->built_count() && !queue_->in_error() &&
         clock_.now_ns() < give_up) {
    queue_->poll_sent();
  }
  if (!queue_->tokens_waiting() || queue_->completed_count() == queue_->built_count()) return;
  // After a reset the queue reads no memory.
  if (!queue_->restart().ok()) queue_->give_up();
}

// --- Receive ---------------------------------------------------------------------------------------------------------

size_t VerbsTransport::rx_burst(std::span<RxPacket> packets) {
  if (connections_ != nullptr) {
    connections_->renew_notice_room();
    connections_->look_into_inbox();
  }
  const std::span<const UdQueue::Received> received = queue_->poll_received(packets.size());
  if (!received.empty()) return accept_all(received, packets);
  if (queue_->in_error()) [[unlikely]] {
    recover(clock_.now_ns());
  }
  queue_->refill();
  return 0;
}

inline VerbsTransport::Fate VerbsTransport::accept(const UdQueue::Received& received, RxPacket& out) {
  if (received.bytes.size() < kGrhBytes + kPacketHeaderBytes) {
    ++stats_.rx_short;
    return Fate::kDropped;
  }
  Source source{0, received.source_lid, received.source_qp};
  if (received.has_grh) {
    const std::optional<Source> parsed =
        parse_grh(received.bytes.first(kGrhBytes), received.source_qp, address_.network, address_.gid);
    if (!parsed.has_value()) {
      ++stats_.rx_bad_network_header;
      return Fate::kDropped;
    }
    source = *parsed;
  }
  out.from = peers_.find(source);
  const ByteSpan datagram = received.bytes.subspan(kGrhBytes);
  if (ConnectMessage::is_one(datagram) || JoinMessage::is_one(datagram)) [[unlikely]] {
    accept_own(out.from, datagram);
    return Fate::kOwn;
  }
  out.placed = false;
  out.header = received.bytes.subspan(kGrhBytes, kPacketHeaderBytes);
  out.payload = received.bytes.subspan(kGrhBytes + kPacketHeaderBytes);
  out.buffer = received.buffer;
  out.placement = 0;
  counters_.rx_bytes += out.payload.size();
  counters_.rx_zero_copy_bytes += out.payload.size();
  return Fate::kEngine;
}

size_t VerbsTransport::accept_all(std::span<const UdQueue::Received> received, std::span<RxPacket> packets) {
  size_t filled = 0;
  for (const UdQueue::Received& one : received) {
    const Fate fate = accept(one, packets[filled]);
    if (fate == Fate::kEngine) {
      ++filled;
      continue;
    }
    queue_->give_back(one.buffer);
    if (fate == Fate::kDropped) ++counters_.rx_dropped;
  }
  counters_.rx_packets += filled;
  // Posting buffers must not delay answers: release() and the next fruitless poll post them.
  if (queue_->is_short_of_buffers()) queue_->refill();
  return filled;
}

void VerbsTransport::accept_own(PeerId from, ByteSpan datagram) {
  ++stats_.rx_own;
  if (connections_ != nullptr) connections_->on_datagram(from, datagram, clock_.now_ns());
}

void VerbsTransport::release(std::span<const RxBufferId> buffers) {
  for (const RxBufferId buffer : buffers) queue_->give_back(static_cast<uint32_t>(buffer));
  queue_->refill();
}

// --- Memory, sleep ---------------------------------------------------------------------------------------------------

absl::Status VerbsTransport::register_region(MutableByteSpan region) {
  absl::StatusOr<Registration> registration = device_.memory().acquire(region);
  if (!registration.ok()) return registration.status();
  regions_.add(region, *registration);
  return absl::OkStatus();
}

void VerbsTransport::unregister_region(MutableByteSpan region) {
  if (connections_ != nullptr) connections_->forget(region);
  if (regions_.remove(region)) device_.memory().release(region);
}

void VerbsTransport::wait(DurationNs timeout_ns) {
  if (connections_ != nullptr) connections_->begin_sleep();
  sleep(timeout_ns);
  if (connections_ != nullptr) connections_->end_sleep();
}

void VerbsTransport::sleep(DurationNs timeout_ns) {
  // A sleeping endpoint has few turns, so each turn looks at the links.
  turns_ = kTurnsPerLook - 1;
  if (queue_->in_error()) recover(clock_.now_ns());
  if (connections_ != nullptr) {
    connections_->renew_notice_room();
    timeout_ns = std::min(timeout_ns, std::max<DurationNs>(connections_->next_timer_ns() - clock_.now_ns(), 0));
  }
  if (queue_->in_error()) {
    // A queue that does not restart can only be tried again later.
    timeout_ns = std::min(timeout_ns, kRestartEvery);
  } else {
    queue_->refill();
    if (!channel_->arm()) queue_->set_error();
    // Completions that arrived before the channel was armed raise no event.
    const bool idle = queue_->idle();
    if (!idle || (connections_ != nullptr && !connections_->idle())) return;
  }
  const timespec time{timeout_ns / kSecond, timeout_ns % kSecond};
  // poll() ignores file descriptors below 0.
  const int shared_fd = connections_ != nullptr ? connections_->sleep_fd() : -1;
  const int own_fd = queue_->in_error() ? -1 : channel_->fd();
  std::array<pollfd, 3> ready = {pollfd{wake_fd_, POLLIN, 0}, pollfd{own_fd, POLLIN, 0}, pollfd{shared_fd, POLLIN, 0}};
  if (ppoll(ready.data(), ready.size(), &time, nullptr) <= 0) return;
  if (ready[0].revents != 0) {
    eventfd_t value;
    eventfd_read(wake_fd_, &value);
  }
  if (ready[1].revents != 0) channel_->disarm();
  if (ready[2].revents != 0) connections_->on_sleep_event();
}

void VerbsTransport::wake() {
  eventfd_write(wake_fd_, 1);
}

}  // namespace skua::rpc::verbs
