// Two and more transports on loopback: what an engine can rely on.
#include "rpc/transport/tcp/tcp_transport.h"

#include <poll.h>

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "rpc/transport/tcp/address.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

TEST(TcpTransport, Ping_BothWays) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string hello = "hello";
  ASSERT_TRUE(a.send(to_b, 7, hello));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !b.received.empty(); }));
  EXPECT_EQ(b.received[0].number, 7U);
  EXPECT_EQ(b.received[0].payload, "hello");
  ASSERT_TRUE(b.send(b.received[0].from, 8, hello));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !a.received.empty(); }));
  EXPECT_EQ(a.received[0].number, 8U);
  EXPECT_EQ(a.received[0].from, to_b);
  EXPECT_EQ(a.transport->stats().dials + b.transport->stats().dials, 1U);
}

TEST(TcpTransport, Sizes_AllArriveIntact) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  std::vector<size_t> sizes = {0, 1, 7, 8, 31, 32, 33, 2047, 2048, 2049, 16 * 1024, 16 * 1024 + 1};
  for (size_t size = 1; size <= size_t{16} << 20; size *= 2) {
    sizes.push_back(size);
    sizes.push_back(size + 13);
  }
  std::vector<std::string> payloads;
  for (size_t i = 0; i < sizes.size(); ++i) payloads.push_back(random_text(sizes[i], i));
  for (size_t i = 0; i < payloads.size(); ++i) {
    while (!a.send(to_b, i, payloads[i], i + 1)) {
      a.step();
      b.step();
    }
  }
  ASSERT_TRUE(run_until({&a, &b},
                        [&] { return b.received.size() == payloads.size() && a.completed.size() == payloads.size(); }));
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ(b.received[i].number, i);
    EXPECT_TRUE(b.received[i].payload == payloads[i]) << "size " << sizes[i];
  }
  EXPECT_EQ(b.transport->stats().chunk_refs, 0U);
  EXPECT_GT(b.placer.placed, 0);
  EXPECT_TRUE(b.placer.buffers.empty());
}

TEST(TcpTransport, Segments_AreGatheredInOrder) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::array<std::string, 5> parts = {random_text(200, 1), random_text(50'000, 2), "", random_text(10, 3),
                                            random_text(9000, 4)};
  const std::string none;
  TxPacket packet = TestNode::make_packet(to_b, 5, none, 9);
  packet.segment_count = 5;
  std::string whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    packet.segments[i] = as_byte_span(parts[i]);
    whole += parts[i];
  }
  packet.payload_bytes = static_cast<uint32_t>(whole.size());
  ASSERT_EQ(a->tx_burst({&packet, 1}), 1U);
  EXPECT_FALSE(packet.done) << "not connected yet";
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
  EXPECT_TRUE(b.received[0].payload == whole);
  EXPECT_EQ(a.completed, std::vector<TxToken>{9});
  EXPECT_EQ(a->counters().tx_copied_bytes, 210U);
  EXPECT_EQ(a->counters().tx_zero_copy_bytes, whole.size() - 210);
}

TEST(TcpTransport, Burst_SmallPacketsBothWays) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string payload = random_text(100, 1);
  uint64_t sent = 0;
  const uint64_t total = 20'000;
  ASSERT_TRUE(run_until({&a, &b}, [&] {
    std::vector<TxPacket> burst;
    for (uint64_t i = sent; i < std::min(total, sent + kBurstMax); ++i) {
      burst.push_back(TestNode::make_packet(to_b, i, payload));
    }
    sent += a->tx_burst(burst);
    return b.received.size() == total;
  }));
  for (uint64_t i = 0; i < total; ++i) ASSERT_EQ(b.received[i].number, i);
  EXPECT_EQ(b->counters().rx_packets, total);
  EXPECT_EQ(a->counters().tx_packets, total);
  EXPECT_EQ(b->counters().rx_bytes, a->counters().tx_bytes);
}

