// The DPDK transport on net_ring, which hands the sender's own mbufs to the receiver: a packet's memory is in use until
// the receiver has it, so completions are as late as a test wants them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rpc/transport/dpdk/address.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/dpdk/frame.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {
namespace {

constexpr uint16_t kLanes = 5;
/// More than the device's ring holds (1,023), so that both can run out.
constexpr uint32_t kMbufs = 2047;

EndpointIdentity identity_of(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes = {0xd9, number};
  out.incarnation = 1;
  return out;
}

/// The EAL starts once in a process.
const absl::StatusOr<std::unique_ptr<DpdkFabric>>& fabric() {
  static const auto made = [] {
    DpdkOptions options;
    options.ports = {{"net_ring0", "10.77.0.1/24", ""}};
    options.lanes = kLanes;
    options.huge_pages = false;
    options.rx_descriptors = options.tx_descriptors = 256;
    options.mbuf_count = kMbufs;
    return DpdkFabric::start(options);
  }();
  return made;
}

class DpdkTransportTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!fabric().ok()) GTEST_SKIP() << fabric().status();
    sender_ = (*fabric())->make_transport(0, identity_of(1)).value();
    receiver_ = (*fabric())->make_transport(1, identity_of(2)).value();
    to_receiver_ = sender_->resolve(receiver_->local_descriptor()).value();
    ASSERT_TRUE(receiver_->resolve(sender_->local_descriptor()).ok());
  }

  void TearDown() override {
    if (receiver_ != nullptr) receive_all();
  }

  TxPacket packet(ByteSpan body, TxToken token) const {
    TxPacket out;
    out.peer = to_receiver_;
    out.header.fill(std::byte{7});
    out.token = token;
    out.segment_count = 1;
    out.segments[0] = body;
    out.payload_bytes = static_cast<uint32_t>(body.size());
    return out;
  }

  bool send(TxPacket& one) { return sender_->tx_burst(std::span(&one, 1)) == 1; }

  std::vector<TxToken> reaped() {
    std::array<TxToken, 32> tokens;
    const size_t count = sender_->reap(tokens);
    return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  /// What has arrived, released at once.
  std::vector<std::string> receive_all() {
    std::vector<std::string> out;
    std::array<RxPacket, kBurstMax> burst;
    // One turn hands packets over to the lane they are for, the next takes them.
    for (int idle = 0; idle < 4;) {
      std::array<RxPacket, kBurstMax> own;
      const size_t stray = sender_->rx_burst(own);
      for (size_t i = 0; i < stray; ++i) sender_->release(std::span(&own[i].buffer, 1));
      const size_t count = receiver_->rx_burst(burst);
      for (size_t i = 0; i < count; ++i) {
        out.emplace_back(as_string_view(burst[i].payload));
        receiver_->release(std::span(&burst[i].buffer, 1));
      }
      idle = count == 0 ? idle + 1 : 0;
    }
    return out;
  }

  std::unique_ptr<Transport> sender_;
  std::unique_ptr<Transport> receiver_;
  PeerId to_receiver_ = kNoPeer;
};

TEST_F(DpdkTransportTest, SmallPayload_IsCopiedAndDoneAtOnce) {
  std::string body = "small";
  TxPacket one = packet(as_byte_span(body), 1);
  ASSERT_TRUE(send(one));
  EXPECT_TRUE(one.done);
  body = "other";  // the memory is ours again
  EXPECT_EQ(receive_all(), std::vector<std::string>{"small"});
  EXPECT_EQ(sender_->counters().tx_copied_bytes, 5U);
  EXPECT_TRUE(reaped().empty());
}

