// TestNode: a TcpTransport on loopback with what an engine would hold: a placer, received packets,
// reaped tokens, link events. Nodes are stepped by hand, on one thread unless a test says
// otherwise.
#ifndef SKUA_TESTS_RPC_TRANSPORT_TCP_TEST_NODE_H_
#define SKUA_TESTS_RPC_TRANSPORT_TCP_TEST_NODE_H_

#include <chrono>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rpc/base/rng.h"
#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::rpc::tcp {

inline Uuid make_uuid(uint8_t value) {
  Uuid uuid;
  uuid.bytes.fill(value);
  return uuid;
}

inline std::string random_text(size_t bytes, uint64_t seed) {
  Rng rng(seed);
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(rng.next());
  return out;
}

/// The header of test packet `number`: its first byte is as the engine's, the others are anything.
inline std::array<std::byte, kPacketHeaderBytes> make_header(uint64_t number) {
  std::array<std::byte, kPacketHeaderBytes> header;
  for (size_t i = 0; i < 4; ++i) store_le(header.data() + 8 * i, mix64(number) + i);
  header[0] = std::byte{0x11};
  store_le(header.data() + 8, number);
  return header;
}

/// Bundle `number`, which says that it has `bytes` bytes, and has; at least kBundleBytesMin.
inline std::string make_bundle(uint64_t number, uint32_t bytes) {
  std::string bundle = random_text(bytes, number);
  auto* at = reinterpret_cast<std::byte*>(bundle.data());
  at[0] = std::byte{0x21};
  store_le(at + 4, bytes);
  store_le(at + 8, number);
  return bundle;
}

/// Of a packet or a bundle.
inline uint64_t number_of(ByteSpan header) {
  return load_le<uint64_t>(header.data() + 8);
}

/// Options of the endpoint with uuid `id`, listening on an ephemeral loopback port.
inline TcpOptions node_options(uint8_t id, uint64_t incarnation = 1) {
  TcpOptions options;
  options.listen_ip = "127.0.0.1";
  options.self = {.uuid = make_uuid(id), .incarnation = incarnation, .cluster_id = make_uuid(0xCC)};
  options.rx_chunk_count = 16;
  return options;
}

/// Gives memory for every payload, and remembers what became of it.
class TestPlacer final : public RxPlacer {
 public:
  Placement place(PeerId /*from*/, ByteSpan header, size_t payload_bytes) override {
    ++placed;
    EXPECT_EQ(header.size(), kPacketHeaderBytes);
    if (refuse) return {};
    const uint64_t cookie = ++last_cookie;
    buffers[cookie].resize(payload_bytes);
    return {reinterpret_cast<std::byte*>(buffers[cookie].data()), cookie};
  }
  void abandon(uint64_t cookie) override {
    EXPECT_EQ(buffers.erase(cookie), 1U);
    ++abandoned;
  }

  bool refuse = false;
  int placed = 0;
  int abandoned = 0;
  uint64_t last_cookie = 0;
  std::map<uint64_t, std::string> buffers;
};

struct Received {
  PeerId from = kNoPeer;
  uint64_t number = 0;
  bool placed = false;
  /// Of a bundle: the whole of it.
  std::string payload;
  bool is_bundle = false;
};

class TestNode {
 public:
  explicit TestNode(const TcpOptions& options) {
    auto created = TcpTransport::create(options);
    EXPECT_TRUE(created.ok()) << created.status();
    if (!created.ok()) return;
    transport = std::move(*created);
    transport->set_placer(&placer);
  }

  Transport* operator->() { return transport.get(); }

  PeerId resolve(TestNode& other) { return resolve(other.transport->local_descriptor()); }
  PeerId resolve(const Descriptor& descriptor) {
    const absl::StatusOr<PeerId> peer = transport->resolve(descriptor);
    EXPECT_TRUE(peer.ok()) << peer.status();
    return peer.value_or(kNoPeer);
  }

  /// Offers one packet; `payload` must stay until its token is reaped. Returns whether it was
  /// taken.
  bool send(PeerId to, uint64_t number, const std::string& payload, TxToken token = kNoToken) {
    TxPacket packet = make_packet(to, number, payload, token);
    const bool taken = transport->tx_burst({&packet, 1}) == 1;
    if (taken && packet.done && token != kNoToken) completed.push_back(token);
    return taken;
  }

