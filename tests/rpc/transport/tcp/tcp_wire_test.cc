// Two transports in network namespaces of their own, over a wire that loses packets: versions old and new, and memory
// that is written over as soon as it is free.
#include "gtest/gtest.h"
#include "tests/rpc/transport/tcp/test_node.h"
#include "tests/rpc/transport/tcp/tun_wire.h"

namespace skua::rpc::tcp {
namespace {

constexpr size_t kBuffers = 6;
constexpr size_t kBodyBytes = 100'000;
/// What freed memory is filled with: packets that hold this were made from memory that was free.
constexpr std::string_view kFreed = "freed memory, freed memory, freed memory, ";

TcpOptions wire_options(size_t side, uint16_t version_max) {
  TcpOptions options = node_options(static_cast<uint8_t>(side + 1));
  options.listen_ip = TunWire::kAddresses[side];
  options.version_max = version_max;
  options.zero_copy_above_bytes = 10'000;
  // The wire loses SYNs too, and the kernel writes each again a second later, then two, then four. A dial that is given
  // up takes its packets with it: nothing would write them again.
  options.connect_timeout_ns = 60 * kSecond;
  // A tun device copies what it is given.
  options.zero_copy_though_copied = true;
  return options;
}

/// Both sides send each other large packets, and bundles in between.
class Exchange {
 public:
  Exchange(TunWire& wire, uint16_t version_0, uint16_t version_1) : wire_(wire) {
    const std::array<uint16_t, 2> versions = {version_0, version_1};
    for (size_t side = 0; side < 2; ++side) {
      wire_.enter(side);
      sides_[side].node = std::make_unique<TestNode>(wire_options(side, versions[side]));
    }
    wire_.leave();
  }

  /// `drops`: see TunWire.
  void run(size_t packets, const std::function<bool(size_t, std::string_view)>& drops) {
    sides_[0].peer = sides_[0].node->resolve(*sides_[1].node);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!is_done(packets)) {
      for (size_t side = 0; side < 2; ++side) {
        wire_.enter(side);
        turn(sides_[side], packets, side);
      }
      wire_.carry(drops);
      // The second one answers by whatever peer the first one is to it.
      if (sides_[1].peer == kNoPeer && !sides_[1].node->received.empty()) {
        sides_[1].peer = sides_[1].node->received[0].from;
      }
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << "packets do not arrive" << state(sides_[0]) << state(sides_[1]);
    }
    wire_.leave();
    for (size_t side = 0; side < 2; ++side) check(sides_[side], sides_[1 - side]);
  }
  TestNode& node(size_t side) { return *sides_[side].node; }

 private:
  struct Side {
    std::unique_ptr<TestNode> node;
    PeerId peer = kNoPeer;
    std::array<std::string, kBuffers> memory;
    std::array<bool, kBuffers> is_held{};
    std::vector<std::string> sent;
  };

  static void turn(Side& side, size_t packets, uint64_t seed) {
    side.node->step();
    for (const TxToken token : std::exchange(side.node->completed, {})) {
      std::string& freed = side.memory[token - 1];
      for (size_t i = 0; i < freed.size(); ++i) freed[i] = kFreed[i % kFreed.size()];
      side.is_held[token - 1] = false;
    }
    if (side.peer == kNoPeer) return;
    for (size_t i = 0; i < kBuffers && side.sent.size() < packets; ++i) {
      if (side.is_held[i]) continue;
      side.memory[i].resize(kBodyBytes);
      side.memory[i] = random_text(kBodyBytes, 1000 * seed + side.sent.size());
      if (!side.node->send(side.peer, side.sent.size(), side.memory[i], i + 1)) return;
      side.is_held[i] = true;
      side.sent.push_back(side.memory[i]);
      if (side.sent.size() % 3 == 0) static_cast<void>(side.node->send_bundle(side.peer, make_bundle(1, 500)));
    }
  }
  [[nodiscard]] bool is_done(size_t packets) const {
    return std::all_of(sides_.begin(), sides_.end(), [packets](const Side& side) {
      return static_cast<size_t>(std::count_if(side.node->received.begin(), side.node->received.end(),
                                               [](const Received& got) { return !got.is_bundle; })) == packets;
    });
  }
  static std::string state(const Side& side) {
    std::string out = " [received " + std::to_string(side.node->received.size()) + ", sent " +
                      std::to_string(side.sent.size()) + ", links";
    for (const LinkEvent& event : side.node->links) {
      out += event.kind == LinkEvent::Kind::kDown ? " down: " : " up ";
      out += event.why.ToString();
    }
    return out + "]";
  }
  static void check(const Side& to, const Side& from) {
    size_t next = 0;
    for (const Received& got : to.node->received) {
      if (got.is_bundle) continue;
      EXPECT_EQ(got.number, next);
      ASSERT_TRUE(got.payload == from.sent[next++]);
    }
    EXPECT_EQ(to.node->count_links(LinkEvent::Kind::kDown), 0U);
  }

  TunWire& wire_;
  std::array<Side, 2> sides_;
};

TEST(TcpWire, AllVersions_TalkBothWays) {
  const std::array<std::array<uint16_t, 2>, 4> pairs = {{{1, 2}, {2, 1}, {2, 2}, {1, 1}}};
  for (const auto& [first, second] : pairs) {
    SCOPED_TRACE(first * 10 + second);
    TunWire wire;
    if (!wire.is_open()) GTEST_SKIP() << "needs root, network namespaces and /dev/net/tun";
    Exchange exchange(wire, first, second);
    exchange.run(60, [](size_t, std::string_view) { return false; });
    const bool is_new = first == 2 && second == 2;
    EXPECT_EQ(exchange.node(1).transport->stats().notices > 0, is_new);
    EXPECT_EQ(exchange.node(0).transport->stats().notices, 0U) << "callers are not asked";
  }
}

TEST(TcpWire, MemoryThatIsFree_IsNotSentAgain) {
  TunWire wire;
  if (!wire.is_open()) GTEST_SKIP() << "needs root, network namespaces and /dev/net/tun";
  Exchange exchange(wire, 2, 2);
  Rng rng(1);
  size_t freed = 0;
  exchange.run(60, [&](size_t, std::string_view packet) {
    freed += packet.find(kFreed) != std::string_view::npos ? 1 : 0;
    return rng.chance(0.02) || (packet.size() < 200 && rng.chance(0.2));
  });
  EXPECT_EQ(freed, 0U);
}

}  // namespace
}  // namespace skua::rpc::tcp
