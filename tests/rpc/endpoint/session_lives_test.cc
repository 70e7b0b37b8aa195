#include "rpc/session_lives.h"

#include <gtest/gtest.h>

#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;
using testing::Happened;
using testing::Kinds;
using testing::SentPackets;

class SessionLivesTest : public testing::SessionPartsTest {};

TEST_F(SessionLivesTest, ASessionOfOurs_ConnectsAnew) {
  SessionEntry& entry = parts.dialled(1);
  const SessionId handle = entry.handle();
  const uint32_t generation = entry.wire_generation;
  parts.lives.break_off(entry, why);
  EXPECT_EQ(entry.state, State::kConnecting);
  EXPECT_EQ(context.sessions.find(handle), &entry);
  EXPECT_NE(entry.wire_generation, generation);
  EXPECT_EQ(context.timers.next(), context.now_ns) << "an offer is due";
  parts.lives.open(entry, entry.session->terms());
  EXPECT_EQ(parts.kinds(), Kinds({Happened::kConnected, Happened::kBroken, Happened::kReconnected}));
  EXPECT_EQ(parts.events[1].why, why);
  EXPECT_EQ(context.counters.sessions_broken, 1u);
  EXPECT_EQ(context.counters.sessions_reconnected, 1u);
}

TEST_F(SessionLivesTest, ASessionOfThePeers_Ends) {
  SessionEntry& entry = parts.accepted(7);
  const SessionId handle = entry.handle();
  parts.lives.break_off(entry, why);
  EXPECT_EQ(parts.kinds(), Kinds({Happened::kAccepted, Happened::kClosed}));
  EXPECT_EQ(context.sessions.find(handle), nullptr);
  EXPECT_NE(entry.session, nullptr) << "it may be running";
  parts.lives.end(entry, why);
  EXPECT_EQ(parts.events.size(), 2u) << "it ends once";
  parts.lives.bury();
  EXPECT_EQ(entry.session, nullptr);
  EXPECT_EQ(context.sessions.size(), 0u);
  EXPECT_EQ(context.timers.next(), kTimeNever);
}

TEST_F(SessionLivesTest, ClosingTellsThePeer) {
  SessionEntry& bound = parts.dialled(1);
  SessionEntry& unbound = parts.accepted(7);
  parts.lives.close(bound.handle());
  parts.lives.close(bound.handle());
  parts.lives.close(unbound.handle());
  EXPECT_EQ(transmit(), SentPackets({{1, PacketType::kDisconnect}}));
}

TEST_F(SessionLivesTest, APeerThatLostTheSession_HasToNameIt) {
  SessionEntry& entry = parts.dialled(1);
  entry.remote_index = 5;
  entry.remote_generation = 50;
  parts.lives.lost_at_peer(1, 5, 51);
  parts.lives.lost_at_peer(2, 5, 50);
  EXPECT_EQ(entry.state, State::kOpen);
  EXPECT_EQ(drops(DropReason::kUnknownSession), 2u);
  parts.lives.lost_at_peer(1, 5, 50);
  EXPECT_EQ(entry.state, State::kConnecting);
  EXPECT_TRUE(absl::IsAborted(parts.events.back().why));
}

}  // namespace
}  // namespace skua::rpc
