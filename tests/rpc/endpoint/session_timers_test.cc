#include "rpc/session_timers.h"

#include <gtest/gtest.h>

#include "rpc/handshake_policy.h"
#include "rpc/session_dialer.h"
#include "rpc/session_links.h"
#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;
using testing::SentPackets;

class SessionTimersTest : public testing::SessionPartsTest {
 protected:
  void run_after(DurationNs time_ns) {
    parts.pass(time_ns);
    timers.run_due();
  }

  HandshakePolicy policy{wire, context.options};
  SessionDialer dialer{context, policy, parts.lives, parts.transmits};
  SessionTimers timers{context, parts.lives, dialer, parts.joins};
};

TEST_F(SessionTimersTest, ASessionThatIsNeverUsed_Ends) {
  SessionEntry& entry = parts.accepted(7);
  run_after(protocol.unproven_after_ns - 1);
  EXPECT_EQ(entry.state, State::kOpen);
  run_after(1);
  EXPECT_EQ(entry.state, State::kDoomed);
}

TEST_F(SessionTimersTest, ASilentPeersSession_EndsLater) {
  SessionEntry& entry = parts.accepted(7);
  ASSERT_TRUE(parts.binding.bind(entry, 3));
  run_after(protocol.idle_timeout_ns - 1);
  EXPECT_EQ(entry.state, State::kOpen);
  run_after(1);
  EXPECT_EQ(entry.state, State::kDoomed);
}

TEST_F(SessionTimersTest, ABrokenLinkThatStaysBroken_EndsThePeersSession) {
  SessionEntry& entry = parts.accepted(7);
  ASSERT_TRUE(parts.binding.bind(entry, 3));
  wire.links.push_back({3, LinkEvent::Kind::kDown, {}, why});
  ASSERT_EQ(SessionLinks(context, parts.lives, parts.binding, parts.joins).poll(), 1u);
  run_after(protocol.abandoned_after_ns - 1);
  EXPECT_EQ(entry.state, State::kOpen);
  run_after(1);
  EXPECT_EQ(entry.state, State::kDoomed);
}

TEST_F(SessionTimersTest, ASessionOfOurs_PingsAThirdOfTheTimeout) {
  parts.dialled(1);
  run_after(protocol.idle_timeout_ns / 3 - 1);
  EXPECT_EQ(transmit(), SentPackets());
  run_after(1);
  EXPECT_EQ(transmit(), SentPackets({{1, PacketType::kPing}}));
}

TEST_F(SessionTimersTest, OffersAreRepeated) {
  const absl::StatusOr<SessionId> session = dialer.connect({});
  ASSERT_TRUE(session.ok());
  for (int i = 0; i < 3; ++i) {
    timers.run_due();
    ASSERT_TRUE(dialer.has_offers_due());
    dialer.send_offers();
    EXPECT_EQ(transmit(), SentPackets({{1, PacketType::kConnect}}));
    run_after(protocol.connect_retry_ns - 1);
    EXPECT_FALSE(dialer.has_offers_due());
    parts.pass(1);
  }
  EXPECT_EQ(context.sessions.find(*session)->attempts, 3u);
}

}  // namespace
}  // namespace skua::rpc