TEST_F(DpdkTransportTest, Body_IsReadInPlaceAndItsTokenComesBackAfterwards) {
  std::string body(1000, 'a');
  TxPacket one = packet(as_byte_span(body), 11);
  ASSERT_TRUE(send(one));
  EXPECT_FALSE(one.done);
  EXPECT_TRUE(reaped().empty()) << "nobody has read it yet";
  body.assign(1000, 'b');  // seen by the receiver: it is this memory that travels
  EXPECT_EQ(receive_all(), std::vector<std::string>{std::string(1000, 'b')});
  EXPECT_EQ(reaped(), std::vector<TxToken>{11});
  EXPECT_EQ(sender_->counters().tx_copied_bytes, 0U);
  EXPECT_EQ(sender_->counters().tx_zero_copy_bytes, 1000U);
}

// A retransmit goes out while the first copy still stands in a queue, and the answer may come after the first one
// alone: each packet keeps the memory for itself.
TEST_F(DpdkTransportTest, Retransmit_EachCopyHoldsTheMemoryUntilItIsRead) {
  const std::string body(600, 'x');
  TxPacket first = packet(as_byte_span(body), 21);
  TxPacket again = packet(as_byte_span(body), 22);
  ASSERT_TRUE(send(first));
  ASSERT_TRUE(send(again));
  EXPECT_TRUE(reaped().empty());
  EXPECT_EQ(receive_all().size(), 2U);
  std::vector<TxToken> tokens = reaped();
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(tokens, (std::vector<TxToken>{21, 22}));
}

TEST_F(DpdkTransportTest, SeveralSegments_ArriveAsOnePayload) {
  const std::string head = "head:";
  const std::string left(400, 'l');
  const std::string right(500, 'r');
  TxPacket one = packet(as_byte_span(head), 31);
  one.segment_count = 3;
  one.segments[1] = as_byte_span(left);
  one.segments[2] = as_byte_span(right);
  one.payload_bytes = static_cast<uint32_t>(head.size() + left.size() + right.size());
  ASSERT_TRUE(send(one));
  EXPECT_EQ(receive_all(), std::vector<std::string>{head + left + right});
  EXPECT_EQ(reaped(), std::vector<TxToken>{31});
  EXPECT_EQ(sender_->counters().tx_copied_bytes, head.size());
}

TEST_F(DpdkTransportTest, Abandon_GivesEveryTokenBack) {
  const std::string body(700, 'y');
  TxPacket one = packet(as_byte_span(body), 41);
  ASSERT_TRUE(send(one));
  receive_all();
  sender_->abandon_tx();
  EXPECT_EQ(reaped(), std::vector<TxToken>{41});
}

TEST_F(DpdkTransportTest, PoolExhausted_TakesNoMoreAndRecovers) {
  const std::string body = "tiny";
  std::vector<RxBufferId> lent;
  bool refused = false;
  for (uint32_t i = 0; i < 4 * kMbufs && !refused; ++i) {
    TxPacket one = packet(as_byte_span(body), 0);
    refused = !send(one);
    std::array<RxPacket, kBurstMax> burst;
    sender_->rx_burst(burst);  // hands over
    const size_t count = receiver_->rx_burst(burst);
    for (size_t k = 0; k < count; ++k) lent.push_back(burst[k].buffer);
  }
  EXPECT_TRUE(refused) << "every packet buffer is lent, and still it sends";
  EXPECT_GT(sender_->counters().tx_full, 0U);
  receiver_->release(lent);
  TxPacket one = packet(as_byte_span(body), 0);
  EXPECT_TRUE(send(one));
}

/// A frame whose first 32 bytes are a header; the text follows.
TxFrame write_frame(TxFrame frame, const std::string& text) {
  std::memset(frame.bytes, 0x21, kPacketHeaderBytes);
  std::memcpy(frame.bytes + kPacketHeaderBytes, text.data(), text.size());
  frame.size = static_cast<uint32_t>(kPacketHeaderBytes + text.size());
  return frame;
}