TEST(TcpTransport, LargePayload_IsReadIntoTheEnginesMemory) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string payload = random_text(size_t{4} << 20, 1);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(a.send(to_b, i, payload, i + 1));
    ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == i + 1; }));
    EXPECT_TRUE(b.received.back().placed);
    EXPECT_TRUE(b.received.back().payload == payload);
  }
  EXPECT_EQ(b->counters().rx_zero_copy_bytes + b->counters().rx_copied_bytes, 5 * payload.size());
  EXPECT_LT(b->counters().rx_copied_bytes, size_t{128} << 10);
}

TEST(TcpTransport, PlacerSaysNo_PayloadIsDiscardedAndTheRestArrives) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string payload = random_text(1 << 20, 1);
  b.placer.refuse = true;
  ASSERT_TRUE(a.send(to_b, 1, payload));
  ASSERT_TRUE(a.send(to_b, 2, "after"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
  EXPECT_EQ(b.received[0].number, 2U);
  EXPECT_EQ(b->counters().rx_dropped, 1U);
}

TEST(TcpTransport, LentBuffers_StopReadingAndNothingIsLost) {
  TcpOptions options = node_options(2);
  options.rx_chunk_bytes = 32 * 1024;
  options.rx_chunk_count = 3;
  TestNode a(node_options(1));
  TestNode b(options);
  EXPECT_EQ(b->capabilities().lendable_count, 2U);
  const PeerId to_b = a.resolve(b);
  b.hold = true;
  const std::string payload = random_text(1000, 1);
  const uint64_t total = 1000;
  uint64_t sent = 0;
  ASSERT_TRUE(run_until({&a, &b}, [&] {
    while (sent < total && a.send(to_b, sent, payload)) ++sent;
    return sent == total && b.received.size() >= 90;
  }));
  for (int i = 0; i < 1000; ++i) a.step(), b.step();
  EXPECT_LT(b.received.size(), 100U) << "three chunks hold no more";
  // A sleeper with nothing to lend does not spin: the connection is readable, but cannot be read.
  std::atomic<bool> waking{false};
  std::thread waker([&] {
    waking = true;
    b->wake();
  });
  b->wait(20 * kSecond);
  waker.join();
  EXPECT_TRUE(waking);
  // Released late and in another order than received.
  ASSERT_TRUE(run_until({&a, &b}, [&] {
    std::reverse(b.held.begin(), b.held.end());
    b.release_held();
    return b.received.size() == total;
  }));
  for (uint64_t i = 0; i < total; ++i) {
    EXPECT_EQ(b.received[i].number, i);
    EXPECT_TRUE(b.received[i].payload == payload);
  }
  b.release_held();
  EXPECT_EQ(b.transport->stats().chunk_refs, 0U);
}

TEST(TcpTransport, ForeignLoop_WakesForPacketsAndForWake) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(a.send(to_b, 0, "first"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
  constexpr int kLimitMs = 60'000;
  pollfd ready{b->wait_fd(), POLLIN, 0};
  const auto fall_asleep = [&] {
    for (;;) {
      b.step();
      if (b->begin_wait(60 * kSecond) == 0) continue;
      if (poll(&ready, 1, 0) == 0) return;
      b->end_wait();
    }
  };
  fall_asleep();
  ASSERT_TRUE(a.send(to_b, 1, "second"));
  EXPECT_EQ(poll(&ready, 1, kLimitMs), 1);
  b->end_wait();
  EXPECT_EQ(b->begin_wait(kSecond), 0) << "the packet is not handled yet";
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 2; }));
  fall_asleep();
  b->wake();
  EXPECT_EQ(poll(&ready, 1, kLimitMs), 1);
  b->end_wait();
  b->wake();
  EXPECT_EQ(b->begin_wait(kSecond), 0) << "a wake() before the sleep ends it";
  EXPECT_GT(b->begin_wait(kSecond), 0) << "one wake() ends one sleep";
  b->end_wait();
}

