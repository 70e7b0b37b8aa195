// A network of connections in memory, for tests of endpoints over a transport that is `connected`, as TCP is: made by
// the first packet, broken when the test wants it, made anew by whoever dialled.
//
//     A: peer 0, dialled  <==== connection: packets in order, each once ====>  B: peer 7, of this connection only
//
// break_connections() loses what was not received yet. Each side hears of it when the test wants it to.
#ifndef SKUA_TESTS_RPC_ENDPOINT_CONNECTED_NET_H_
#define SKUA_TESTS_RPC_ENDPOINT_CONNECTED_NET_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::testing {

class ConnectedTransport;

/// One way of a connection.
struct ConnectionEnd {
  ConnectedTransport* owner = nullptr;
  PeerId peer = kNoPeer;             // what the owner calls the other end
  std::deque<std::string> incoming;  // under way to the owner
  bool told = false;                 // the owner knows that it broke
};

struct Connection {
  ConnectionEnd dialer;
  ConnectionEnd listener;
  bool broken = false;

  ConnectionEnd& other(const ConnectedTransport* than) { return dialer.owner == than ? listener : dialer; }
  ConnectionEnd& of(const ConnectedTransport* whom) { return dialer.owner == whom ? dialer : listener; }
};

class ConnectedNet {
 public:
  std::unique_ptr<ConnectedTransport> attach(uint32_t address, const EndpointIdentity& identity);
  ConnectedTransport* find(uint32_t address) {
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? nullptr : found->second;
  }
  /// Up to so many packets of each way of each connection arrive.
  void deliver(size_t packets);
  /// All of them; what is under way is lost.
  void break_connections() {
    for (auto& connection : connections_) {
      if (connection->broken) continue;
      ++broken_count_;
      connection->broken = true;
      connection->dialer.incoming.clear();
      connection->listener.incoming.clear();
    }
  }
  /// One side hears of the connections that broke.
  void tell(ConnectedTransport& whom);
  Connection& connect(ConnectedTransport& dialer, PeerId peer, ConnectedTransport& listener);

  [[nodiscard]] size_t broken_count() const { return broken_count_; }
  /// While it is so nobody can be dialled.
  bool unreachable = false;
  ManualClock clock;

 private:
  friend class ConnectedTransport;
  std::map<uint32_t, ConnectedTransport*> by_address_;
  std::vector<std::unique_ptr<Connection>> connections_;
  size_t broken_count_ = 0;
};

class ConnectedTransport final : public Transport {
 public:
  ConnectedTransport(ConnectedNet& net, uint32_t address, const EndpointIdentity& identity)
      : net_(net), address_(address), identity_(identity) {
    capabilities_.payload_max_bytes = 1 << 20;
    capabilities_.segments_max = kTxSegmentsMax;
    capabilities_.lendable_count = 1024;
    capabilities_.reliable = capabilities_.ordered = capabilities_.connected = capabilities_.integrity = true;
  }
  ~ConnectedTransport() override { net_.by_address_.erase(address_); }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const TransportCounters& counters() const override { return counters_; }
  [[nodiscard]] Descriptor local_descriptor() const override {
    Descriptor out;
    out.transport = "connected";
    out.identity = identity_;
    out.address = absl::StrCat(address_);
    return out;
  }
  absl::StatusOr<PeerId> resolve(const Descriptor& descriptor) override {
    uint32_t address = 0;
    if (!absl::SimpleAtoi(descriptor.address, &address)) return absl::InvalidArgumentError("no address");
    for (PeerId id = 0; id < peers_.size(); ++id) {
      if (peers_[id].address == address) return id;
    }
    return new_peer(address);
  }
  size_t tx_burst(std::span<TxPacket> packets) override {
    for (TxPacket& packet : packets) {
      packet.done = true;
      send(packet);
    }
    return packets.size();
  }
  size_t rx_burst(std::span<RxPacket> packets) override {
    size_t count = 0;
    for (; count < packets.size() && !received_.empty(); ++count) {
      const RxBufferId id = next_buffer_++;
      const auto& [from, bytes] = lent_[id] = std::move(received_.front());
      received_.pop_front();
      const ByteSpan all = as_byte_span(bytes);
      packets[count] = {};
      packets[count].from = from;
      packets[count].header = all.first(kPacketHeaderBytes);
      packets[count].payload = all.subspan(kPacketHeaderBytes);
      packets[count].buffer = id;
    }
    return count;
  }
  void release(std::span<const RxBufferId> buffers) override {
    for (const RxBufferId id : buffers) lent_.erase(id);
  }
  size_t poll_links(std::span<LinkEvent> events) override {
    const size_t count = std::min(events.size(), events_.size());
    std::move(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count), events.begin());
    events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  void wait(DurationNs) override {}
  void wake() override {}