TEST_F(DpdkTransportTest, Frame_ArrivesAsAPacket) {
  EXPECT_TRUE(sender_->capabilities().frames);
  std::vector<std::string> sent;
  std::vector<TxFrame> frames;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{12}, size_t{200}, size_t{1000}}) {
    sent.emplace_back(size, static_cast<char>('a' + frames.size()));
    const TxFrame frame = sender_->take_frame(to_receiver_);
    ASSERT_NE(frame.bytes, nullptr);
    frames.push_back(write_frame(frame, sent.back()));
  }
  sender_->send_frames(frames);
  EXPECT_EQ(receive_all(), sent);
  EXPECT_EQ(sender_->counters().tx_packets, 5U);
  EXPECT_EQ(sender_->counters().tx_bytes, 1213U);
  EXPECT_EQ(receiver_->counters().rx_bytes, 1213U);
}

TEST_F(DpdkTransportTest, Frame_HoldsWhatAPacketDoes) {
  const TxFrame frame = sender_->take_frame(to_receiver_);
  EXPECT_EQ(frame.room, kPacketHeaderBytes + sender_->capabilities().payload_max_bytes);
  EXPECT_GE(frame.room, kFrameRoomMin);
  const std::string whole(frame.room - kPacketHeaderBytes, 'w');
  const TxFrame written = write_frame(frame, whole);
  std::memset(written.bytes + written.size, 0xff, kFrameSlack);
  sender_->send_frames(std::span(&written, 1));
  EXPECT_EQ(receive_all(), std::vector<std::string>{whole});
}

TEST_F(DpdkTransportTest, Frames_KeepTheirOrderAmongPackets) {
  TxFrame second = sender_->take_frame(to_receiver_);
  TxPacket first = packet(as_byte_span("1"), kNoToken);
  ASSERT_TRUE(send(first));
  second = write_frame(second, "2");
  sender_->send_frames(std::span(&second, 1));
  TxPacket third = packet(as_byte_span("3"), kNoToken);
  ASSERT_TRUE(send(third));
  EXPECT_EQ(receive_all(), (std::vector<std::string>{"1", "2", "3"}));
}

TEST_F(DpdkTransportTest, FrameOfNothing_IsGivenBack) {
  for (uint32_t i = 0; i < 4 * kMbufs; ++i) {
    std::array<TxFrame, 3> frames;
    for (TxFrame& frame : frames) {
      frame = sender_->take_frame(to_receiver_);
      ASSERT_NE(frame.bytes, nullptr) << i;
    }
    sender_->send_frames(frames);
  }
  EXPECT_EQ(sender_->counters().tx_packets, 0U);
  EXPECT_TRUE(receive_all().empty());
  const TxFrame frame = write_frame(sender_->take_frame(to_receiver_), "x");
  sender_->send_frames(std::span(&frame, 1));
  EXPECT_EQ(receive_all(), std::vector<std::string>{"x"});
}

TEST_F(DpdkTransportTest, WireIsFull_NoFramesAndTheRestIsDropped) {
  std::vector<TxFrame> more;
  while (more.size() < 3 * kBurstMax) more.push_back(write_frame(sender_->take_frame(to_receiver_), "more"));
  size_t sent = 0;
  for (; sender_->has_room(to_receiver_); ++sent) {
    ASSERT_LT(sent, kMbufs) << "the device takes everything";
    const TxFrame frame = write_frame(sender_->take_frame(to_receiver_), "one");
    sender_->send_frames(std::span(&frame, 1));
  }
  EXPECT_EQ(sender_->take_frame(to_receiver_).bytes, nullptr);
  sender_->send_frames(more);
  const auto dropped = static_cast<size_t>(sender_->counters().tx_full);
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(sender_->counters().tx_packets, sent + more.size() - dropped);
  // The driver has room again, and what waited goes out with the next frame, in front of it.
  size_t arrived = receive_all().size();
  EXPECT_TRUE(sender_->tx_burst({}) == 0 && sender_->has_room(to_receiver_));
  arrived += receive_all().size();
  EXPECT_EQ(arrived, sent + more.size() - dropped);
}

