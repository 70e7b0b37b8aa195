#include "rpc/receive_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

class ReceiveMemoryTest : public ::testing::Test {
 protected:
  using Bursts = std::vector<std::vector<RxBufferId>>;

  Lease lend(RxBufferId buffer) {
    Lease lease;
    parts.memory.lend(as_byte_span(text), buffer, lease);
    return lease;
  }
  Bursts released() {
    parts.memory.flush_releases();
    return std::exchange(wire.released, {});
  }

  const std::string text = "what came";
  testing::ObedientWire wire;
  testing::ContextAndMemory parts{wire, limited()};

 private:
  static EndpointOptions limited() {
    EndpointOptions out;
    out.memory_limit_bytes = size_t{64} << 20;
    return out;
  }
};

// --- The transport's buffers -----------------------------------------------------------------------------------------

TEST_F(ReceiveMemoryTest, LendsUpToHalfOfTheBuffers) {
  std::vector<Lease> leases;
  for (RxBufferId buffer = 10; parts.memory.may_lend(); ++buffer) leases.push_back(lend(buffer));
  EXPECT_EQ(leases.size(), wire.capabilities_.lendable_count / 2);
  EXPECT_EQ(parts.memory.lent_count(), leases.size());
  EXPECT_EQ(parts.context.counters.rx_zero_copy_bytes, leases.size() * text.size());
  EXPECT_TRUE(released().empty());
  leases.erase(leases.begin());
  EXPECT_TRUE(parts.memory.may_lend());
  EXPECT_EQ(released(), Bursts({{10}}));
  leases.clear();
  EXPECT_EQ(released(), Bursts({{11, 12, 13}}));
  EXPECT_EQ(parts.memory.lent_count(), 0u);
}

TEST_F(ReceiveMemoryTest, ReturnsBuffersInBursts) {
  EXPECT_TRUE(parts.memory.nothing_to_release());
  for (RxBufferId buffer = 0; buffer < kBurstMax; ++buffer) {
    EXPECT_TRUE(wire.released.empty());
    parts.memory.release(buffer);
  }
  ASSERT_EQ(wire.released.size(), 1u);
  EXPECT_EQ(wire.released[0].size(), kBurstMax);
  EXPECT_TRUE(parts.memory.nothing_to_release());
}

// --- Pool buffers ----------------------------------------------------------------------------------------------------

TEST_F(ReceiveMemoryTest, AMessageCountsInItsPayersShare) {
  const Payer payer{.peer = 3, .host = 4};
  const size_t part = parts.context.options.memory_limit_bytes / 8;
  std::optional<Assembly> message = parts.memory.assemble(payer, part);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->lease.size(), part);
  EXPECT_EQ(message->lease.bytes().data(), message->data);
  EXPECT_FALSE(parts.memory.assemble(payer, 1).has_value());
  EXPECT_EQ(parts.memory.place(payer, 1).to, nullptr);
  EXPECT_EQ(parts.memory.copy_out(payer, as_byte_span(text)).owner, nullptr);
  EXPECT_TRUE(parts.memory.assemble({.peer = 5, .host = 6}, part).has_value()) << "another's share";
  EXPECT_TRUE(parts.memory.assemble({}, part).has_value()) << "nobody's";
  message.reset();
  EXPECT_TRUE(parts.memory.assemble(payer, 1).has_value());
  EXPECT_EQ(parts.memory.buffer_count(), 0u);
}

