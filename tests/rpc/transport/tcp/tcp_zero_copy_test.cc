// Bodies that the kernel reads in place, and peers that tell what they have: over loopback, where the kernel copies in
// truth.
#include "gtest/gtest.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

constexpr size_t kLarge = 300'000;

TcpOptions zero_copy_options(uint8_t id, uint16_t version_max = 2) {
  TcpOptions options = node_options(id);
  options.zero_copy_above_bytes = 10'000;
  options.zero_copy_though_copied = true;
  options.version_max = version_max;
  return options;
}

/// So that the next packet finds a connection.
PeerId connect(TestNode& from, TestNode& to) {
  const PeerId peer = from.resolve(to);
  EXPECT_TRUE(from.send(peer, 1'000'000, "hello"));
  EXPECT_TRUE(run_until({&from, &to}, [&] { return to.received.size() == 1; }));
  to.received.clear();
  return peer;
}

TEST(TcpZeroCopy, KernelThatCopies_SwitchesItOffForThatPeer) {
  TcpOptions options = node_options(1);
  TestNode a(options);
  TestNode b(node_options(2));
  const PeerId to_b = connect(a, b);
  EXPECT_EQ(a.transport->stats().zero_copy_links, 1U);
  const std::string body = random_text(kLarge, 1);
  for (uint64_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(a.send(to_b, i, body, i));
    ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == i && a.completed.size() == i; }));
  }
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.transport->stats().zero_copy_links == 0; }));
  EXPECT_EQ(a.transport->stats().zero_copy_waiting, 0U);
  for (const Received& got : b.received) EXPECT_TRUE(got.payload == body);
}

TEST(TcpZeroCopy, AllVersions_MemoryIsFreeOnlyWhenItArrived) {
  const std::array<std::array<uint16_t, 2>, 4> pairs = {{{2, 2}, {2, 1}, {1, 2}, {1, 1}}};
  for (const auto& [version_a, version_b] : pairs) {
    SCOPED_TRACE(version_a * 10 + version_b);
    TestNode a(zero_copy_options(1, version_a));
    TestNode b(zero_copy_options(2, version_b));
    const PeerId to_b = connect(a, b);
    Rng rng(version_a);
    constexpr size_t kBuffers = 8;
    std::array<std::string, kBuffers> memory;
    std::array<uint64_t, kBuffers> holds{};
    std::vector<std::string> sent;
    while (sent.size() < 200) {
      for (const TxToken token : std::exchange(a.completed, {})) {
        // Whoever still read it would send this.
        std::string& freed = memory[token - 1];
        std::fill(freed.begin(), freed.end(), '!');
        holds[token - 1] = 0;
      }
      const size_t which = rng.below(kBuffers);
      if (holds[which] == 0) {
        memory[which] = random_text(rng.chance(0.3) ? rng.below(3000) : rng.below(kLarge), sent.size());
        if (a.send(to_b, sent.size(), memory[which], which + 1)) {
          holds[which] = 1;
          sent.push_back(memory[which]);
          if (rng.chance(0.3)) static_cast<void>(a.send_bundle(to_b, make_bundle(5, 100)));
        }
      }
      if (rng.chance(0.7)) a.step();
      if (rng.chance(0.7)) b.step();
    }
    ASSERT_TRUE(run_until({&a, &b}, [&] { return a.transport->stats().zero_copy_waiting == 0; }));
    std::erase_if(b.received, [](const Received& got) { return got.is_bundle; });
    ASSERT_TRUE(run_until({&a, &b}, [&] {
      std::erase_if(b.received, [](const Received& got) { return got.is_bundle; });
      return b.received.size() == sent.size();
    }));
    for (size_t i = 0; i < sent.size(); ++i) ASSERT_TRUE(b.received[i].payload == sent[i]) << i;
    EXPECT_EQ(a.transport->stats().zero_copy_links, 1U);
    EXPECT_EQ(a.count_links(LinkEvent::Kind::kDown), 0U);
    const bool both_speak_it = version_a == 2 && version_b == 2;
    EXPECT_EQ(b.transport->stats().notices > 0, both_speak_it);
  }
}

TEST(TcpZeroCopy, Notice_GoesWithTheNextFrameOrAlone) {
  TestNode a(zero_copy_options(1));
  TestNode b(zero_copy_options(2));
  const PeerId to_b = connect(a, b);
  const std::string body = random_text(kLarge, 1);
  ASSERT_TRUE(a.send(to_b, 1, body, 1));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
  EXPECT_EQ(b.transport->stats().notices, 0U) << "an answer may be coming";
  const PeerId to_a = b.received[0].from;
  ASSERT_TRUE(b.send_bundle(to_a, make_bundle(1, 100)));
  b.step();
  b.step();
  EXPECT_EQ(b.transport->stats().notices, 0U) << "the bundle told";
  ASSERT_TRUE(a.send(to_b, 2, body, 2));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 2; }));
  b.step();
  EXPECT_EQ(b.transport->stats().notices, 1U);
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.completed.size() == 2; }));
}

TEST(TcpZeroCopy, CallersAreNotAsked) {
  TestNode a(zero_copy_options(1));
  TestNode b(zero_copy_options(2));
  (void)connect(a, b);
  const std::string body = random_text(kLarge, 1);
  const PeerId to_a = 0;
  ASSERT_TRUE(b.send(to_a, 1, body, 1));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() == 1 && b.completed.size() == 1; }));
  EXPECT_EQ(b.transport->stats().zero_copy_links, 1U);
  a.step();
  a.step();
  EXPECT_EQ(a.transport->stats().notices, 0U);
}

/// Says that it has one more than it has.
void pack_lie(std::byte* to, const FramePrefix& prefix) {
  FramePrefix lie = prefix;
  ++lie.has;
  builtin_dialects()[1].pack(to, lie);
}

TEST(TcpZeroCopy, PeerThatClaimsWhatWasNotSent_IsCutOff) {
  TestNode a(zero_copy_options(1));
  Dialect liar = builtin_dialects()[1];
  liar.pack = pack_lie;
  const std::array<Dialect, 2> dialects = {builtin_dialects()[0], liar};
  TcpOptions options = node_options(2);
  options.dialects = dialects;
  TestNode b(options);
  (void)connect(a, b);
  ASSERT_TRUE(b.send(0, 1, "x"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.count_links(LinkEvent::Kind::kDown) == 1; }));
  EXPECT_EQ(a->counters().rx_dropped, 1U);
}

TEST(TcpZeroCopy, ConnectionThatBreaks_GivesAllTokensBack) {
  for (const bool peer_dies : {true, false}) {
    TestNode a(zero_copy_options(1));
    auto b = std::make_unique<TestNode>(zero_copy_options(2));
    const PeerId to_b = connect(a, *b);
    const std::string body = random_text(4 << 20, 1);
    uint64_t sent = 0;
    while (a.send(to_b, sent + 1, body, sent + 1)) ++sent;
    ASSERT_GT(sent, 1U);
    EXPECT_LT(a.completed.size(), sent);
    if (peer_dies) {
      b.reset();
      ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(LinkEvent::Kind::kDown) == 1; }));
      ASSERT_TRUE(run_until({&a}, [&] { return a.completed.size() == sent; }));
    } else {
      a->abandon_tx();
      a.step();
      EXPECT_EQ(a.completed.size(), sent);
    }
    EXPECT_EQ(a.transport->stats().zero_copy_waiting, 0U);
  }
}

}  // namespace
}  // namespace skua::rpc::tcp
