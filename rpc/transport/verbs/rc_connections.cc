#include "rpc/transport/verbs/rc_connections.h"

#include <algorithm>
#include <utility>

#include "rpc/base/check.h"

namespace skua::rpc::verbs {
namespace {

constexpr uint32_t kPsnMask = 0xffffff;
/// After an address was resolved, the kernel knows the neighbour for longer than this.
constexpr DurationNs kAddressKnownFor = 10 * kSecond;
/// Pause after a failed attempt.
constexpr DurationNs kConnectAgainAfter = 200 * kMillisecond;
constexpr DurationNs kLookEvery = 2 * kMillisecond;
/// How many queue pairs one watch() queries; each query is a system call.
constexpr size_t kWatchedAtOnce = 16;
constexpr size_t kConnectionsMax = 4096;

}  // namespace

// --- Making ----------------------------------------------------------------------------------------------------------

RcConnections::RcConnections(RcHost& host, Device& device, AddressResolver& resolver, CompletionChannel& channel,
                             RcHub* hub, Rng rng)
    : host_(host),
      device_(device),
      resolver_(resolver),
      channel_(channel),
      rng_(rng),
      hub_(hub),
      inbox_([&host] { host.wake(); }, 2 * size_t{RcHub::kOwnerDepth}),
      slots_(kSlots) {
  mail_.reserve(2 * size_t{RcHub::kOwnerDepth});
  for (auto i = static_cast<uint32_t>(kSlots); i-- > 0;) free_.push_back(i);
  done_.reserve(3 * kSlots + 2 * kWindowsMax + kNoticesMax);
  to_invalidate_.reserve(kWindowsMax);
}

absl::StatusOr<std::unique_ptr<RcConnections>> RcConnections::create(RcHost& host, Device& device,
                                                                     AddressResolver& resolver,
                                                                     CompletionChannel& channel, RcHub* hub, Rng rng) {
  if (device.limits().max_qp_rd_atom <= 0) return absl::UnimplementedError("the device has no READs");
  std::unique_ptr<RcConnections> out(new RcConnections(host, device, resolver, channel, hub, rng));
  // Twice the entries, because completions of ended queue pairs may still be in the queue.
  absl::StatusOr<ibv_cq*> queue = channel.make_queue(2 * (kSlots + kNoticesMax));
  if (!queue.ok()) return queue.status();
  out->completions_ = *queue;
  if (hub != nullptr) out->owner_ = hub->add_owner(out->inbox_);
  return out;
}

RcConnections::~RcConnections() {
  for (Way way = 0; way < connections_.size(); ++way) {
    if (connections_[way] != nullptr) sever_way(way);
  }
  end_broken();
  connections_.clear();
  // No work request of this endpoint is under way on any pair.
  if (owner_ != 0) hub_->remove_owner(owner_);
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

size_t RcConnections::shared_ways() const {
  return static_cast<size_t>(
      std::ranges::count_if(connections_, [](const auto& c) { return c != nullptr && shared_number(*c) != 0; }));
}

RcConnections::Connection& RcConnections::at(Way way) {
  if (way >= connections_.size()) connections_.resize(size_t{way} + 1);
  if (connections_[way] == nullptr) connections_[way] = std::make_unique<Connection>();
  return *connections_[way];
}

uint64_t RcConnections::connection(PeerId peer) {
  if (owner_ != 0) {
    Connection& share = at(shared_way(peer));
    if (const uint64_t number = shared_number(share); number != 0) {
      PeerProgress& progress = share.pair->progress();
      return progress.was_held() && progress.is_held(clock_.now_ns()) ? 0 : number;
    }
    if (const TimeNs now = clock_.now_ns(); now >= share.alone_until_ns) {
      ask_to_join(peer, share, now);
      // Meanwhile use an own connection if one stands for other reasons.
      const Connection* own = find(own_way(peer));
      if (own == nullptr || !own->handshake.ready()) return 0;
    }
  }
  const Connection& connection = at(own_way(peer));
  if (connection.progress.was_held() && connection.progress.is_held(clock_.now_ns())) return 0;
  return ready(peer) ? connection.handshake.connection() : 0;
}

bool RcConnections::ready(PeerId peer) {
  Connection& connection = at(own_way(peer));
  if (connection.handshake.ready()) return !connection.broken;
  const TimeNs now = clock_.now_ns();
  if (!connection.handshake.running() && now >= connection.not_before_ns) start(peer, connection, now);
  return false;
}

/// True if the kernel knows the neighbour of the peer. If not, the resolver is asked.
bool RcConnections::find_address(Way way, Connection& connection, TimeNs now) {
  if (connection.address_known_ns != 0 && now - connection.address_known_ns < kAddressKnownFor) return true;
  if (connection.address == nullptr) {
    const EndpointAddress& address = host_.address_of(peer_of(way));
    absl::StatusOr<std::shared_ptr<AddressHandle>> handle =
        resolver_.resolve(address, needs_grh(host_.own_address(), address), PeerWord::kOwnDial, 0);
    if (handle.ok()) {
      connection.address = *std::move(handle);
    } else {
      connection.not_before_ns = now + kConnectAgainAfter;
    }
  }
  if (connection.address == nullptr || connection.address->pending()) return false;
  const bool found = connection.address->get() != nullptr;
  connection.address.reset();
  if (found) connection.address_known_ns = now;
  if (!found) connection.not_before_ns = now + kConnectAgainAfter;
  return found;
}

void RcConnections::start(PeerId peer, Connection& connection, TimeNs now) {
  // We know of no device that can connect a queue pair to itself; packets are used instead.
  if (host_.address_of(peer) == host_.own_address()) return;
  if (!find_address(own_way(peer), connection, now)) {
    if (connection.address != nullptr) keep_waiting(own_way(peer), connection);
    return;
  }
  connection.handshake.begin(now);
  if (make_queue(connection, now)) run_timer(own_way(peer), connection, now);
  keep_waiting(own_way(peer), connection);
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

/// The address of the peer's queue pairs.
RcQueue::Remote RcConnections::place_of(PeerId peer) const {
  const EndpointAddress& address = host_.address_of(peer);
  RcQueue::Remote out;
  out.address = resolver_.attributes(address, needs_grh(host_.own_address(), address));
  out.mtu_bytes = address.mtu_bytes;
  return out;
}

bool RcConnections::bind(PeerId peer, Connection& connection, const ConnectMessage& message, TimeNs now) {
  RcQueue::Remote remote = place_of(peer);
  remote.qp_number = message.qp_number;
  remote.psn = message.psn;
  remote.reads_served = message.reads_served;
  if (connection.queue->bind(remote).ok()) {
    post_notice_room(peer, connection);
    return true;
  }
  end(own_way(peer), connection);
  connection.not_before_ns = now + kConnectAgainAfter;
  return false;
}

void RcConnections::on_datagram(PeerId from, ByteSpan datagram, TimeNs now) {
  if (JoinMessage::is_one(datagram)) return on_join(from, datagram, now);
  on_connect(from, datagram, now);
}

void RcConnections::on_connect(PeerId from, ByteSpan datagram, TimeNs now) {
  const std::optional<ConnectMessage> message = ConnectMessage::decode(datagram);
  if (!message.has_value() || from == kNoPeer) {
    ++stats_.bad_messages;
    return;
  }
  Connection& connection = at(own_way(from));
  if (message->state != ConnectMessage::State::kClosed && !find_address(own_way(from), connection, now)) {
    if (connection.address != nullptr) keep_waiting(own_way(from), connection);
    return;  // the peer repeats the message
  }
  const bool was_ready = connection.handshake.ready();
  const RcHandshake::Action action = connection.handshake.on_message(*message, now);
  if (action.close || action.renew) {
    if (was_ready) ++stats_.broken;
    // end() also ends the handshake, but the handshake already belongs to the new queue pair, so it is restored.
    const RcHandshake renewed = connection.handshake;
    end(own_way(from), connection);
    connection.handshake = renewed;
  }
  if (action.renew && !make_queue(connection, now)) return;
  if (action.bind && !bind(from, connection, *message, now)) return;
  if (connection.handshake.ready() && !was_ready) ++stats_.connected;
  if (action.answer) send(from, connection);
  if (connection.handshake.running() && !connection.handshake.ready()) keep_waiting(own_way(from), connection);
}

void RcConnections::keep_waiting(Way way, Connection& connection) {
  if (connection.waiting) return;
  connection.waiting = true;
  waiting_.push_back(way);
}

void RcConnections::run_timer(Way way, Connection& connection, TimeNs now) {
  const PeerId peer = peer_of(way);
  if (is_shared(way)) return run_join_timer(peer, connection, now);
  RcHandshake& handshake = connection.handshake;
  if (!handshake.running() && connection.address != nullptr && !connection.address->pending())
    start(peer, connection, now);
  if (!handshake.running() || handshake.ready()) return;
  if (handshake.due(now)) return send(peer, connection);
  if (handshake.running()) return;
  end(way, connection);  // the peer did not answer
  connection.not_before_ns = now + kConnectAgainAfter;
}

bool RcConnections::is_waiting(Way way, const Connection& connection) {
  if (connection.address != nullptr) return true;
  return is_shared(way) ? connection.joining : connection.handshake.running() && !connection.handshake.ready();
}

void RcConnections::run_timers(TimeNs now) {
  for (size_t i = 0; i < waiting_.size();) {
    const Way way = waiting_[i];
    Connection& connection = *connections_[way];
    run_timer(way, connection, now);
    if (is_waiting(way, connection)) {
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
  for (const Way way : waiting_) {
    const Connection& connection = *connections_[way];
    if (connection.address != nullptr) return clock_.now_ns() + kLookEvery;
    next = std::min(next, is_shared(way) ? connection.schedule.next_due_ns() : connection.handshake.next_due_ns());
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

void RcConnections::end(Way way, Connection& connection) {
  if (is_shared(way)) return leave(way, connection);
  // If the peer was told that a notice arrived, this side must report the notice too. So first stop the arrival of
  // notices, then take those that arrived.
  if (connection.notices_posted > 0) {
    connection.ending = true;
    connection.queue->fail();
    poll();
    connection.ending = false;
    connection.notices_posted = 0;
  }
  close_windows(way);
  connection.queue.reset();
  connection.handshake.end();
  // Operations that completed before the end are reported as completed. The others may or may not have run.
  poll();
  free_slots_of(way, connection);
  end_windows(way);
}

void RcConnections::mark_broken(Way way) {
  Connection* connection = find(way);
  if (connection == nullptr || connection->broken) return;
  if (connection->ending) {
    connection->failed = true;
    return;
  }
  if (connection->queue == nullptr && connection->pair == nullptr) return;
  connection->broken = true;
  broken_.push_back(way);
}

void RcConnections::end_broken() {
  while (!broken_.empty()) {
    const Way way = broken_.back();
    broken_.pop_back();
    Connection& connection = *connections_[way];
    connection.broken = false;
    if (connection.queue == nullptr && connection.pair == nullptr) continue;
    ++stats_.broken;
    if (connection.pair != nullptr) {
      // Ends the pair for all its users.
      say_closed(peer_of(way), connection, hub_->end(*connection.pair));
    } else {
      send(peer_of(way), connection, true);
    }
    end(way, connection);
  }
}

void RcConnections::sever(PeerId peer) {
  sever_way(own_way(peer));
  sever_way(shared_way(peer));
  end_broken();
}

void RcConnections::sever_way(Way way) {
  Connection* connection = find(way);
  if (connection == nullptr) return;
  if (connection->queue != nullptr || connection->pair != nullptr) ++stats_.severed;
  if (is_shared(way)) {
    say_closed(peer_of(way), *connection, std::nullopt);
  } else {
    send(peer_of(way), *connection, true);
  }
  end(way, *connection);
}

void RcConnections::forget(PeerId peer) {
  forget_way(own_way(peer));
  forget_way(shared_way(peer));
}

void RcConnections::forget_way(Way way) {
  Connection* connection = find(way);
  if (connection == nullptr) return;
  end(way, *connection);
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
  poll();  // a completion that waits here is not a stall
  for (Way way = 0; way < connections_.size(); ++way) {
    Connection* connection = connections_[way].get();
    if (connection == nullptr || connection->broken) continue;
    if (connection->pair != nullptr) {
      if (!connection->pair->progress().give_up_stalled(now)) continue;
    } else if (connection->progress.is_stalled(now)) {
      connection->progress.hold_back(now);
    } else {
      continue;
    }
    ++stats_.stalled;
    mark_broken(way);
  }
}

void RcConnections::watch() {
  give_up_stalled(clock_.now_ns());
  for (size_t i = 0; i < std::min(kWatchedAtOnce, connections_.size()); ++i) {
    watch_next_ = (watch_next_ + 1) % connections_.size();
    const Connection* connection = connections_[watch_next_].get();
    if (connection == nullptr || (connection->queue == nullptr && connection->pair == nullptr)) continue;
    const bool fails = connection->pair != nullptr ? connection->pair->in_error() : connection->queue->in_error();
    if (fails) mark_broken(static_cast<Way>(watch_next_));
  }
  if (owner_ != 0) hub_->sweep(clock_.now_ns());
  end_broken();
}

void RcConnections::fail_for_test(PeerId peer) {
  if (Connection* own = find(own_way(peer)); own != nullptr && own->queue != nullptr) own->queue->fail();
  if (Connection* share = find(shared_way(peer)); share != nullptr && share->pair != nullptr) {
    share->pair->fail_for_test();
  }
}

}  // namespace skua::rpc::verbs