  static TxPacket make_packet(PeerId to, uint64_t number, const std::string& payload, TxToken token = kNoToken) {
    TxPacket packet;
    packet.peer = to;
    packet.token = token;
    packet.header = make_header(number);
    packet.payload_bytes = static_cast<uint32_t>(payload.size());
    if (!payload.empty()) {
      packet.segment_count = 1;
      packet.segments[0] = as_byte_span(payload);
    }
    return packet;
  }

  /// False: there is no frame now.
  bool send_bundle(PeerId to, const std::string& bundle) {
    TxFrame frame = transport->take_frame(to);
    if (frame.bytes == nullptr) return false;
    fill(frame, bundle);
    transport->send_frames({&frame, 1});
    return true;
  }
  static void fill(TxFrame& frame, const std::string& bundle) {
    ASSERT_LE(bundle.size(), frame.room);
    std::memcpy(frame.bytes, bundle.data(), bundle.size());
    // As an engine may.
    std::memset(frame.bytes + bundle.size(), 0xee, kFrameSlack);
    frame.size = static_cast<uint32_t>(bundle.size());
  }

  /// The payload must outlive the packet.
  static TxPacket make_packet(PeerId, uint64_t, std::string&&, TxToken = kNoToken) = delete;

  /// One receive burst, reap and link poll.
  size_t step() {
    std::array<RxPacket, kBurstMax> packets;
    const size_t count = transport->rx_burst(packets);
    for (const RxPacket& packet : std::span(packets).first(count)) take(packet);
    std::array<TxToken, 16> tokens;
    for (size_t n = 1; n > 0;) {
      n = transport->reap(tokens);
      completed.insert(completed.end(), tokens.begin(), tokens.begin() + static_cast<long>(n));
    }
    std::array<LinkEvent, 2> events;
    for (size_t n = 1; n > 0;) {
      n = transport->poll_links(events);
      for (size_t i = 0; i < n; ++i) links.push_back(events[i]);
    }
    return count;
  }

  void release_held() {
    transport->release(held);
    held.clear();
  }

  [[nodiscard]] size_t count_links(LinkEvent::Kind kind) const {
    size_t count = 0;
    for (const LinkEvent& event : links) count += event.kind == kind ? 1 : 0;
    return count;
  }

  TestPlacer placer;
  std::unique_ptr<TcpTransport> transport;
  std::deque<Received> received;
  std::vector<TxToken> completed;
  std::vector<LinkEvent> links;
  /// True: keep lent buffers in `held` instead of releasing them.
  bool hold = false;
  std::vector<RxBufferId> held;

 private:
  void take(const RxPacket& packet) {
    Received got;
    got.from = packet.from;
    got.number = number_of(packet.header);
    got.placed = packet.placed;
    got.is_bundle = is_bundle_header(packet.header.data());
    if (got.is_bundle) {
      EXPECT_FALSE(packet.placed);
      EXPECT_EQ(packet.payload.data(), packet.header.data() + kPacketHeaderBytes) << "in one piece";
      got.payload = as_string_view(packet.header);
    } else {
      const auto expected = make_header(got.number);
      EXPECT_TRUE(std::equal(packet.header.begin(), packet.header.end(), expected.begin()));
    }
    got.payload += as_string_view(packet.payload);
    if (packet.placed) {
      EXPECT_EQ(packet.buffer, kNoBuffer);
      EXPECT_EQ(placer.buffers.erase(packet.placement), 1U);
    }
    received.push_back(std::move(got));
    if (packet.buffer == kNoBuffer) return;
    if (hold) {
      held.push_back(packet.buffer);
    } else {
      transport->release({&packet.buffer, 1});
    }
  }
};

/// Steps the nodes in turn until `condition`, for at most 20 s; false: it never came.
template <typename Condition>
bool run_until(std::initializer_list<TestNode*> nodes, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    for (TestNode* node : nodes) node->step();
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

}  // namespace skua::rpc::tcp

#endif  // SKUA_TESTS_RPC_TRANSPORT_TCP_TEST_NODE_H_
