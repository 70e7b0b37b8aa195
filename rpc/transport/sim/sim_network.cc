#include "rpc/transport/sim/sim_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/crc32c.h"

namespace skua::rpc {
namespace {

constexpr std::byte kScribble{0xdd};
constexpr size_t kFreeBytesMax = 4096;
/// The limit is needed because payload_max_bytes of connections is much larger than a frame.
constexpr uint32_t kFrameRoomMax = 16 << 10;

bool later(TimeNs when_a, uint64_t tie_a, uint64_t number_a, TimeNs when_b, uint64_t tie_b, uint64_t number_b) {
  return std::tie(when_a, tie_a, number_a) > std::tie(when_b, tie_b, number_b);
}

constexpr auto kLaterEvent = [](const auto& a, const auto& b) {
  return later(a.when, a.tie, a.number, b.when, b.tie, b.number);
};

uint64_t fingerprint_of(const std::vector<ByteSpan>& memory) {
  uint32_t crc = 0;
  for (ByteSpan piece : memory) crc = crc32c_extend(crc, piece);
  return crc;
}

}  // namespace

// --- SimNetwork ------------------------------------------------------------------------------------------------------

SimNetwork::SimNetwork(uint64_t seed) : rng_(seed) {}

SimNetwork::~SimNetwork() {
  SKUA_CHECK(by_serial_.empty(), "a simulated transport outlives its network");
}

std::unique_ptr<SimTransport> SimNetwork::attach(uint32_t address, const EndpointIdentity& identity,
                                                 const SimTransportOptions& options) {
  SKUA_CHECK(by_address_.count(address) == 0, "a simulated address is in use");
  const uint32_t serial = next_serial_++;
  std::unique_ptr<SimTransport> transport(new SimTransport(*this, address, serial, identity, options));
  by_address_[address] = transport.get();
  by_serial_[serial] = transport.get();
  return transport;
}

TimeNs SimNetwork::next_event_ns() const {
  return events_.empty() ? kTimeNever : events_.front().when;
}

void SimNetwork::advance_to(TimeNs to) {
  while (!events_.empty() && events_.front().when <= to) {
    std::pop_heap(events_.begin(), events_.end(), kLaterEvent);
    Event event = std::move(events_.back());
    events_.pop_back();
    clock_.set(std::max(clock_.now_ns(), event.when));
    happen(event);
  }
  clock_.set(std::max(clock_.now_ns(), to));
}

void SimNetwork::schedule(Event event, DurationNs delay) {
  event.when = clock_.now_ns() + delay;
  event.tie = rng_.next();
  event.number = next_number_++;
  events_.push_back(std::move(event));
  std::push_heap(events_.begin(), events_.end(), kLaterEvent);
}

void SimNetwork::send(SimTransport& sender, TxPacket& packet) {
  std::unique_ptr<PacketBytes> bytes = take_bytes();
  bytes->assign(packet.header.begin(), packet.header.end());
  for (size_t i = 0; i < packet.segment_count; ++i) {
    bytes->insert(bytes->end(), packet.segments[i].begin(), packet.segments[i].end());
  }
  if (packet.token != kNoToken && rng_.chance(faults_.late_tx)) {
    Event read;
    read.from = sender.address_;
    read.to = sender.peers_[packet.peer].address;
    read.sender = sender.serial_;
    read.token = packet.token;
    read.memory.assign(packet.segments.begin(), packet.segments.begin() + packet.segment_count);
    read.fingerprint = fingerprint_of(read.memory);
    schedule(std::move(read), static_cast<DurationNs>(rng_.below(static_cast<uint64_t>(faults_.late_tx_max_ns))));
  } else {
    packet.done = true;
  }
  send_bytes(sender, packet.peer, std::move(bytes));
}

void SimNetwork::send_bytes(SimTransport& sender, PeerId peer, std::unique_ptr<PacketBytes> bytes) {
  if (sender.cut_off_) return recycle(std::move(bytes));
  if (sender.options_.connected) return send_by_connection(sender, peer, std::move(bytes));
  dispatch(sender, sender.peers_[peer].address, std::move(bytes));
}

void SimNetwork::dispatch(SimTransport& sender, uint32_t to, std::unique_ptr<PacketBytes> bytes) {
  const uint32_t from = sender.address_;
  if (is_blocked(from, to)) {
    ++fates_.blocked;
    return recycle(std::move(bytes));
  }
  if (rng_.chance(faults_.duplicate)) {
    ++fates_.duplicated;
    Event copy;
    copy.from = from;
    copy.to = to;
    copy.bytes = take_bytes();
    *copy.bytes = *bytes;
    if (switch_.bytes_per_second > 0) copy.place = Event::Place::kSwitch;
    schedule(std::move(copy), sender.options_.latency_ns +
                                  static_cast<DurationNs>(rng_.below(static_cast<uint64_t>(faults_.reorder_max_ns))));
  }
  if (rng_.chance(faults_.loss)) {
    ++fates_.lost;
    trace(1, *bytes);
    return recycle(std::move(bytes));
  }
  if (rng_.chance(faults_.corrupt)) {
    ++fates_.corrupted;
    const uint64_t bit = rng_.below(bytes->size() * 8);
    (*bytes)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  DurationNs delay = sender.options_.latency_ns;
  if (rng_.chance(faults_.reorder)) {
    ++fates_.reordered;
    delay += static_cast<DurationNs>(rng_.below(static_cast<uint64_t>(faults_.reorder_max_ns)));
  }
  if (rng_.chance(faults_.clog)) {
    delay += static_cast<DurationNs>(rng_.below(static_cast<uint64_t>(faults_.clog_max_ns)));
  }
  if (const auto until = held_back_.find({from, to}); until != held_back_.end()) {
    delay = std::max(delay, until->second - clock_.now_ns());
  }
  Event event;
  event.from = from;
  event.to = to;
  event.bytes = std::move(bytes);
  if (switch_.bytes_per_second > 0) event.place = Event::Place::kSwitch;
  schedule(std::move(event), delay);
}

void SimNetwork::happen(Event& event) {
  if (event.place == Event::Place::kMemory) return perform(event);
  if (event.place == Event::Place::kConnect) return connect(event);
  if (event.place == Event::Place::kLoan) return turn_loan(event);
  if (event.place == Event::Place::kConnection) return deliver_by_connection(event);
  if (event.place == Event::Place::kConnectionDown) return tell_of_break(event);
  if (event.bytes == nullptr) return read_memory(event);
  if (event.place == Event::Place::kSwitch) return enter_switch(event);
  if (event.place == Event::Place::kSwitchOutput) switch_bytes_ -= event.bytes->size();
  deliver(event);
}

void SimNetwork::enter_switch(Event& event) {
  const size_t size = event.bytes->size();
  if (switch_bytes_ + size > switch_.buffer_bytes) {
    ++fates_.tail_dropped;
    trace(3, *event.bytes);
    return recycle(std::move(event.bytes));
  }
  switch_bytes_ += size;
  switch_peak_bytes_ = std::max(switch_peak_bytes_, switch_bytes_);
  TimeNs& link_free_ns = link_free_ns_[event.to];
  link_free_ns = std::max(link_free_ns, clock_.now_ns()) +
                 static_cast<DurationNs>(size * uint64_t{kSecond} / switch_.bytes_per_second);
  event.place = Event::Place::kSwitchOutput;
  const DurationNs delay = link_free_ns - clock_.now_ns();
  schedule(std::move(event), delay);
}

void SimNetwork::deliver(Event& event) {
  auto found = by_address_.find(event.to);
  if (found == by_address_.end() || found->second->cut_off_) {
    ++fates_.unaddressed;
    return recycle(std::move(event.bytes));
  }
  SimTransport& receiver = *found->second;
  const size_t waiting = receiver.ring_.size() - receiver.ring_head_;
  if (waiting + receiver.lent_count_ >= receiver.options_.rx_ring) {
    ++fates_.overflowed;
    return recycle(std::move(event.bytes));
  }
  ++fates_.delivered;
  if (watch_) watch_(event.from, event.to, *event.bytes);
  trace(2, *event.bytes);
  receiver.ring_.push_back({event.from, std::move(event.bytes)});
}

void SimNetwork::read_memory(Event& event) {
  auto found = by_serial_.find(event.sender);
  if (found == by_serial_.end()) return;  // the sender crashed, and its memory is gone
  if (fingerprint_of(event.memory) != event.fingerprint) ++violations_.tx_changed;
  found->second->completed_.push_back(event.token);
}

void SimNetwork::trace(uint64_t what, ByteSpan bytes) {
  trace_hash_ = mix64(trace_hash_ ^ mix64(static_cast<uint64_t>(clock_.now_ns()) + what) ^ crc32c(bytes));
}

std::unique_ptr<SimNetwork::PacketBytes> SimNetwork::take_bytes() {
  if (free_bytes_.empty()) return std::make_unique<PacketBytes>();
  std::unique_ptr<PacketBytes> bytes = std::move(free_bytes_.back());
  free_bytes_.pop_back();
  bytes->clear();
  return bytes;
}

void SimNetwork::recycle(std::unique_ptr<PacketBytes> bytes) {
  if (free_bytes_.size() < kFreeBytesMax) free_bytes_.push_back(std::move(bytes));
}

// --- SimTransport ----------------------------------------------------------------------------------------------------

SimTransport::SimTransport(SimNetwork& network, uint32_t address, uint32_t serial, const EndpointIdentity& identity,
                           const SimTransportOptions& options)
    : network_(network), address_(address), serial_(serial), identity_(identity), options_(options) {
  capabilities_.payload_max_bytes = options.payload_max_bytes;
  capabilities_.segments_max = kTxSegmentsMax;
  capabilities_.inline_max_bytes = options.inline_max_bytes;
  capabilities_.lendable_count = options.rx_ring;
  capabilities_.tx_completion = true;
  capabilities_.loopback = true;
  capabilities_.frames = true;
  capabilities_.frame_max_bytes = kFrameRoomMax;
  capabilities_.receives_in_memory = true;
  capabilities_.one_sided = options.one_sided;
  capabilities_.integrity = options.integrity;
  capabilities_.connected = capabilities_.reliable = capabilities_.ordered = options.connected;
}

SimTransport::~SimTransport() {
  network_.by_address_.erase(address_);
  network_.by_serial_.erase(serial_);
  network_.break_connections_of(serial_);
}

Descriptor SimTransport::local_descriptor() const {
  Descriptor out;
  out.transport = "sim";
  out.identity = identity_;
  out.address = absl::StrCat(address_);
  return out;
}

absl::StatusOr<PeerId> SimTransport::resolve(const Descriptor& peer) {
  uint32_t address = 0;
  if (peer.transport != "sim" || !absl::SimpleAtoi(peer.address, &address)) {
    return absl::InvalidArgumentError(absl::StrCat("not a simulated endpoint: ", peer.transport));
  }
  if (!identity_.cluster_id.is_zero() && peer.identity.cluster_id != identity_.cluster_id) {
    return absl::FailedPreconditionError("the endpoint belongs to another cluster");
  }
  if (auto found = peer_by_address_.find(address); found != peer_by_address_.end()) return found->second;
  peers_.push_back({peer.identity.uuid, address, 0});
  return peer_by_address_[address] = static_cast<PeerId>(peers_.size() - 1);
}

size_t SimTransport::tx_burst(std::span<TxPacket> packets) {
  size_t take = packets.size();
  if (network_.rng_.chance(network_.faults_.tx_full)) {
    take = network_.rng_.below(packets.size() + 1);
    ++counters_.tx_full;
  }
  for (TxPacket& packet : packets.first(take)) {
    ++counters_.tx_packets;
    counters_.tx_bytes += packet.payload_bytes;
    counters_.tx_zero_copy_bytes += packet.payload_bytes;
    network_.send(*this, packet);
  }
  return take;
}

TxFrame SimTransport::take_frame(PeerId peer) {
  const bool is_gone = peers_[peer].address == 0 && peers_[peer].connection == 0;
  const uint32_t room = std::min(static_cast<uint32_t>(kPacketHeaderBytes) + options_.payload_max_bytes, kFrameRoomMax);
  if (is_gone || room < kFrameRoomMin || !has_room(peer) || network_.rng_.chance(network_.faults_.tx_full)) return {};
  if (free_frames_.empty()) {
    free_frames_.push_back(static_cast<uint32_t>(frames_.size()));
    frames_.emplace_back();
  }
  const uint32_t cookie = free_frames_.back();
  free_frames_.pop_back();
  frames_[cookie] = network_.take_bytes();
  frames_[cookie]->assign(room + kFrameSlack, kScribble);
  return {.peer = peer, .size = 0, .bytes = frames_[cookie]->data(), .room = room, .cookie = cookie};
}

void SimTransport::send_frames(std::span<const TxFrame> frames) {
  for (const TxFrame& frame : frames) {
    SKUA_CHECK(frame.cookie < frames_.size() && frames_[frame.cookie] != nullptr, "a frame was sent that is not out");
    std::unique_ptr<SimNetwork::PacketBytes> bytes = std::move(frames_[frame.cookie]);
    free_frames_.push_back(static_cast<uint32_t>(frame.cookie));
    const bool is_dropped = !options_.connected && network_.rng_.chance(network_.faults_.tx_full);
    if (frame.size == 0 || is_dropped) {
      network_.recycle(std::move(bytes));
      continue;
    }
    SKUA_CHECK(frame.size >= kPacketHeaderBytes && frame.size <= frame.room, "a frame of a size that no packet has");
    bytes->resize(frame.size);
    ++counters_.tx_packets;
    counters_.tx_bytes += frame.size - kPacketHeaderBytes;
    network_.send_bytes(*this, frame.peer, std::move(bytes));
  }
}

size_t SimTransport::rx_burst(std::span<RxPacket> packets) {
  size_t count = 0;
  for (; count < packets.size() && ring_head_ < ring_.size(); ++count) {
    Waiting waiting = std::move(ring_[ring_head_++]);
    uint32_t id;
    if (lent_free_.empty()) {
      id = static_cast<uint32_t>(lent_.size());
      lent_.emplace_back();
    } else {
      id = lent_free_.back();
      lent_free_.pop_back();
    }
    auto from = peer_by_address_.find(waiting.from);
    const ByteSpan bytes(*waiting.bytes);
    packets[count] = {.from = waiting.peer != kNoPeer          ? waiting.peer
                              : from == peer_by_address_.end() ? kNoPeer
                                                               : from->second,
                      .placed = false,
                      .header = bytes.first(kPacketHeaderBytes),
                      .payload = bytes.subspan(kPacketHeaderBytes),
                      .buffer = id,
                      .placement = 0};
    lent_[id].bytes = std::move(waiting.bytes);
    ++lent_count_;
    ++counters_.rx_packets;
    counters_.rx_bytes += packets[count].payload.size();
  }
  if (ring_head_ == ring_.size()) {
    ring_.clear();
    ring_head_ = 0;
  }
  return count;
}

void SimTransport::release(std::span<const RxBufferId> buffers) {
  for (RxBufferId id : buffers) {
    if (id >= lent_.size() || lent_[id].bytes == nullptr) {
      ++network_.violations_.bad_release;
      continue;
    }
    std::fill(lent_[id].bytes->begin(), lent_[id].bytes->end(), kScribble);
    network_.recycle(std::move(lent_[id].bytes));
    lent_free_.push_back(static_cast<uint32_t>(id));
    --lent_count_;
  }
}

size_t SimTransport::reap(std::span<TxToken> tokens) {
  const size_t count = std::min(tokens.size(), completed_.size());
  std::copy_n(completed_.begin(), count, tokens.begin());
  completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void SimTransport::abandon_tx() {
  for (SimNetwork::Event& event : network_.events_) {
    if (event.bytes != nullptr || event.sender != serial_ || event.place != SimNetwork::Event::Place::kReceiver)
      continue;
    completed_.push_back(event.token);
    event.sender = 0;
  }
}

}  // namespace skua::rpc
