#include "rpc/session_binding.h"

#include <gtest/gtest.h>

#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;

class SessionBindingTest : public testing::SessionPartsTest {};

TEST_F(SessionBindingTest, OnlyAnUnboundSessionIsBound) {
  SessionEntry& entry = parts.accepted(7);
  EXPECT_TRUE(SessionBinding::is_lost_peer(entry, 3));
  EXPECT_FALSE(SessionBinding::is_lost_peer(entry, kNoPeer));
  entry.claimed = 4;
  EXPECT_FALSE(SessionBinding::is_lost_peer(entry, 3)) << "the offer named another";
  EXPECT_TRUE(SessionBinding::is_lost_peer(entry, 4));
  entry.claimed = kNoPeer;
  EXPECT_TRUE(parts.binding.bind_again(entry, 3));
  EXPECT_EQ(entry.peer, 3u);
  EXPECT_FALSE(SessionBinding::is_lost_peer(entry, 3));
  parts.binding.unbind(entry);
  EXPECT_TRUE(SessionBinding::is_lost_peer(entry, 5)) << "another connection";
  EXPECT_FALSE(SessionBinding::is_lost_peer(parts.dialled(1), 1));
}

TEST_F(SessionBindingTest, AnOfferMakesWayForItself_UnlessItIsOld) {
  SessionEntry& entry = parts.accepted(7);
  entry.identity = identity(2);
  ASSERT_TRUE(parts.binding.bind(entry, 3));
  EXPECT_TRUE(absl::IsAborted(parts.binding.make_way(3, identity(1), 7, 90))) << "an earlier life";
  EXPECT_TRUE(absl::IsAborted(parts.binding.make_way(3, identity(2), 7, 69))) << "an earlier connection";
  EXPECT_TRUE(parts.binding.make_way(3, identity(2), 8, 69).ok()) << "another session";
  EXPECT_EQ(entry.state, State::kOpen);
  EXPECT_TRUE(parts.binding.make_way(3, identity(2), 7, 71).ok());
  EXPECT_EQ(entry.state, State::kDoomed);
}

TEST_F(SessionBindingTest, APeerThatHoldsTooMany_LosesTheNext) {
  EndpointOptions options;
  options.sessions_per_peer_max = 1;
  testing::SessionParts few{wire, options};
  EXPECT_TRUE(few.binding.bind(few.accepted(7), 3));
  SessionEntry& second = few.accepted(8);
  EXPECT_FALSE(few.binding.bind(second, 3));
  EXPECT_EQ(second.state, State::kDoomed);
  EXPECT_EQ(few.context.counters.drops[static_cast<size_t>(DropReason::kRefusedHandshake)], 1u);
}

}  // namespace
}  // namespace skua::rpc