TEST(TcpTransport, ManyHalfPackets_DoNotStarveWholeOnes) {
  // More senders with half a packet than chunks: each half would pin one.
  TcpOptions options = node_options(100);
  options.rx_chunk_bytes = 32 * 1024;
  options.rx_chunk_count = 2;
  TestNode server(options);
  std::vector<std::unique_ptr<TestNode>> clients;
  const std::string payload = random_text(15'000, 1);
  const size_t count = 12;
  for (uint8_t i = 0; i < count; ++i) {
    TcpOptions quiet = node_options(static_cast<uint8_t>(i + 1));
    quiet.listen_ip = "";
    clients.push_back(std::make_unique<TestNode>(quiet));
    (void)clients.back()->resolve(server);
  }
  const uint64_t rounds = 40;
  std::vector<uint64_t> sent(count, 0);
  ASSERT_TRUE(run_until({&server}, [&] {
    for (size_t i = 0; i < count; ++i) {
      if (sent[i] < rounds && clients[i]->send(0, sent[i], payload)) ++sent[i];
      clients[i]->step();
    }
    return server.received.size() == count * rounds;
  }));
  for (const Received& got : server.received) ASSERT_TRUE(got.payload == payload);
  EXPECT_EQ(server.transport->stats().chunk_refs, 0U);
}

TEST(TcpTransport, QueueFull_TakesFewerAndGoesOn) {
  TcpOptions options = node_options(1);
  options.tx_queue_max_bytes = 1 << 20;
  TestNode a(options);
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string payload = random_text(100'000, 1);
  std::vector<TxPacket> burst;
  for (uint64_t i = 0; i < 20; ++i) burst.push_back(TestNode::make_packet(to_b, i, payload, i + 1));
  const size_t taken = a->tx_burst(burst);
  EXPECT_EQ(taken, 11U) << "the queue holds 1 MiB and one packet of overshoot";
  EXPECT_EQ(a->counters().tx_full, 1U);
  uint64_t sent = taken;
  ASSERT_TRUE(run_until({&a, &b}, [&] {
    if (sent < 20 && a.send(to_b, sent, payload, sent + 1)) ++sent;
    // Where the kernel sends without a copy, its word that it did comes after the bytes.
    return b.received.size() == 20 && a.completed.size() == 20;
  }));
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(b.received[i].number, i);
}

TEST(TcpTransport, HasRoom_TellsWhichPeerIsStuck) {
  TestNode a(node_options(1));
  TestNode stuck(node_options(2));
  TestNode fine(node_options(3));
  const PeerId to_stuck = a.resolve(stuck);
  const PeerId to_fine = a.resolve(fine);
  const std::string payload = random_text(size_t{16} << 20, 1);
  EXPECT_TRUE(a->has_room(to_stuck));
  ASSERT_TRUE(a.send(to_stuck, 1, payload));
  ASSERT_TRUE(a.send(to_fine, 2, "x"));
  ASSERT_TRUE(run_until({&a, &fine}, [&] { return fine.received.size() == 1; }));
  EXPECT_FALSE(a->has_room(to_stuck));
  EXPECT_TRUE(a->has_room(to_fine));
  ASSERT_TRUE(run_until({&a, &stuck}, [&] { return a->has_room(to_stuck); }));
}

TEST(TcpTransport, Progress_OfAPeerThatStopsReading) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string payload = random_text(size_t{16} << 20, 1);
  EXPECT_EQ(a->progress(to_b), 0U);
  ASSERT_TRUE(a.send(to_b, 1, payload));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.placer.placed == 1; }));
  const uint64_t before = a->progress(to_b);
  EXPECT_GT(before, 0U);
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a->progress(to_b) != before; }));
  // The kernel takes some more for a peer that does not read, and then nothing.
  uint64_t last = 0;
  ASSERT_TRUE(run_until({&a}, [&] { return std::exchange(last, a->progress(to_b)) == a->progress(to_b); }));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a->progress(to_b) == 0; })) << "the kernel may acknowledge later";
}