 private:
  friend class ConnectedNet;
  struct Peer {
    uint32_t address = 0;  // 0: it dialled
    Connection* connection = nullptr;
  };
  PeerId new_peer(uint32_t address) {
    peers_.push_back({address, nullptr});
    return static_cast<PeerId>(peers_.size() - 1);
  }
  void send(const TxPacket& packet) {
    Peer& peer = peers_[packet.peer];
    if (peer.connection == nullptr) {
      ConnectedTransport* const to = peer.address == 0 || net_.unreachable ? nullptr : net_.find(peer.address);
      if (to == nullptr) return tell_down(packet.peer);
      net_.connect(*this, packet.peer, *to);
    }
    Connection& connection = *peers_[packet.peer].connection;
    if (connection.broken) return;  // lost, and nobody here knows yet
    std::string bytes(reinterpret_cast<const char*>(packet.header.data()), packet.header.size());
    for (size_t i = 0; i < packet.segment_count; ++i) bytes.append(as_string_view(packet.segments[i]));
    connection.other(this).incoming.push_back(std::move(bytes));
  }
  void tell_down(PeerId peer) {
    peers_[peer].connection = nullptr;
    std::erase_if(received_, [peer](const auto& packet) { return packet.first == peer; });
    events_.push_back({.peer = peer,
                       .kind = LinkEvent::Kind::kDown,
                       .identity = {},
                       .why = absl::UnavailableError("the connection broke")});
  }

  ConnectedNet& net_;
  const uint32_t address_;
  const EndpointIdentity identity_;
  Capabilities capabilities_;
  TransportCounters counters_;
  std::vector<Peer> peers_;
  std::deque<std::pair<PeerId, std::string>> received_;
  std::map<RxBufferId, std::pair<PeerId, std::string>> lent_;
  RxBufferId next_buffer_ = 0;
  std::vector<LinkEvent> events_;
};

inline std::unique_ptr<ConnectedTransport> ConnectedNet::attach(uint32_t address, const EndpointIdentity& identity) {
  auto transport = std::make_unique<ConnectedTransport>(*this, address, identity);
  by_address_[address] = transport.get();
  return transport;
}

inline Connection& ConnectedNet::connect(ConnectedTransport& dialer, PeerId peer, ConnectedTransport& listener) {
  connections_.push_back(std::make_unique<Connection>());
  Connection& made = *connections_.back();
  made.dialer.owner = &dialer;
  made.dialer.peer = peer;
  made.listener.owner = &listener;
  made.listener.peer = listener.new_peer(0);
  for (ConnectionEnd* end : {&made.dialer, &made.listener}) {
    end->owner->peers_[end->peer].connection = &made;
    end->owner->events_.push_back({.peer = end->peer,
                                   .kind = LinkEvent::Kind::kUp,
                                   .identity = made.other(end->owner).owner->identity_,
                                   .why = absl::OkStatus()});
  }
  return made;
}

inline void ConnectedNet::deliver(size_t packets) {
  for (auto& connection : connections_) {
    for (ConnectionEnd* end : {&connection->dialer, &connection->listener}) {
      for (size_t i = 0; i < packets && !end->incoming.empty(); ++i) {
        end->owner->received_.emplace_back(end->peer, std::move(end->incoming.front()));
        end->incoming.pop_front();
      }
    }
  }
}

inline void ConnectedNet::tell(ConnectedTransport& whom) {
  for (auto& connection : connections_) {
    ConnectionEnd& end = connection->of(&whom);
    if (!connection->broken || end.owner != &whom || std::exchange(end.told, true)) continue;
    whom.tell_down(end.peer);
  }
  std::erase_if(connections_, [](const auto& connection) {
    return connection->broken && connection->dialer.told && connection->listener.told;
  });
}

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_ENDPOINT_CONNECTED_NET_H_
