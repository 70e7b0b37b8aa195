// Frames over the simulated network, bare and through the transport that loses and doubles them.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rpc/transport/faulty/faulty_transport.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc {
namespace {

class FramesTest : public testing::Test {
 protected:
  std::unique_ptr<SimTransport> attach(uint32_t address, bool connected = false) {
    EndpointIdentity identity;
    identity.uuid.bytes[0] = static_cast<uint8_t>(address);
    SimTransportOptions options;
    options.connected = connected;
    return network_.attach(address, identity, options);
  }

  /// Header and text; false: there is no frame.
  static bool send(Transport& sender, PeerId to, const std::string& text) {
    TxFrame frame = sender.take_frame(to);
    if (frame.bytes == nullptr) return false;
    std::memset(frame.bytes, 0x21, kPacketHeaderBytes);
    std::memcpy(frame.bytes + kPacketHeaderBytes, text.data(), text.size());
    frame.size = static_cast<uint32_t>(kPacketHeaderBytes + text.size());
    sender.send_frames(std::span(&frame, 1));
    return true;
  }

  std::vector<std::string> receive(Transport& receiver) {
    network_.advance_to(network_.now_ns() + kMillisecond);
    std::vector<std::string> out;
    std::array<RxPacket, kBurstMax> burst;
    while (const size_t count = receiver.rx_burst(burst)) {
      for (const RxPacket& packet : std::span(burst).first(count)) {
        EXPECT_EQ(packet.header.size(), kPacketHeaderBytes);
        EXPECT_EQ(packet.payload.data(), packet.header.data() + kPacketHeaderBytes) << "right behind the header";
        out.emplace_back(as_string_view(packet.payload));
        receiver.release(std::span(&packet.buffer, 1));
      }
    }
    return out;
  }

  SimNetwork network_{3};
};

TEST_F(FramesTest, Sim_FrameArrivesAsAPacket) {
  const auto one = attach(1);
  const auto two = attach(2);
  const PeerId to = one->resolve(two->local_descriptor()).value();
  EXPECT_TRUE(one->capabilities().frames);
  ASSERT_TRUE(send(*one, to, "hello"));
  EXPECT_EQ(receive(*two), std::vector<std::string>{"hello"});
  EXPECT_EQ(one->counters().tx_packets, 1u);
  EXPECT_EQ(one->counters().tx_bytes, 5u);
  const TxFrame frame = one->take_frame(to);
  EXPECT_EQ(frame.room, kPacketHeaderBytes + one->capabilities().payload_max_bytes);
  one->send_frames(std::span(&frame, 1));  // nothing was written
  EXPECT_TRUE(receive(*two).empty());
}

TEST_F(FramesTest, Sim_FramesSufferAsPacketsDo) {
  const auto one = attach(1);
  const auto two = attach(2);
  const PeerId to = one->resolve(two->local_descriptor()).value();
  SimFaults faults;
  faults.loss = faults.duplicate = faults.corrupt = faults.reorder = faults.tx_full = 0.2;
  network_.set_faults(faults);
  size_t refused = 0;
  size_t arrived = 0;
  for (size_t i = 0; i < 500; ++i) {
    if (!send(*one, to, "text")) ++refused;
    arrived += receive(*two).size();
  }
  const SimNetwork::Fates& fates = network_.fates();
  EXPECT_GT(refused, 0u);
  EXPECT_LT(one->counters().tx_packets + refused, 500u) << "some were dropped for want of room";
  EXPECT_EQ(arrived, one->counters().tx_packets + fates.duplicated - fates.lost);
  for (const uint64_t fate : {fates.lost, fates.duplicated, fates.corrupted, fates.reordered}) EXPECT_GT(fate, 0u);
}

TEST_F(FramesTest, Sim_FramesByConnectionComeOnceAndInOrder) {
  const auto one = attach(1, true);
  const auto two = attach(2, true);
  const PeerId to = one->resolve(two->local_descriptor()).value();
  SimFaults faults;
  faults.duplicate = faults.corrupt = faults.reorder = faults.tx_full = 0.2;
  network_.set_faults(faults);
  std::vector<std::string> sent;
  for (size_t i = 0; i < 100; ++i) {
    if (send(*one, to, std::to_string(i))) sent.push_back(std::to_string(i));
  }
  EXPECT_EQ(receive(*two), sent);
}

TEST_F(FramesTest, Sim_NoFrameForACallerThatIsGone) {
  auto one = attach(1, true);
  const auto two = attach(2, true);
  ASSERT_TRUE(send(*one, one->resolve(two->local_descriptor()).value(), "x"));
  std::array<LinkEvent, 4> events;
  ASSERT_EQ(two->poll_links(events), 1u);
  const PeerId caller = events[0].peer;
  const TxFrame frame = two->take_frame(caller);
  EXPECT_NE(frame.bytes, nullptr);
  two->send_frames(std::span(&frame, 1));
  one.reset();
  network_.advance_to(network_.now_ns() + kSecond);
  EXPECT_EQ(two->take_frame(caller).bytes, nullptr);
}

TEST_F(FramesTest, Faulty_CountsWhatItDoes) {
  FaultOptions options;
  options.loss = 0.2;
  options.duplicate = 0.3;
  FaultyTransport one(attach(1), options);
  const auto two = attach(2);
  const PeerId to = one.resolve(two->local_descriptor()).value();
  size_t arrived = 0;
  for (size_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(send(one, to, "text"));
    for (const std::string& text : receive(*two)) {
      EXPECT_EQ(text, "text");
      ++arrived;
    }
  }
  EXPECT_GT(one.lost_count(), 0u);
  EXPECT_GT(one.duplicated_count(), 0u);
  EXPECT_EQ(arrived, 200 - one.lost_count() + one.duplicated_count());
}

TEST_F(FramesTest, Faulty_MoreFramesThanABurst) {
  FaultOptions options;
  options.loss = options.duplicate = 0.5;
  FaultyTransport one(attach(1), options);
  const auto two = attach(2);
  const PeerId to = one.resolve(two->local_descriptor()).value();
  std::vector<TxFrame> frames(3 * kBurstMax);
  for (size_t i = 0; i < frames.size(); ++i) {
    frames[i] = one.take_frame(to);
    std::memset(frames[i].bytes, static_cast<int>(i), kPacketHeaderBytes + 1);
    frames[i].size = i % 10 == 0 ? 0 : kPacketHeaderBytes + 1;
  }
  one.send_frames(frames);
  EXPECT_GT(one.lost_count() + one.duplicated_count(), 0u);
  const std::vector<std::string> arrived = receive(*two);
  size_t expected = 0;
  for (size_t i = 0; i < frames.size(); ++i) expected += frames[i].size == 0 ? 0 : 1;
  EXPECT_EQ(arrived.size(), expected - one.lost_count() + one.duplicated_count());
}

}  // namespace
}  // namespace skua::rpc