TEST(TcpTransport, AbandonTx_GivesEveryTokenBack) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  TestNode c(node_options(3));
  const PeerId to_b = a.resolve(b);
  const PeerId to_c = a.resolve(c);
  const std::string payload = random_text(size_t{16} << 20, 1);
  ASSERT_TRUE(a.send(to_b, 1, payload, 5));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.placer.placed == 1; }));
  ASSERT_TRUE(a.send(to_c, 2, payload, 6));  // still dialling
  a->abandon_tx();
  a.step();
  EXPECT_THAT(a.completed, ::testing::UnorderedElementsAre(5, 6));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.placer.abandoned == 1; }));
  // The transport is as good as new for the next endpoint.
  ASSERT_TRUE(a.send(to_b, 3, "again"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
}

TEST(TcpTransport, Token_ComesBackOnlyWhenWritten) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string small = "x";
  ASSERT_TRUE(a.send(to_b, 0, small));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
  // Nobody reads at b: far more than the sockets' buffers hold stays queued.
  const std::string payload = random_text(size_t{16} << 20, 1);
  ASSERT_TRUE(a.send(to_b, 1, payload, 77));
  for (int i = 0; i < 200; ++i) a.step();
  EXPECT_TRUE(a.completed.empty());
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !a.completed.empty(); }));
  EXPECT_EQ(a.completed, std::vector<TxToken>{77});
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 2; }));
  EXPECT_TRUE(b.received[1].payload == payload);
}

TEST(TcpTransport, PeerDiesMidPayload_AbandonsAndTells) {
  auto a = std::make_unique<TestNode>(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a->resolve(b);
  const std::string payload = random_text(size_t{16} << 20, 1);
  ASSERT_TRUE(a->send(to_b, 1, payload));
  ASSERT_TRUE(run_until({a.get(), &b}, [&] { return b.placer.placed == 1; }));
  ASSERT_EQ(b.placer.abandoned, 0);
  a.reset();
  ASSERT_TRUE(run_until({&b}, [&] { return b.count_links(LinkEvent::Kind::kDown) == 1; }));
  EXPECT_EQ(b.placer.abandoned, 1);
  EXPECT_TRUE(b.received.empty());
  EXPECT_EQ(b.links.back().identity.uuid, make_uuid(1));
  EXPECT_EQ(b.transport->stats().link_count, 0U);
  EXPECT_EQ(b.transport->stats().chunk_refs, 0U);
}

TEST(TcpTransport, PlacerLeaves_PlacementsAreAbandoned) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const std::string payload = random_text(size_t{16} << 20, 1);
  ASSERT_TRUE(a.send(a.resolve(b), 1, payload));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.placer.placed == 1; }));
  b->set_placer(nullptr);
  EXPECT_EQ(b.placer.abandoned, 1);
  bool sent = false;
  ASSERT_TRUE(run_until({&a, &b}, [&] {
    sent = sent || a.send(0, 2, "after");
    return b.received.size() == 1;
  }));
  EXPECT_EQ(b.received[0].number, 2U);
}

TEST(TcpTransport, PeerRestarts_ReconnectsOnLaterTraffic) {
  TestNode a(node_options(1));
  auto b = std::make_unique<TestNode>(node_options(2, 1));
  const Descriptor where = b->transport->local_descriptor();
  const PeerId to_b = a.resolve(where);
  ASSERT_TRUE(a.send(to_b, 1, "one"));
  ASSERT_TRUE(run_until({&a, b.get()}, [&] { return b->received.size() == 1; }));
  // With data in flight that is never read.
  const std::string payload = random_text(size_t{8} << 20, 1);
  ASSERT_TRUE(a.send(to_b, 2, payload, 5));
  b.reset();
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(LinkEvent::Kind::kDown) == 1; }));
  EXPECT_EQ(a.completed, std::vector<TxToken>{5});
  TcpOptions options = node_options(2, 2);
  options.listen_port = SocketAddress::decode(as_byte_span(where.address))->port;
  TestNode again(options);
  ASSERT_TRUE(a.send(to_b, 3, "three"));
  ASSERT_TRUE(run_until({&a, &again}, [&] { return again.received.size() == 1; }));
  EXPECT_EQ(again.received[0].number, 3U);
  ASSERT_EQ(a.count_links(LinkEvent::Kind::kUp), 2U);
  EXPECT_EQ(a.links.front().identity.incarnation, 1U);
  EXPECT_EQ(a.links.back().identity.incarnation, 2U);
}

