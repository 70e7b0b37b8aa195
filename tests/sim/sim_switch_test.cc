// The simulated switch against arithmetic done by hand.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc::sim {
namespace {

constexpr DurationNs kLatencyNs = 5 * kMicrosecond;
constexpr uint32_t kPacketBytes = 1000;

class SimSwitchTest : public ::testing::Test {
 protected:
  SimSwitchTest() {
    for (uint32_t i = 0; i < 4; ++i) {
      EndpointIdentity identity;
      identity.uuid.bytes[0] = static_cast<uint8_t>(i + 1);
      transports_.push_back(network_.attach(i, identity, {.latency_ns = kLatencyNs}));
    }
  }

  /// `count` packets of kPacketBytes, header and all.
  void send(uint32_t from, uint32_t to, int count) {
    const PeerId peer = *transports_[from]->resolve(transports_[to]->local_descriptor());
    for (int i = 0; i < count; ++i) {
      TxPacket packet;
      packet.peer = peer;
      packet.header = {};
      packet.segment_count = 1;
      packet.payload_bytes = kPacketBytes - kPacketHeaderBytes;
      packet.segments[0] = ByteSpan(payload_).first(packet.payload_bytes);
      ASSERT_EQ(transports_[from]->tx_burst({&packet, 1}), 1u);
    }
  }

  /// When packets arrive at `to` from now on, until nothing is under way.
  std::vector<DurationNs> arrivals(uint32_t to) {
    const TimeNs begun = network_.now_ns();
    std::vector<DurationNs> out;
    while (network_.next_event_ns() != kTimeNever) {
      network_.advance_to(network_.next_event_ns());
      std::array<RxPacket, 32> packets;
      const size_t count = transports_[to]->rx_burst(packets);
      for (size_t i = 0; i < count; ++i) {
        out.push_back(network_.now_ns() - begun);
        transports_[to]->release({&packets[i].buffer, 1});
      }
    }
    return out;
  }

  SimNetwork network_{1};
  std::vector<std::byte> payload_ = std::vector<std::byte>(kPacketBytes);
  std::vector<std::unique_ptr<SimTransport>> transports_;
};

TEST_F(SimSwitchTest, None_EveryPacketTakesItsLatency) {
  send(0, 3, 10);
  EXPECT_EQ(arrivals(3), std::vector<DurationNs>(10, kLatencyNs));
}

TEST_F(SimSwitchTest, Link_PacketsFromAllSendersLeaveOneByOne) {
  network_.set_switch({.bytes_per_second = 1'000'000'000, .buffer_bytes = 1 << 20});
  send(0, 3, 2);
  send(1, 3, 2);
  std::vector<DurationNs> expected;
  for (int i = 1; i <= 4; ++i) expected.push_back(kLatencyNs + i * kMicrosecond);
  EXPECT_EQ(arrivals(3), expected);
  EXPECT_EQ(network_.switch_peak_bytes(), 4u * kPacketBytes);
  // An idle link saves nothing up.
  send(2, 3, 1);
  EXPECT_EQ(arrivals(3), std::vector<DurationNs>{kLatencyNs + kMicrosecond});
}

TEST_F(SimSwitchTest, Link_OfAnotherDestinationIsFree) {
  network_.set_switch({.bytes_per_second = 1'000'000'000, .buffer_bytes = 1 << 20});
  send(0, 3, 10);
  send(0, 2, 1);
  EXPECT_EQ(arrivals(2), std::vector<DurationNs>{kLatencyNs + kMicrosecond});
}

TEST_F(SimSwitchTest, Buffer_IsSharedAndTailDropsAreCounted) {
  network_.set_switch({.bytes_per_second = 1'000'000'000, .buffer_bytes = 5 * kPacketBytes + 1});
  send(0, 2, 3);
  send(1, 3, 4);
  const size_t arrived = arrivals(3).size();
  EXPECT_EQ(network_.fates().tail_dropped, 2u);
  EXPECT_EQ(network_.fates().delivered, 5u);
  EXPECT_LE(arrived, 4u);
  // It drained: the next ones fit.
  send(0, 2, 5);
  arrivals(2);
  EXPECT_EQ(network_.fates().tail_dropped, 2u);
}

TEST_F(SimSwitchTest, Switch_SeesDuplicates) {
  network_.set_switch({.bytes_per_second = 1'000'000'000, .buffer_bytes = kPacketBytes});
  network_.set_faults({.duplicate = 1, .reorder_max_ns = 1});
  send(0, 3, 1);
  EXPECT_EQ(arrivals(3).size(), 1u);
  EXPECT_EQ(network_.fates().tail_dropped, 1u);
}

}  // namespace
}  // namespace skua::rpc::sim