TEST_F(DpdkTransportTest, PoolExhausted_NoFrames) {
  std::vector<TxFrame> taken;
  for (;;) {
    const TxFrame frame = sender_->take_frame(to_receiver_);
    if (frame.bytes == nullptr) break;
    taken.push_back(frame);
    ASSERT_LE(taken.size(), kMbufs);
  }
  TxPacket one = packet(as_byte_span("x"), kNoToken);
  EXPECT_FALSE(send(one));
  sender_->send_frames(taken);  // nothing was written
  const TxFrame frame = write_frame(sender_->take_frame(to_receiver_), "x");
  sender_->send_frames(std::span(&frame, 1));
  EXPECT_EQ(receive_all(), std::vector<std::string>{"x"});
}

TEST_F(DpdkTransportTest, Resolve_RefusesOtherTransportsAndForeignNetworks) {
  Descriptor other = receiver_->local_descriptor();
  other.transport = "tcp";
  EXPECT_EQ(sender_->resolve(other).status().code(), absl::StatusCode::kInvalidArgument);
  other = receiver_->local_descriptor();
  other.address = other.address.substr(0, 5);
  EXPECT_EQ(sender_->resolve(other).status().code(), absl::StatusCode::kInvalidArgument);
  other = receiver_->local_descriptor();
  other.address[12] = '\x0b';  // 11.77.0.1: not in 10.77.0.0/24, and there is no gateway
  EXPECT_EQ(sender_->resolve(other).status().code(), absl::StatusCode::kInvalidArgument);
}

/// What an offer says of its sender: the receiver's address with another next hop.
class DpdkClaimTest : public DpdkTransportTest, private PeerUse {
 protected:
  void SetUp() override {
    DpdkTransportTest::SetUp();
    if (IsSkipped()) return;
    sender_->set_peer_use(this);
    dpdk::EndpointAddress address =
        dpdk::EndpointAddress::decode(as_byte_span(receiver_->local_descriptor().address)).value();
    true_mac_ = address.interfaces[0].mac;
    address.interfaces[0].mac = kWrongMac;
    claim_ = receiver_->local_descriptor();
    claim_.address = address.encode();
    claim_.identity = identity_of(3);
  }
  void TearDown() override {
    if (sender_ != nullptr) sender_->set_peer_use(nullptr);
    DpdkTransportTest::TearDown();
  }
  [[nodiscard]] bool is_used(PeerId peer) const override { return peer == used_; }

  /// Where the next packet to the receiver goes: the frame lies in front of the packet, as it was sent.
  dpdk::MacAddress next_hop() {
    TxPacket one = packet(as_byte_span("x"), kNoToken);
    EXPECT_TRUE(send(one));
    dpdk::MacAddress out{};
    for (int turn = 0; turn < 4; ++turn) {
      std::array<RxPacket, kBurstMax> burst;
      for (Transport* transport : {sender_.get(), receiver_.get()}) {
        const size_t count = transport->rx_burst(burst);
        for (size_t i = 0; i < count; ++i) {
          std::memcpy(out.data(), burst[i].header.data() - kIpv4FrameBytes, out.size());
          transport->release(std::span(&burst[i].buffer, 1));
        }
      }
    }
    return out;
  }

  static constexpr size_t kIpv4FrameBytes = dpdk::kEthernetBytes + dpdk::ip_udp_bytes(4);
  static constexpr dpdk::MacAddress kWrongMac = {2, 9, 9, 9, 9, 9};
  PeerId used_ = kNoPeer;
  dpdk::MacAddress true_mac_{};
  Descriptor claim_;
};

TEST_F(DpdkClaimTest, OfAnAddressInUse_ChangesNothing) {
  used_ = to_receiver_;
  ASSERT_EQ(next_hop(), true_mac_);
  EXPECT_EQ(sender_->resolve_claimed(claim_).value(), to_receiver_);
  EXPECT_EQ(next_hop(), true_mac_);
  // Whom we dial ourselves is as who told us says.
  EXPECT_EQ(sender_->resolve(claim_).value(), to_receiver_);
  EXPECT_EQ(next_hop(), kWrongMac);
}