TEST(TcpTransport, ManyPeers_AllGetTheirs) {
  TestNode hub(node_options(200));
  std::vector<std::unique_ptr<TestNode>> nodes;
  const size_t count = 20;
  for (uint8_t i = 0; i < count; ++i) {
    nodes.push_back(std::make_unique<TestNode>(node_options(static_cast<uint8_t>(i + 1))));
    ASSERT_EQ(hub.resolve(*nodes.back()), i);
  }
  // One burst to all of them; each answers twice.
  std::vector<TxPacket> burst;
  const std::string to_all = "to all";
  for (PeerId peer = 0; peer < count; ++peer) {
    burst.push_back(TestNode::make_packet(peer, peer, to_all));
  }
  ASSERT_EQ(hub->tx_burst(burst), count);
  ASSERT_TRUE(run_until({&hub}, [&] {
    for (auto& node : nodes) {
      node->step();
      while (!node->received.empty()) {
        const Received got = node->received.front();
        node->received.pop_front();
        EXPECT_TRUE(node->send(got.from, got.number + 1000, "first"));
        EXPECT_TRUE(node->send(got.from, got.number + 2000, "second"));
      }
    }
    return hub.received.size() == 2 * count;
  }));
  for (const Received& got : hub.received) EXPECT_EQ(got.number % 1000, got.from);
  EXPECT_EQ(hub.transport->stats().link_count, count);
}

TEST(TcpTransport, Wait_EndsByTrafficTimeoutAndWake) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(a.send(to_b, 1, "x"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 1; }));
  b->wait(kMillisecond);  // nothing comes: the timeout
  ASSERT_TRUE(a.send(to_b, 2, "x"));
  b->wait(kTimeNever);  // traffic
  ASSERT_TRUE(run_until({&b}, [&] { return b.received.size() == 2; }));
  b->wake();
  b->wait(kTimeNever);  // a wake that came first
  std::thread waker([&] { b->wake(); });
  b->wait(kTimeNever);  // one from another thread
  waker.join();
}

TEST(TcpTransport, Wait_EndsWhenABlockedSocketIsWritable) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const std::string payload = random_text(size_t{16} << 20, 1);
  ASSERT_TRUE(a.send(to_b, 1, payload, 9));
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) b.step();
  });
  while (a.completed.empty()) {
    a.step();
    if (a.completed.empty()) a->wait(kTimeNever);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(a.completed, std::vector<TxToken>{9});
}

TEST(TcpTransport, TwoThreads_SleepingPingPong) {
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  const PeerId to_b = a.resolve(b);
  const uint64_t rounds = 500;
  std::thread echo([&] {
    uint64_t answered = 0;
    while (answered < rounds) {
      if (b.step() == 0) b->wait(kTimeNever);
      while (!b.received.empty()) {
        EXPECT_TRUE(b.send(b.received.front().from, b.received.front().number, "pong"));
        b.received.pop_front();
        ++answered;
      }
    }
  });
  for (uint64_t i = 0; i < rounds; ++i) {
    ASSERT_TRUE(a.send(to_b, i, "ping"));
    while (a.received.empty()) {
      if (a.step() == 0) a->wait(kTimeNever);
    }
    EXPECT_EQ(a.received.front().number, i);
    a.received.pop_front();
  }
  echo.join();
}

TEST(TcpTransport, Capabilities_SayWhatTcpIs) {
  TestNode a(node_options(1));
  const Capabilities& can = a->capabilities();
  EXPECT_TRUE(can.reliable && can.ordered && can.integrity && can.tx_completion);
  EXPECT_TRUE(can.wakes_on_receive);
  EXPECT_FALSE(can.needs_registration || can.one_sided || can.loopback);
  EXPECT_EQ(can.payload_max_bytes, 17U << 20);
}

}  // namespace
}  // namespace skua::rpc::tcp
