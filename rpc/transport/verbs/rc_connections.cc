#include "rpc/transport/verbs/rc_connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "rpc/base/check.h"

namespace skua::rpc::verbs {
namespace {

constexpr uint32_t kPsnMask = 0xffffff;
/// A neighbour that the kernel was asked for is known to it for longer than this.
constexpr DurationNs kWayKnownFor = 10 * kSecond;
/// After an attempt that failed.
constexpr DurationNs kConnectAgainAfter = 200 * kMillisecond;
constexpr DurationNs kLookEvery = 2 * kMillisecond;
/// Queue pairs asked for their state in one look, each a system call.
constexpr size_t kWatchedAtOnce = 16;
constexpr size_t kConnectionsMax = 4096;

}  // namespace

// --- Making ----------------------------------------------------------------------------------------------------------

RcConnections::RcConnections(RcHost& host, Device& device, AddressResolver& resolver, CompletionChannel& channel,
                             Rng rng)
    : host_(host), device_(device), resolver_(resolver), channel_(channel), rng_(rng), slots_(kSlots) {
  for (auto i = static_cast<uint32_t>(kSlots); i-- > 0;) free_.push_back(i);
  done_.reserve(3 * kSlots + 2 * kWindowsMax + kNoticesMax);
  to_invalidate_.reserve(kWindowsMax);
}

absl::StatusOr<std::unique_ptr<RcConnections>> RcConnections::create(RcHost& host, Device& device,
                                                                     AddressResolver& resolver,
                                                                     CompletionChannel& channel, Rng rng) {
  if (device.limits().max_qp_rd_atom <= 0) return absl::UnimplementedError("the device has no READs");
  std::unique_ptr<RcConnections> out(new RcConnections(host, device, resolver, channel, rng));
  // Room for what ended queue pairs left as well.
  absl::StatusOr<ibv_cq*> queue = channel.make_queue(2 * (kSlots + kNoticesMax));
  if (!queue.ok()) return queue.status();
  out->completions_ = *queue;
  return out;
}

RcConnections::~RcConnections() {
  for (PeerId peer = 0; peer < connections_.size(); ++peer) {
    if (connections_[peer] != nullptr) sever(peer);
  }
  connections_.clear();
  for (const Window& window : windows_) {
    if (window.window != nullptr) ibv_dealloc_mw(window.window);
  }
  if (completions_ != nullptr) channel_.destroy(completions_);
  for (const RegionTable::Region& region : local_.all()) device_.local_memory().release(region.bytes);
  for (const auto& [key, registration] : open_) device_.close_memory(registration);
}

size_t RcConnections::queue_pairs() const {
  return static_cast<size_t>(
      std::ranges::count_if(connections_, [](const auto& c) { return c != nullptr && c->queue != nullptr; }));
}

// --- Connecting ------------------------------------------------------------------------------------------------------

RcConnections::Connection& RcConnections::at(PeerId peer) {
  if (peer >= connections_.size()) connections_.resize(size_t{peer} + 1);
  if (connections_[peer] == nullptr) connections_[peer] = std::make_unique<Connection>();
  return *connections_[peer];
}

uint64_t RcConnections::connection(PeerId peer) {
  const Connection& connection = at(peer);
  if (connection.progress.was_held() && connection.progress.is_held(clock_.now_ns())) return 0;
  return ready(peer) ? connection.handshake.connection() : 0;
}

bool RcConnections::ready(PeerId peer) {
  Connection& connection = at(peer);
  if (connection.handshake.ready()) return !connection.broken;
  const TimeNs now = clock_.now_ns();
  if (!connection.handshake.running() && now >= connection.not_before_ns) start(peer, connection, now);
  return false;
}

/// The kernel knows where the peer is. If not, it is being asked, elsewhere.
bool RcConnections::find_way(PeerId peer, Connection& connection, TimeNs now) {
  if (connection.way_known_ns != 0 && now - connection.way_known_ns < kWayKnownFor) return true;
  if (connection.way == nullptr) {
    const EndpointAddress& address = host_.address_of(peer);
    absl::StatusOr<std::shared_ptr<AddressHandle>> way =
        resolver_.resolve(address, needs_grh(host_.own_address(), address), 0);
    if (way.ok()) {
      connection.way = *std::move(way);
    } else {
      connection.not_before_ns = now + kConnectAgainAfter;
    }
  }
  if (connection.way == nullptr || connection.way->pending()) return false;
  const bool found = connection.way->get() != nullptr;
  connection.way.reset();
  if (found) connection.way_known_ns = now;
  if (!found) connection.not_before_ns = now + kConnectAgainAfter;
  return found;
}

void RcConnections::start(PeerId peer, Connection& connection, TimeNs now) {
  // A queue pair can be connected to itself nowhere that we know of: packets do.
  if (host_.address_of(peer) == host_.own_address()) return;
  if (!find_way(peer, connection, now)) {
    if (connection.way != nullptr) keep_waiting(peer, connection);
    return;
  }
  connection.handshake.begin(now);
  if (make_queue(connection, now)) run_timer(peer, connection, now);
  keep_waiting(peer, connection);
}

bool RcConnections::make_queue(Connection& connection, TimeNs now) {
  if (queue_pairs() < kConnectionsMax) {
    absl::StatusOr<std::unique_ptr<RcQueue>> queue =
        RcQueue::create(device_, completions_, static_cast<uint32_t>(rng_.next()) & kPsnMask);
    if (queue.ok()) connection.queue = *std::move(queue);
    connection.serial = ++last_serial_;
  }
  if (connection.queue != nullptr) return true;
  connection.handshake.end();
  connection.not_before_ns = now + kConnectAgainAfter;
  return false;
}

bool RcConnections::bind(PeerId peer, Connection& connection, const ConnectMessage& message, TimeNs now) {
  const EndpointAddress& address = host_.address_of(peer);
  RcQueue::Remote remote;
  remote.address = resolver_.attributes(address, needs_grh(host_.own_address(), address));
  remote.qp_number = message.qp_number;
  remote.psn = message.psn;
  remote.reads_served = message.reads_served;
  remote.mtu_bytes = address.mtu_bytes;
  if (connection.queue->bind(remote).ok()) {
    post_notice_room(peer, connection);
    return true;
  }
  end(peer, connection);
  connection.not_before_ns = now + kConnectAgainAfter;
  return false;
}

void RcConnections::on_datagram(PeerId from, ByteSpan datagram, TimeNs now) {
  const std::optional<ConnectMessage> message = ConnectMessage::decode(datagram);
  if (!message.has_value() || from == kNoPeer) {
    ++stats_.bad_messages;
    return;
  }
  Connection& connection = at(from);
  if (message->state != ConnectMessage::State::kClosed && !find_way(from, connection, now)) {
    if (connection.way != nullptr) keep_waiting(from, connection);
    return;  // the peer says it again
  }
  const bool was_ready = connection.handshake.ready();
  const RcHandshake::Action action = connection.handshake.on_message(*message, now);
  if (action.close || action.renew) {
    if (was_ready) ++stats_.broken;
    // end() ends the handshake too, which is that of the new queue pair already.
    const RcHandshake renewed = connection.handshake;
    end(from, connection);
    connection.handshake = renewed;
  }
  if (action.renew && !make_queue(connection, now)) return;
  if (action.bind && !bind(from, connection, *message, now)) return;
  if (connection.handshake.ready() && !was_ready) ++stats_.connected;
  if (action.answer) send(from, connection);
  if (connection.handshake.running() && !connection.handshake.ready()) keep_waiting(from, connection);
}

void RcConnections::keep_waiting(PeerId peer, Connection& connection) {
  if (connection.waiting) return;
  connection.waiting = true;
  waiting_.push_back(peer);
}

void RcConnections::run_timer(PeerId peer, Connection& connection, TimeNs now) {
  RcHandshake& handshake = connection.handshake;
  if (!handshake.running() && connection.way != nullptr && !connection.way->pending()) start(peer, connection, now);
  if (!handshake.running() || handshake.ready()) return;
  if (handshake.due(now)) return send(peer, connection);
  if (handshake.running()) return;
  end(peer, connection);  // nobody answers
  connection.not_before_ns = now + kConnectAgainAfter;
}

void RcConnections::run_timers(TimeNs now) {
  for (size_t i = 0; i < waiting_.size();) {
    const PeerId peer = waiting_[i];
    Connection& connection = *connections_[peer];
    run_timer(peer, connection, now);
    const bool goes_on = connection.way != nullptr || (connection.handshake.running() && !connection.handshake.ready());
    if (goes_on) {
      ++i;
      continue;
    }
    connection.waiting = false;
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
  }
}

TimeNs RcConnections::next_timer_ns() const {
  TimeNs next = reads_in_flight_ > 0 ? clock_.now_ns() + ReadProgress::kStalledAfter / 4 : kTimeNever;
  for (const PeerId peer : waiting_) {
    const Connection& connection = *connections_[peer];
    if (connection.way != nullptr) return clock_.now_ns() + kLookEvery;
    next = std::min(next, connection.handshake.next_due_ns());
  }
  return next;
}

void RcConnections::send(PeerId peer, const Connection& connection, bool closed) {
  if (connection.queue == nullptr) return;
  ConnectMessage message = connection.handshake.message();
  if (message.generation == 0) return;
  if (closed) message.state = ConnectMessage::State::kClosed;
  message.qp_number = connection.queue->number();
  message.psn = connection.queue->psn();
  message.reads_served = connection.queue->reads_served();
  host_.send_own(peer, message.encode());
}

// --- Ending ----------------------------------------------------------------------------------------------------------

void RcConnections::end(PeerId peer, Connection& connection) {
  // What was told to have arrived is told here, too: nothing more arrives, and what has is taken.
  if (connection.notices_posted > 0) {
    connection.ending = true;
    connection.queue->fail();
    poll();
    connection.ending = false;
    connection.notices_posted = 0;
  }
  close_windows(peer);
  connection.queue.reset();
  connection.handshake.end();
  // What completed before it ended has completed; the rest may or may not have run.
  poll();
  for (uint32_t i = 0; connection.in_flight > 0 && i < slots_.size(); ++i) {
    if (slots_[i].peer == peer) free_slot(i, false);
  }
  end_windows(peer);
}

void RcConnections::mark_broken(PeerId peer) {
  Connection* connection = find(peer);
  if (connection == nullptr || connection->broken || connection->ending || connection->queue == nullptr) return;
  connection->broken = true;
  broken_.push_back(peer);
}

void RcConnections::end_broken() {
  while (!broken_.empty()) {
    const PeerId peer = broken_.back();
    broken_.pop_back();
    Connection& connection = *connections_[peer];
    connection.broken = false;
    if (connection.queue == nullptr) continue;
    ++stats_.broken;
    send(peer, connection, true);
    end(peer, connection);
  }
}

void RcConnections::sever(PeerId peer) {
  Connection* connection = find(peer);
  if (connection == nullptr) return;
  if (connection->queue != nullptr) {
    ++stats_.severed;
    send(peer, *connection, true);
  }
  end(peer, *connection);
  end_broken();
}

void RcConnections::forget(PeerId peer) {
  Connection* connection = find(peer);
  if (connection == nullptr) return;
  end(peer, *connection);
  end_broken();
  const bool waiting = connection->waiting;
  const bool renewing = connection->renewing;
  const uint32_t windows = connection->windows;
  notices_reserved_ -= connection->notices_reserved;
  *connection = Connection();
  connection->waiting = waiting;
  connection->renewing = renewing;
  connection->windows = windows;
}

void RcConnections::give_up_stalled(TimeNs now) {
  if (reads_in_flight_ == 0) return;
  poll();  // nothing is stalled that waits here
  for (PeerId peer = 0; peer < connections_.size(); ++peer) {
    Connection* connection = connections_[peer].get();
    if (connection == nullptr || connection->broken || !connection->progress.is_stalled(now)) continue;
    connection->progress.hold_back(now);
    ++stats_.stalled;
    mark_broken(peer);
  }
}

void RcConnections::watch() {
  give_up_stalled(clock_.now_ns());
  for (size_t i = 0; i < std::min(kWatchedAtOnce, connections_.size()); ++i) {
    watch_next_ = (watch_next_ + 1) % connections_.size();
    const Connection* connection = connections_[watch_next_].get();
    if (connection == nullptr || connection->queue == nullptr || !connection->queue->in_error()) continue;
    mark_broken(static_cast<PeerId>(watch_next_));
  }
  end_broken();
}

void RcConnections::fail_for_test(PeerId peer) {
  if (Connection* connection = find(peer); connection != nullptr && connection->queue != nullptr) {
    connection->queue->fail();
  }
}

// --- Operations ------------------------------------------------------------------------------------------------------

size_t RcConnections::post(std::span<const OneSidedOperation> operations) {
  Batch batch;
  size_t taken = 0;
  for (; taken < operations.size(); ++taken) {
    if (done_count() >= kSlots) break;  // they are to be reaped first
    const OneSidedOperation& operation = operations[taken];
    const Connection* connection = find(operation.peer);
    const bool stands = connection != nullptr && connection->handshake.ready() && !connection->broken;
    const bool works =
        stands && (operation.connection == 0 || operation.connection == connection->handshake.connection());
    const RegionTable::Region* region = works ? local_region(operation.local) : nullptr;
    const bool has_entry = operation.kind == OneSidedOperation::Kind::kWriteWithNotice;
    const uint32_t local_key = region == nullptr ? 0 : region->key;
    const RegionTable::Region* entry = works && has_entry ? local_region(operation.entry) : region;
    if (region == nullptr || entry == nullptr) {
      ++stats_.operations_failed;
      done_.push_back({operation.cookie, false});
      continue;
    }
    if (batch.count > 0 && (batch.peer != operation.peer || batch.count >= kBurstMax)) flush(batch);
    if (!add(batch, operation, local_key, entry->key)) break;
  }
  flush(batch);
  return taken;
}

uint32_t RcConnections::take_slot(PeerId peer, Slot::Kind kind, uint64_t cookie) {
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.kind = kind;
  slot.cookie = cookie;
  slot.peer = peer;
  ++connections_[peer]->in_flight;
  return index;
}

ibv_send_wr& RcConnections::add_request(Batch& batch, ByteSpan bytes, uint32_t local_key) {
  ibv_send_wr& request = batch.requests[batch.count];
  ibv_sge& piece = batch.pieces[batch.count];
  if (batch.count > 0) batch.requests[batch.count - 1].next = &request;
  ++batch.count;
  piece = {reinterpret_cast<uintptr_t>(bytes.data()), static_cast<uint32_t>(bytes.size()), local_key};
  request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  return request;
}

bool RcConnections::add(Batch& batch, const OneSidedOperation& operation, uint32_t local_key, uint32_t entry_key) {
  Connection& connection = *connections_[operation.peer];
  if (!has_room(connection)) return false;
  const uint32_t index = take_slot(operation.peer, Slot::Kind::kOperation, operation.cookie);
  batch.peer = operation.peer;
  ibv_send_wr& request = add_request(batch, operation.local, local_key);
  request.wr_id = request_id(index);
  request.send_flags = IBV_SEND_SIGNALED;
  using Kind = OneSidedOperation::Kind;
  if (operation.kind == Kind::kRead && operation.connection != 0) {
    slots_[index].read_bytes = static_cast<uint32_t>(operation.local.size());
    connection.progress.on_post(clock_.now_ns());
    ++reads_in_flight_;
  }
  if (operation.kind == Kind::kWriteWithNotice) {
    // The connection keeps their order. One completes for both: where the first one fails, so does the second.
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = 0;
    request.wr.rdma.remote_addr = operation.address;
    request.wr.rdma.rkey = operation.key;
    ibv_send_wr& notice = add_request(batch, operation.entry, entry_key);
    notice.wr_id = request.wr_id;
    notice.send_flags = IBV_SEND_SIGNALED;
    notice.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    notice.imm_data = htonl(operation.number);
    notice.wr.rdma.remote_addr = operation.entry_address;
    notice.wr.rdma.rkey = operation.entry_key;
    return true;
  }
  if (operation.kind == Kind::kRead || operation.kind == Kind::kWrite) {
    request.opcode = operation.kind == Kind::kRead ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = operation.address;
    request.wr.rdma.rkey = operation.key;
    return true;
  }
  const bool add = operation.kind == Kind::kFetchAdd;
  request.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic.remote_addr = operation.address;
  request.wr.atomic.rkey = operation.key;
  request.wr.atomic.compare_add = add ? operation.operand : operation.expected;
  request.wr.atomic.swap = operation.operand;
  return true;
}

void RcConnections::flush(Batch& batch) {
  if (batch.count == 0) return;
  // What is refused completes with the connection, which is over.
  if (!connections_[batch.peer]->queue->post(batch.requests.data())) mark_broken(batch.peer);
  batch.count = 0;
}

size_t RcConnections::poll() {
  std::array<ibv_wc, kBurstMax> completions;
  size_t total = 0;
  for (;;) {
    const int count = ibv_poll_cq(completions_, static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < count; ++i) on_completion(completions.at(static_cast<size_t>(i)));
    if (count > 0) total += static_cast<size_t>(count);
    if (count < static_cast<int>(completions.size())) return total;
  }
}

void RcConnections::on_completion(const ibv_wc& completion) {
  const auto index = static_cast<uint32_t>(completion.wr_id);
  if ((index & kNoticeMark) != 0) return on_notice(completion);
  if (index >= slots_.size() || slots_[index].peer == kNoPeer || slots_[index].epoch != completion.wr_id >> 32) return;
  const bool ok = completion.status == IBV_WC_SUCCESS;
  const PeerId peer = slots_[index].peer;
  free_slot(index, ok);
  if (!ok) mark_broken(peer);
}

void RcConnections::free_slot(uint32_t index, bool ok) {
  Slot& slot = slots_[index];
  Connection& connection = *connections_[slot.peer];
  --connection.in_flight;
  if (const uint32_t bytes = std::exchange(slot.read_bytes, 0); bytes > 0) {
    connection.progress.on_end(ok ? bytes : 0, clock_.now_ns());
    --reads_in_flight_;
  }
  slot.peer = kNoPeer;
  ++slot.epoch;
  free_.push_back(index);
  if (slot.kind != Slot::Kind::kOperation) return on_window_done(slot.kind, static_cast<uint32_t>(slot.cookie), ok);
  if (!ok) ++stats_.operations_failed;
  done_.push_back({slot.cookie, ok});
}

size_t RcConnections::reap(std::span<OneSidedCompletion> completions) {
  const bool may_complete = free_.size() < slots_.size() || notices_reserved_ > 0;
  if (done_count() < completions.size() && may_complete) poll();
  if (!broken_.empty()) end_broken();
  if (!to_invalidate_.empty()) invalidate_waiting();
  const size_t count = std::min(completions.size(), done_count());
  std::copy_n(done_.begin() + static_cast<std::ptrdiff_t>(done_at_), count, completions.begin());
  done_at_ += count;
  for (const OneSidedCompletion& completion : completions.first(count)) {
    if (completion.kind != OneSidedCompletion::Kind::kNotice) continue;
    Connection* connection = find(completion.peer);
    if (connection == nullptr || connection->notices_waiting == 0) continue;
    --connection->notices_waiting;
    if (!std::exchange(connection->renewing, true)) to_renew_.push_back(completion.peer);
  }
  if (done_at_ == done_.size() || done_at_ >= kSlots) {
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(done_at_));
    done_at_ = 0;
  }
  return count;
}

bool RcConnections::idle() {
  poll();
  if (!broken_.empty()) end_broken();
  return done_count() == 0;
}

}  // namespace skua::rpc::verbs
