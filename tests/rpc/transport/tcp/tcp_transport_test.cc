// Two and more transports on loopback: what an engine can rely on.
#include "rpc/transport/tcp/tcp_transport.h"

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
  ASSERT_TRUE(run_until({&a, &b}, [&] {
    return b.received.size() == payloads.size() && a.completed.size() == payloads.size();
  }));
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ(b.received[i].number, i);
    EXPECT_TRUE(b.received[i].payload == payloads[i]) << "size " << sizes[i];
  }
  EXPECT_EQ(b.transport->stats().chunk_refs, 0U);
  EXPECT_GT(b.placer.placed, 0);
  EXPECT_TRUE(b.placer.buffers.empty());
}

}  // namespace
}  // namespace skua::rpc::tcp