TEST_F(DpdkClaimTest, OfAnAddressThatNoSessionUses_IsTaken) {
  EXPECT_EQ(sender_->resolve_claimed(claim_).value(), to_receiver_);
  EXPECT_EQ(next_hop(), kWrongMac);
}

// --- Lanes of one thread ---------------------------------------------------------------------------------------------

/// Three lanes that share bursts. The others are the far side; all have the one queue of the device.
class DpdkGroupTest : public DpdkTransportTest {
 protected:
  static constexpr size_t kGroup = 3;

  void SetUp() override {
    DpdkTransportTest::SetUp();
    if (IsSkipped()) return;
    for (size_t i = 0; i < kGroup; ++i) {
      const auto lane = static_cast<uint16_t>(2 + i);
      lanes_[i] = (*fabric())->make_transport(lane, identity_of(static_cast<uint8_t>(10 + i)), lanes_[0].get()).value();
      to_lane_[i] = sender_->resolve(lanes_[i]->local_descriptor()).value();
      to_sender_[i] = lanes_[i]->resolve(sender_->local_descriptor()).value();
    }
  }

  void send_to(size_t lane, const std::string& text) {
    const TxFrame frame = write_frame(sender_->take_frame(to_lane_[lane]), text);
    sender_->send_frames(std::span(&frame, 1));
  }
  void send_from(size_t lane, const std::string& text) {
    const TxFrame frame = write_frame(lanes_[lane]->take_frame(to_sender_[lane]), text);
    lanes_[lane]->send_frames(std::span(&frame, 1));
  }
  /// What one call brings.
  static std::vector<std::string> receive(Transport& transport, size_t count_max = kBurstMax) {
    std::array<RxPacket, kBurstMax> burst;
    const size_t count = transport.rx_burst(std::span(burst).first(count_max));
    std::vector<std::string> out;
    for (size_t i = 0; i < count; ++i) {
      out.emplace_back(as_string_view(burst[i].payload));
      transport.release(std::span(&burst[i].buffer, 1));
    }
    return out;
  }

  std::array<std::unique_ptr<Transport>, kGroup> lanes_;
  std::array<PeerId, kGroup> to_lane_{};
  std::array<PeerId, kGroup> to_sender_{};
};

using Strings = std::vector<std::string>;

TEST_F(DpdkGroupTest, OneLooksForAll) {
  send_to(1, "b");
  send_to(0, "a");
  send_to(2, "c");
  EXPECT_EQ(receive(*lanes_[0]), Strings{"a"});
  EXPECT_EQ(receive(*receiver_), Strings{}) << "the device is empty";
  EXPECT_EQ(receive(*lanes_[1]), Strings{"b"});
  EXPECT_EQ(receive(*lanes_[2]), Strings{"c"});
  EXPECT_EQ(receive(*lanes_[0]), Strings{});
}

TEST_F(DpdkGroupTest, Frames_WaitForTheLastLaneThatHasPackets) {
  send_to(0, "to a");
  send_to(1, "to b");
  EXPECT_EQ(receive(*lanes_[0]), Strings{"to a"});
  send_from(0, "from a");
  EXPECT_EQ(receive(*sender_), Strings{}) << "the second lane has a packet";
  EXPECT_EQ(receive(*lanes_[1]), Strings{"to b"});
  send_from(1, "from b");
  EXPECT_EQ(receive(*sender_), (Strings{"from a", "from b"}));
}

TEST_F(DpdkGroupTest, WithoutPackets_FramesLeaveAtOnce) {
  send_from(2, "now");
  EXPECT_EQ(receive(*sender_), Strings{"now"});
}

