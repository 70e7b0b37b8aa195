#include "rpc/packet_receiver.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

#include "rpc/handshake_policy.h"
#include "rpc/session_acceptor.h"
#include "rpc/session_dialer.h"
#include "rpc/stray_packets.h"
#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

using testing::SentPackets;

class PacketReceiverTest : public testing::SessionPartsTest {
 protected:
  /// The next packet of receive(), in buffer 1, 2, ...
  void arrives(PeerId from, const PacketHeader& header) {
    encode_sealed_header(header, nullptr, 0, headers.emplace_back().data());
    RxPacket packet;
    packet.from = from;
    packet.header = headers.back();
    packet.buffer = ++last_buffer;
    wire.arriving.push_back(packet);
  }
  void turn() {
    receiver.dispatch(receiver.receive());
    parts.memory.flush_releases();
  }
  [[nodiscard]] static PacketHeader header_for(const SessionEntry& entry, PacketType type) {
    PacketHeader out;
    out.type = type;
    out.session_index = entry.index;
    out.session_generation = entry.wire_generation;
    return out;
  }
  /// All buffers are the transport's again.
  [[nodiscard]] bool all_released() const {
    size_t count = 0;
    for (const std::vector<RxBufferId>& burst : wire.released) count += burst.size();
    return count == last_buffer;
  }

  std::deque<std::array<std::byte, kPacketHeaderBytes>> headers;
  RxBufferId last_buffer = 0;
  HandshakePolicy policy{wire, context.options};
  SessionDialer dialer{context, policy, parts.lives, parts.transmits};
  SessionAcceptor acceptor{context, policy, parts.lives, parts.binding, parts.transmits};
  StrayPackets strays{context, parts.transmits, parts.lives, parts.binding, dialer, acceptor};
  PacketReceiver receiver{context, parts.memory, parts.bundles, strays};
};

TEST_F(PacketReceiverTest, AnOpenSessionGetsItsPackets) {
  SessionEntry& entry = parts.dialled(1);
  arrives(1, header_for(entry, PacketType::kPing));
  turn();
  EXPECT_TRUE(all_released());
  EXPECT_EQ(transmit(), SentPackets({{1, PacketType::kPong}}));
}

TEST_F(PacketReceiverTest, ADamagedPacket_IsDropped) {
  arrives(1, header_for(parts.dialled(1), PacketType::kPing));
  headers.back()[kPacketHeaderBytes - 1] ^= std::byte{1};
  turn();
  EXPECT_TRUE(all_released());
  EXPECT_EQ(drops(DropReason::kBadChecksum), 1u);
  EXPECT_EQ(transmit(), SentPackets());
}

TEST_F(PacketReceiverTest, WhatNobodyUnderstands_IsCountedAndGoesBack) {
  arrives(1, header_for(parts.dialled(1), PacketType::kPing));
  headers.back().fill(std::byte{0xff});
  turn();
  EXPECT_TRUE(all_released());
  uint64_t dropped = 0;
  for (const uint64_t count : context.counters.drops) dropped += count;
  EXPECT_EQ(dropped, 1u);
}

TEST_F(PacketReceiverTest, AForeignSender_IsNotHeard) {
  SessionEntry& entry = parts.dialled(1);
  arrives(2, header_for(entry, PacketType::kPing));
  turn();
  EXPECT_EQ(drops(DropReason::kForeignSender), 1u);
  EXPECT_EQ(transmit(), SentPackets()) << "an answer would end the session at its real peer";
}

TEST_F(PacketReceiverTest, APacketBindsASessionThatWaitsForItsPeer) {
  SessionEntry& entry = parts.accepted(7);
  arrives(3, header_for(entry, PacketType::kPing));
  turn();
  EXPECT_EQ(entry.peer, 3u);
  EXPECT_EQ(transmit(), SentPackets({{3, PacketType::kPong}}));
  arrives(3, header_for(entry, PacketType::kDisconnect));
  turn();
  EXPECT_EQ(entry.state, SessionEntry::State::kDoomed);
}

TEST_F(PacketReceiverTest, WhoAsksASessionThatIsGone_IsTold) {
  SessionEntry& entry = parts.dialled(1);
  PacketHeader old = header_for(entry, PacketType::kPing);
  --old.session_generation;
  arrives(1, old);
  old.type = PacketType::kPong;
  arrives(1, old);
  turn();
  EXPECT_EQ(drops(DropReason::kOldGeneration), 2u);
  EXPECT_EQ(transmit(), SentPackets({{1, PacketType::kUnknownSession}})) << "who does not ask is not told";
}

TEST_F(PacketReceiverTest, TakesWholeBurstsOnlyFromManyPeers) {
  SessionEntry& one = parts.dialled(1);
  SessionEntry& two = parts.dialled(2);
  receiver.receive();
  EXPECT_EQ(wire.wanted, kBurstMax / 2);
  arrives(1, header_for(one, PacketType::kPing));
  arrives(2, header_for(two, PacketType::kPing));
  turn();
  receiver.receive();
  EXPECT_EQ(wire.wanted, kBurstMax);
  arrives(1, header_for(one, PacketType::kPing));
  arrives(1, header_for(one, PacketType::kPing));
  turn();
  receiver.receive();
  EXPECT_EQ(wire.wanted, kBurstMax / 2);
}

TEST_F(PacketReceiverTest, PlacesOnlyWhatASessionExpects) {
  SessionEntry& entry = parts.dialled(1);
  PacketHeader header = header_for(entry, PacketType::kResponse);
  header.message_bytes = 500;
  std::array<std::byte, kPacketHeaderBytes> bytes;
  encode_header(header, bytes.data());
  EXPECT_EQ(receiver.place(1, bytes, 500).to, nullptr) << "no call waits for it";
  header.type = PacketType::kRequest;
  encode_header(header, bytes.data());
  EXPECT_EQ(receiver.place(1, bytes, 400).to, nullptr) << "a piece";
  EXPECT_EQ(receiver.place(2, bytes, 500).to, nullptr) << "another's session";
  const RxPlacer::Placement placement = receiver.place(1, bytes, 500);
  EXPECT_NE(placement.to, nullptr);
  receiver.abandon(placement.cookie);
  EXPECT_EQ(parts.memory.buffer_count(), 0u);
}

}  // namespace
}  // namespace skua::rpc
