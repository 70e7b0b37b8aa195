// Connections of the simulated network, for transports with SimTransportOptions::connected. Packets on a connection
// arrive in order and once each, until it breaks. A connection breaks when a packet would be lost, when its path is
// blocked, and when an end dies.
#include <algorithm>
#include <utility>

#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc {
namespace {

/// Each end hears of a broken connection within this time. One end may hear of it after the other end has made a new
/// one.
constexpr uint64_t kTellMaxNs = 500 * kMillisecond;
/// SimFaults::loss is meant for packets. A connection breaks with this fraction of it, so that connections last longer.
constexpr double kBreakChance = 0.1;

}  // namespace

/// The connection for packets to `peer`, made if necessary; null: the peer cannot be reached.
SimNetwork::Connection* SimNetwork::connection_to(SimTransport& sender, PeerId peer) {
  SimTransport::Peer& known = sender.peers_[peer];
  if (known.connection != 0) return &connections_.at(known.connection);
  const auto found = known.address == 0 ? by_address_.end() : by_address_.find(known.address);
  const bool reachable =
      found != by_address_.end() && found->second->options_.connected && !is_cut(sender, known.address);
  if (!reachable) return nullptr;
  const uint64_t number = next_link_number_++;
  Connection& made = connections_[number];
  SimTransport& listener = *found->second;
  listener.peers_.push_back({sender.identity_.uuid, 0, number});
  made.ends = {{{sender.serial_, sender.address_, peer},
                {listener.serial_, listener.address_, static_cast<PeerId>(listener.peers_.size() - 1)}}};
  known.connection = number;
  sender.link_events_.push_back({peer, LinkEvent::Kind::kUp, listener.identity_, {}});
  listener.link_events_.push_back({made.ends[1].peer, LinkEvent::Kind::kUp, sender.identity_, {}});
  return &made;
}

bool SimNetwork::is_cut(const SimTransport& one, uint32_t other) const {
  return is_blocked(one.address_, other) || is_blocked(other, one.address_);
}

void SimNetwork::send_by_connection(SimTransport& sender, PeerId peer, std::unique_ptr<PacketBytes> bytes) {
  Connection* const connection = connection_to(sender, peer);
  if (connection == nullptr) {
    sender.tell_down(peer, "nobody is there");
    return recycle(std::move(bytes));
  }
  const uint64_t number = sender.peers_[peer].connection;
  const size_t to = connection->ends[0].serial == sender.serial_ ? 1 : 0;
  const auto other = by_serial_.find(connection->ends[to].serial);
  const bool cut = other == by_serial_.end() || is_cut(sender, other->second->address_);
  if (!connection->broken && (cut || rng_.chance(faults_.loss * kBreakChance))) {
    ++fates_.lost;
    break_connection(number, *connection);
  }
  if (connection->broken) return recycle(std::move(bytes));  // the sender has not heard of the break yet
  TimeNs when = clock_.now_ns() + sender.options_.latency_ns;
  if (rng_.chance(faults_.reorder))
    when += static_cast<DurationNs>(rng_.below(static_cast<uint64_t>(faults_.reorder_max_ns)));
  when = std::max(when, connection->ends[to].last_arrival_ns + 1);
  connection->ends[to].last_arrival_ns = when;
  Event event;
  event.place = Event::Place::kConnection;
  event.bytes = std::move(bytes);
  event.link_number = number;
  event.target = static_cast<uint32_t>(to);
  schedule(std::move(event), when - clock_.now_ns());
}

void SimNetwork::break_connection(uint64_t number, Connection& connection) {
  if (std::exchange(connection.broken, true)) return;
  ++fates_.connections_broken;
  for (uint32_t end = 0; end < connection.ends.size(); ++end) {
    Event event;
    event.place = Event::Place::kConnectionDown;
    event.link_number = number;
    event.target = end;
    schedule(std::move(event), static_cast<DurationNs>(rng_.below(kTellMaxNs)));
  }
}

void SimNetwork::break_connections() {
  for (auto& [number, connection] : connections_) break_connection(number, connection);
}

/// The transport `serial` is being destroyed; the other ends of its connections will hear of it.
void SimNetwork::break_connections_of(uint32_t serial) {
  for (auto& [number, connection] : connections_) {
    if (connection.ends[0].serial == serial || connection.ends[1].serial == serial)
      break_connection(number, connection);
  }
}

void SimNetwork::deliver_by_connection(Event& event) {
  const Connection& connection = connections_.at(event.link_number);
  const Connection::End& end = connection.ends[event.target];
  const auto receiver = by_serial_.find(end.serial);
  if (connection.broken || receiver == by_serial_.end()) return recycle(std::move(event.bytes));
  ++fates_.delivered;
  if (watch_) watch_(connection.ends[1 - event.target].address, end.address, *event.bytes);
  trace(2, *event.bytes);
  receiver->second->ring_.push_back({0, std::move(event.bytes), end.peer});
}

void SimNetwork::tell_of_break(const Event& event) {
  Connection& connection = connections_.at(event.link_number);
  const Connection::End& end = connection.ends[event.target];
  if (const auto told = by_serial_.find(end.serial); told != by_serial_.end()) {
    told->second->peers_[end.peer].connection = 0;
    told->second->tell_down(end.peer, "the connection broke");
  }
  // The broken connection stays in the map, because packets still under way look it up.
}

void SimTransport::tell_down(PeerId peer, const char* why) {
  std::erase_if(ring_, [&](Waiting& waiting) {
    if (waiting.peer != peer || waiting.bytes == nullptr) return false;
    network_.recycle(std::move(waiting.bytes));
    return true;
  });
  link_events_.push_back({peer, LinkEvent::Kind::kDown, {}, absl::UnavailableError(why)});
}

size_t SimTransport::poll_links(std::span<LinkEvent> events) {
  const size_t count = std::min(events.size(), link_events_.size());
  std::move(link_events_.begin(), link_events_.begin() + static_cast<std::ptrdiff_t>(count), events.begin());
  link_events_.erase(link_events_.begin(), link_events_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void SimTransport::reject(PeerId peer, const absl::Status& /*why*/) {
  const uint64_t number = peers_[peer].connection;
  if (number != 0) network_.break_connection(number, network_.connections_.at(number));
}

}  // namespace skua::rpc