TEST_F(DpdkGroupTest, WhatWaits_LeavesWhenALaneLooksOrSleeps) {
  send_to(0, "to a");
  send_to(1, "to b");
  EXPECT_EQ(receive(*lanes_[0]), Strings{"to a"});
  send_from(0, "first");
  EXPECT_EQ(receive(*sender_), Strings{});
  lanes_[2]->wait(1);
  EXPECT_EQ(receive(*sender_), Strings{"first"});
  send_from(0, "second");
  EXPECT_EQ(receive(*sender_), Strings{});
  // The lane that looks finds what it has just sent, which is another one's, and hands it over.
  EXPECT_EQ(receive(*lanes_[2]), Strings{});
  EXPECT_EQ(receive(*sender_), Strings{"second"});
  EXPECT_EQ(receive(*lanes_[1]), Strings{"to b"});
}

TEST_F(DpdkGroupTest, AFullBurst_DoesNotWait) {
  send_to(0, "to a");
  send_to(1, "to b");
  EXPECT_EQ(receive(*lanes_[0]), Strings{"to a"});
  for (size_t i = 0; i < kBurstMax; ++i) send_from(0, "x");
  EXPECT_EQ(receive(*sender_).size(), kBurstMax);
  EXPECT_EQ(receive(*lanes_[1]), Strings{"to b"});
}

TEST_F(DpdkGroupTest, MoreThanAskedFor_ComesLaterInOrder) {
  Strings sent;
  for (int i = 0; i < 20; ++i) sent.push_back(std::to_string(i));
  for (const std::string& text : sent) send_to(0, text);
  send_to(1, "b");
  Strings got;
  for (int i = 0; i < 5; ++i) {
    const Strings some = receive(*lanes_[0], 4);
    EXPECT_EQ(some.size(), 4u);
    got.insert(got.end(), some.begin(), some.end());
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(receive(*lanes_[1]), Strings{"b"});
}

/// A lane that is not polled holds up none of the others, and loses what it has no room for.
TEST_F(DpdkGroupTest, ALaneThatIsNotPolled_HoldsUpNobody) {
  size_t others = 0;
  for (int i = 0; i < 600; ++i) {
    send_to(1, "ignored");
    if (i % 2 == 0) send_to(0, "taken");
    others += receive(*lanes_[0]).size();
  }
  for (int i = 0; i < 20; ++i) others += receive(*lanes_[0]).size();
  EXPECT_EQ(others, 300u);
  EXPECT_GT(lanes_[0]->counters().rx_dropped, 0u);
  send_from(0, "still");
  for (size_t i = 0; i < 2 * kGroup; ++i) static_cast<void>(receive(*lanes_[0]));
  EXPECT_EQ(receive(*sender_), Strings{"still"});
}

TEST_F(DpdkGroupTest, ALaneThatEnds_LeavesTheOthers) {
  send_to(0, "to a");
  send_to(1, "to b");
  EXPECT_EQ(receive(*lanes_[0]), Strings{"to a"});
  lanes_[1].reset();  // with its packet
  send_from(0, "at once");
  EXPECT_EQ(receive(*sender_), Strings{"at once"});
  lanes_[0].reset();
  send_from(2, "the last one");
  EXPECT_EQ(receive(*sender_), Strings{"the last one"});
}

TEST_F(DpdkTransportTest, MakeTransport_OnlyForLanesThereAre) {
  EXPECT_EQ((*fabric())->make_transport(kLanes, identity_of(9)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*fabric())->make_transport(0, EndpointIdentity{}).status().code(), absl::StatusCode::kInvalidArgument);
}

/// After the EAL has started it would be too late: a process can start it once.
TEST(DpdkFabric, Start_RefusesAnMtuThatNoDeviceCarriesBeforeTheEalStarts) {
  DpdkOptions options;
  options.ports = {{"net_null0", "10.77.0.1/24", ""}};
  for (const int mtu : {kDpdkMtuMin - 1, kDpdkMtuMax + 1}) {
    options.mtu = static_cast<uint16_t>(mtu);
    EXPECT_EQ(DpdkFabric::start(options).status().code(), absl::StatusCode::kInvalidArgument) << mtu;
  }
}

}  // namespace
}  // namespace skua::rpc