TEST_F(ReceiveMemoryTest, TheReserveIsForNodesAndForAnswers) {
  EndpointOptions options = parts.context.options;
  options.keeps_memory_reserve = true;
  testing::ContextAndMemory kept{wire, options};
  const size_t largest = kept.memory.message_bytes_max();
  EXPECT_EQ(largest, options.protocol.message_max_bytes);
  std::vector<Buffer> all;
  for (auto buffer = kept.memory.allocate(1 << 20); buffer.ok(); buffer = kept.memory.allocate(1 << 20)) {
    all.push_back(*std::move(buffer));
  }
  const Payer node{.peer = 3, .host = 4, .is_node = true};
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(kept.memory.assemble({.peer = 9, .host = 9}, largest).has_value()) << "a stranger's message";
    EXPECT_EQ(kept.memory.place({.peer = 9, .host = 9}, largest).to, nullptr);
    std::optional<Assembly> message = kept.memory.assemble(node, largest);
    ASSERT_TRUE(message.has_value());
    EXPECT_FALSE(kept.memory.assemble(node, 1).has_value()) << "one at a time";
    message.reset();
    EXPECT_TRUE(kept.memory.assemble({}, largest).has_value()) << "an answer";
    const RxPlacer::Placement placed = kept.memory.place(node, largest);
    ASSERT_NE(placed.to, nullptr);
    kept.memory.abandon(placed.cookie);
  }
  EXPECT_FALSE(kept.memory.assemble(node, 2 * largest).has_value());
}

/// A node whose share is used up does not wait for what it holds itself.
TEST_F(ReceiveMemoryTest, TheReserveIsInNobodysShare) {
  EndpointOptions options = parts.context.options;
  options.keeps_memory_reserve = true;
  testing::ContextAndMemory kept{wire, options};
  const Payer node{.peer = 3, .host = 4, .is_node = true};
  const std::optional<Assembly> share = kept.memory.assemble(node, options.memory_limit_bytes / 8);
  ASSERT_TRUE(share.has_value());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(kept.memory.assemble(node, kept.memory.message_bytes_max()).has_value());
}

TEST_F(ReceiveMemoryTest, ACopyIsCounted) {
  const Lease copy(parts.memory.copy_out({.peer = 3, .host = 4}, as_byte_span(text)));
  EXPECT_EQ(as_string_view(copy.bytes()), text);
  EXPECT_NE(static_cast<const void*>(copy.bytes().data()), text.data());
  EXPECT_EQ(parts.context.counters.rx_copied_bytes, text.size());
  EXPECT_EQ(parts.context.counters.leases_copied_out, 1u);
  EXPECT_EQ(parts.memory.lent_count(), 0u);
}

TEST_F(ReceiveMemoryTest, APlacementIsLentOrAbandoned) {
  const RxPlacer::Placement lent = parts.memory.place({}, 100);
  const RxPlacer::Placement abandoned = parts.memory.place({}, 100);
  ASSERT_NE(lent.to, nullptr);
  ASSERT_NE(abandoned.to, nullptr);
  EXPECT_EQ(parts.memory.buffer_count(), 2u);
  parts.memory.abandon(abandoned.cookie);
  EXPECT_EQ(parts.memory.buffer_count(), 1u);
  Lease lease;
  parts.memory.lend_placed({lent.to, 100}, lent.cookie, lease);
  EXPECT_EQ(parts.context.counters.rx_zero_copy_bytes, 100u);
  EXPECT_EQ(parts.memory.buffer_count(), 1u);
  lease.reset();
  EXPECT_EQ(parts.memory.buffer_count(), 0u);
  EXPECT_TRUE(released().empty()) << "it was never the transport's";
}

TEST_F(ReceiveMemoryTest, WhoCallsPays) {
  SessionEntry entry;
  entry.identity.incarnation = 7;
  parts.context.may_have_reserved = [](const EndpointIdentity& peer) { return peer.incarnation == 7; };
  EXPECT_EQ(parts.memory.payer_of(entry, 3, true).peer, 3u);
  EXPECT_EQ(parts.memory.payer_of(entry, 3, true).host, wire.host_of(3));
  EXPECT_TRUE(parts.memory.payer_of(entry, 3, true).is_node);
  entry.identity.incarnation = 8;
  EXPECT_FALSE(parts.memory.payer_of(entry, 3, true).is_node);
  EXPECT_EQ(parts.memory.payer_of(entry, kUnbound, true).peer, kNoPeer);
  EXPECT_EQ(parts.memory.payer_of(entry, 3, false).peer, kNoPeer) << "answers to our own calls count in nobody's share";
  entry.initiator = true;
  EXPECT_EQ(parts.memory.payer_of(entry, 3, true).peer, 3u) << "a peer may call in a session that we opened";
}

}  // namespace
}  // namespace skua::rpc
