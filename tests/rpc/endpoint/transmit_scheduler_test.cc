#include "rpc/transmit_scheduler.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

using testing::SentPackets;

class TransmitSchedulerTest : public ::testing::Test {
 protected:
  SentPackets transmit() {
    parts.transmits.transmit();
    return std::exchange(wire.sent, {});
  }

  testing::ObedientWire wire;
  testing::SessionParts parts{wire};
  SessionEntry& one = parts.dialled(1);
  SessionEntry& two = parts.dialled(2);
};

TEST_F(TransmitSchedulerTest, SessionsSendInTheirOrder) {
  EXPECT_TRUE(parts.transmits.is_idle());
  two.session->send_ping();
  one.session->send_ping();
  EXPECT_TRUE(parts.transmits.has_ready());
  EXPECT_EQ(transmit(), SentPackets({{2, PacketType::kPing}, {1, PacketType::kPing}}));
  EXPECT_TRUE(parts.transmits.is_idle());
  EXPECT_EQ(transmit(), SentPackets());
}

TEST_F(TransmitSchedulerTest, AStoppedPeerHoldsUpNobodyElse) {
  wire.stopped = {1};
  one.session->send_ping();
  two.session->send_ping();
  EXPECT_EQ(transmit(), SentPackets({{2, PacketType::kPing}}));
  EXPECT_FALSE(parts.transmits.has_ready());
  EXPECT_TRUE(parts.transmits.has_waiting());
  EXPECT_FALSE(parts.transmits.is_idle());
  wire.stopped.clear();
  EXPECT_EQ(transmit(), SentPackets({{1, PacketType::kPing}}));
  EXPECT_TRUE(parts.transmits.is_idle());
}

TEST_F(TransmitSchedulerTest, WhatTheWireDoesNotTakeStays) {
  wire.takes = 0;
  one.session->send_ping();
  EXPECT_EQ(transmit(), SentPackets());
  EXPECT_TRUE(parts.transmits.has_ready());
  wire.takes = kBurstMax;
  EXPECT_EQ(transmit(), SentPackets({{1, PacketType::kPing}}));
}

TEST_F(TransmitSchedulerTest, AnExpressPacketOvertakesNobody) {
  EXPECT_NE(parts.transmits.express(*one.session), nullptr);
  two.session->send_ping();
  EXPECT_EQ(parts.transmits.express(*one.session), nullptr);
  transmit();
  EXPECT_NE(parts.transmits.express(*one.session), nullptr);
  wire.stopped = {1};
  EXPECT_EQ(parts.transmits.express(*one.session), nullptr);
  EXPECT_NE(parts.transmits.express(*two.session), nullptr);
}

TEST_F(TransmitSchedulerTest, ASessionThatEndsLeavesTheLists) {
  wire.stopped = {2};
  one.session->send_ping();
  two.session->send_ping();
  parts.lives.end(one, absl::CancelledError("test"));
  transmit();
  parts.lives.end(two, absl::CancelledError("test"));
  EXPECT_TRUE(parts.transmits.is_idle());
  parts.lives.bury();
  wire.stopped.clear();
  EXPECT_EQ(transmit(), SentPackets());
}

TEST_F(TransmitSchedulerTest, AControlPacketNeedsRoom) {
  PacketHeader header;
  header.type = PacketType::kDisconnect;
  wire.stopped = {1};
  parts.transmits.send_control(1, header, {});
  parts.transmits.send_control(kNoPeer, header, {});
  EXPECT_TRUE(parts.transmits.is_idle()) << "the side that needs it repeats it";
  parts.transmits.send_control(2, header, {});
  EXPECT_TRUE(parts.transmits.has_ready());
  EXPECT_EQ(transmit(), SentPackets({{2, PacketType::kDisconnect}}));
}

}  // namespace
}  // namespace skua::rpc
