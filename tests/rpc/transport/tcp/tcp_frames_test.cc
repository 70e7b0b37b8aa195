// Frames over connections: what the engine writes arrives as it was written, in order with packets, or its connection
// broke.
#include <algorithm>

#include "gtest/gtest.h"
#include "rpc/transport/tcp/address.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

/// Takes one frame, gives it back, until there is one.
bool wait_for_frames(TestNode& from, TestNode& to, PeerId peer) {
  return run_until({&from, &to}, [&] {
    TxFrame frame = from->take_frame(peer);
    if (frame.bytes == nullptr) return false;
    from->send_frames({&frame, 1});
    return true;
  });
}

TEST(TcpFrames, AreThereOnceAConnectionStands) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  EXPECT_TRUE(a->capabilities().frames);
  const PeerId to_b = a.resolve(b);
  EXPECT_EQ(a->take_frame(to_b).bytes, nullptr);
  EXPECT_EQ(a.transport->stats().dials, 1U) << "asking for a frame makes the connection";
  ASSERT_TRUE(wait_for_frames(a, b, to_b));
  const TxFrame frame = a->take_frame(to_b);
  EXPECT_GE(frame.room, kFrameRoomMin);
  EXPECT_EQ(frame.peer, to_b);
  a->send_frames({&frame, 1});
  EXPECT_EQ(a.transport->stats().dials, 1U);
  EXPECT_TRUE(a->has_room(to_b));
}

TEST(TcpFrames, DialThatFails_IsTriedAgainWhenAFrameIsAskedFor) {
  TcpOptions options = node_options(1);
  ManualClock clock;
  options.clock = &clock;
  options.reconnect_min_ns = kSecond;
  TestNode a(options);
  auto b = std::make_unique<TestNode>(node_options(2));
  const Descriptor whom = b->transport->local_descriptor();
  b.reset();
  const PeerId to_b = a.resolve(whom);
  EXPECT_EQ(a->take_frame(to_b).bytes, nullptr);
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(LinkEvent::Kind::kDown) == 1; }));
  EXPECT_EQ(a.transport->stats().dials, 1U);
  for (int i = 0; i < 100; ++i) a.step();
  EXPECT_EQ(a.transport->stats().dials, 1U) << "nobody wants it";
  EXPECT_EQ(a->take_frame(to_b).bytes, nullptr);
  a.step();
  EXPECT_EQ(a.transport->stats().dials, 1U) << "the pause is not over";
  clock.set(clock.now_ns() + 2 * kSecond);
  ASSERT_TRUE(run_until({&a}, [&] { return a.transport->stats().dials == 2; }));
}

TEST(TcpFrames, SizesFromSmallestToLargest_ArriveAsWritten) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(wait_for_frames(a, b, to_b));
  std::vector<std::string> bundles;
  for (const uint32_t bytes : {kBundleBytesMin, 41U, 64U, 255U, 256U, 4000U, 16U * 1024U}) {
    bundles.push_back(make_bundle(bundles.size(), bytes));
    ASSERT_TRUE(a.send_bundle(to_b, bundles.back()));
  }
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == bundles.size(); }));
  for (size_t i = 0; i < bundles.size(); ++i) {
    EXPECT_TRUE(b.received[i].is_bundle);
    EXPECT_TRUE(b.received[i].payload == bundles[i]);
  }
  EXPECT_EQ(a->counters().tx_copied_bytes, 0U);
  EXPECT_EQ(a->counters().tx_packets, bundles.size());
  EXPECT_EQ(b.placer.placed, 0);
  EXPECT_EQ(b.transport->stats().chunk_refs, 0U);
  // And back, by the caller's PeerId.
  ASSERT_TRUE(b.send_bundle(b.received[0].from, bundles[3]));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() == 1; }));
  EXPECT_TRUE(a.received[0].payload == bundles[3]);
}

TEST(TcpFrames, OfSeveralPeers_AreSentTogetherAndInOrder) {
  TestNode a(node_options(1));
  std::vector<std::unique_ptr<TestNode>> others;
  std::vector<PeerId> peers;
  for (uint8_t i = 0; i < 3; ++i) {
    others.push_back(std::make_unique<TestNode>(node_options(static_cast<uint8_t>(10 + i))));
    peers.push_back(a.resolve(*others.back()));
    ASSERT_TRUE(wait_for_frames(a, *others.back(), peers.back()));
  }
  std::vector<TxFrame> frames;
  for (uint64_t i = 0; i < 9; ++i) {
    frames.push_back(a->take_frame(peers[i % 3]));
    ASSERT_NE(frames.back().bytes, nullptr) << i;
  }
  for (uint64_t i = 0; i < 9; ++i) TestNode::fill(frames[i], make_bundle(i, 100 + static_cast<uint32_t>(i)));
  // Given back, in the midst of others.
  frames[4].size = 0;
  a->send_frames(frames);
  for (size_t p = 0; p < 3; ++p) {
    std::vector<uint64_t> expected;
    for (uint64_t i = p; i < 9; i += 3) {
      if (i != 4) expected.push_back(i);
    }
    ASSERT_TRUE(run_until({&a, others[p].get()}, [&] { return others[p]->received.size() == expected.size(); }));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(others[p]->received[i].payload == make_bundle(expected[i], 100 + static_cast<uint32_t>(expected[i])));
    }
  }
}

TEST(TcpFrames, InOrderWithPackets_AlsoBehindAFullSocket) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(wait_for_frames(a, b, to_b));
  const std::string body = random_text(300'000, 1);
  const std::string small = "small";
  uint64_t sent = 0;
  // Nobody reads: the socket fills, the queue as well.
  while (a->has_room(to_b)) {
    TxFrame early = a->take_frame(to_b);
    TxFrame late = a->take_frame(to_b);
    ASSERT_NE(early.bytes, nullptr);
    ASSERT_TRUE(a.send(to_b, sent, sent % 2 == 0 ? body : small));
    ++sent;
    // Taken before the packet, sent behind it, and in another order than they were taken.
    if (late.bytes != nullptr) {
      TestNode::fill(late, make_bundle(sent++, 5000));
      a->send_frames({&late, 1});
    }
    TestNode::fill(early, make_bundle(sent++, 100));
    a->send_frames({&early, 1});
  }
  EXPECT_EQ(a->take_frame(to_b).bytes, nullptr) << "where has_room() is false there is no frame";
  EXPECT_GT(a->counters().tx_copied_bytes, 0U) << "behind a full socket frames are copied";
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == sent; }));
  for (uint64_t i = 0; i < sent; ++i) {
    ASSERT_EQ(b.received[i].number, i);
    if (b.received[i].is_bundle) {
      EXPECT_TRUE(b.received[i].payload == make_bundle(i, static_cast<uint32_t>(b.received[i].payload.size())));
    }
  }
  EXPECT_TRUE(a->has_room(to_b));
  ASSERT_TRUE(a.send_bundle(to_b, make_bundle(sent, 100)));
}

TEST(TcpFrames, FramesAlone_FillTheSocketAndAllArrive) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(wait_for_frames(a, b, to_b));
  uint64_t sent = 0;
  // Frames are cut by the end of the socket's room wherever that is.
  while (a.send_bundle(to_b, make_bundle(sent, 40 + static_cast<uint32_t>(sent * 997 % 16'000)))) ++sent;
  EXPECT_FALSE(a->has_room(to_b));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == sent; }));
  for (uint64_t i = 0; i < sent; ++i) {
    ASSERT_TRUE(b.received[i].payload == make_bundle(i, 40 + static_cast<uint32_t>(i * 997 % 16'000))) << i;
  }
}

TEST(TcpFrames, ManyTaken_ThenNone_ThenAgain) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(wait_for_frames(a, b, to_b));
  std::vector<TxFrame> frames;
  while (true) {
    const TxFrame frame = a->take_frame(to_b);
    if (frame.bytes == nullptr) break;
    frames.push_back(frame);
    ASSERT_LT(frames.size(), 1000U) << "bounded";
  }
  EXPECT_EQ(frames.size(), kFramesOfPeerMax);
  EXPECT_FALSE(a->has_room(to_b));
  std::reverse(frames.begin(), frames.end());
  a->send_frames(frames);
  EXPECT_TRUE(a->has_room(to_b));
  EXPECT_EQ(a->counters().tx_packets, 0U) << "all were given back";
}

TEST(TcpFrames, ConnectionThatBreaksInBetween_LosesThem) {
  TestNode a(node_options(1));
  auto b = std::make_unique<TestNode>(node_options(2));
  const PeerId to_b = a.resolve(*b);
  ASSERT_TRUE(wait_for_frames(a, *b, to_b));
  std::array<TxFrame, 2> frames = {a->take_frame(to_b), a->take_frame(to_b)};
  TestNode::fill(frames[0], make_bundle(1, 100));
  TestNode::fill(frames[1], make_bundle(2, 100));
  // The same endpoint anew, where it was.
  TcpOptions options = node_options(2, 2);
  const auto address = SocketAddress::decode(as_byte_span(b->transport->local_descriptor().address));
  options.listen_port = address->port;
  b.reset();
  b = std::make_unique<TestNode>(options);
  ASSERT_TRUE(run_until({&a, b.get()}, [&] { return a.count_links(LinkEvent::Kind::kDown) == 1; }));
  a->send_frames({frames.data(), 1});
  ASSERT_TRUE(wait_for_frames(a, *b, to_b));
  a->send_frames({&frames[1], 1});
  ASSERT_TRUE(a.send_bundle(to_b, make_bundle(3, 100)));
  ASSERT_TRUE(run_until({&a, b.get()}, [&] { return !b->received.empty(); }));
  EXPECT_EQ(b->received[0].number, 3U) << "what was meant for the earlier connection is lost with it";
  EXPECT_EQ(a->counters().tx_packets, 1U);
  EXPECT_TRUE(a->has_room(to_b));
}

TEST(TcpFrames, ToACallerThatLeft_AreNoneAndAnEventTells) {
  TestNode a(node_options(1));
  auto b = std::make_unique<TestNode>(node_options(2));
  const PeerId from_b = b->resolve(a);
  ASSERT_TRUE(wait_for_frames(*b, a, from_b));
  ASSERT_TRUE(b->send_bundle(from_b, make_bundle(1, 100)));
  ASSERT_TRUE(run_until({&a, b.get()}, [&] { return a.received.size() == 1; }));
  const PeerId to_b = a.received[0].from;
  b.reset();
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(LinkEvent::Kind::kDown) == 1; }));
  EXPECT_EQ(a->take_frame(to_b).bytes, nullptr);
  a.step();
  EXPECT_EQ(a.count_links(LinkEvent::Kind::kDown), 2U);
}

TEST(TcpFrames, MalformedBundle_BreaksItsConnection) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(wait_for_frames(a, b, to_b));
  std::string lie = make_bundle(1, 100);
  store_le(reinterpret_cast<std::byte*>(lie.data()) + 4, uint32_t{90});
  ASSERT_TRUE(a.send_bundle(to_b, lie));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.count_links(LinkEvent::Kind::kDown) == 1; }));
  EXPECT_TRUE(b.received.empty());
  EXPECT_EQ(b->counters().rx_dropped, 1U);
}

}  // namespace
}  // namespace skua::rpc::tcp
