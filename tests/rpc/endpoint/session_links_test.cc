#include "rpc/session_links.h"

#include <gtest/gtest.h>

#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;
using testing::Happened;
using testing::Kinds;

class SessionLinksTest : public testing::SessionPartsTest {
 protected:
  void happens(PeerId peer, LinkEvent::Kind kind, const absl::Status& its_why = absl::OkStatus()) {
    wire.links.push_back({peer, kind, identity(1), its_why});
    EXPECT_EQ(links.poll(), 1u);
  }

  SessionLinks links{context, parts.lives, parts.binding, parts.joins};
};

TEST_F(SessionLinksTest, AllEventsAreTaken) {
  EXPECT_EQ(links.poll(), 0u);
  for (const size_t count : {1u, 7u, 8u, 9u, 16u, 30u}) {
    wire.links.assign(count, {1, LinkEvent::Kind::kDown, {}, why});
    EXPECT_EQ(links.poll(), count);
    EXPECT_TRUE(wire.links.empty());
  }
}

TEST_F(SessionLinksTest, TheSessionOutlivesItsLink) {
  SessionEntry& entry = parts.dialled(1);
  entry.identity = identity(1);
  happens(2, LinkEvent::Kind::kDown, why);
  EXPECT_FALSE(entry.link_lost) << "another peer's";
  happens(1, LinkEvent::Kind::kDown, why);
  EXPECT_TRUE(entry.link_lost);
  EXPECT_EQ(entry.resend_at_ns, context.now_ns + protocol.connect_retry_ns);
  happens(1, LinkEvent::Kind::kUp);
  EXPECT_FALSE(entry.link_lost);
  EXPECT_EQ(entry.state, State::kOpen);
  EXPECT_EQ(parts.kinds(), Kinds({Happened::kConnected, Happened::kLinkLost}));
}

TEST_F(SessionLinksTest, APeerInAnotherLife_HasLostTheSession) {
  SessionEntry& entry = parts.dialled(1);
  entry.identity = identity(2);
  happens(1, LinkEvent::Kind::kUp);
  EXPECT_EQ(entry.state, State::kConnecting);
  EXPECT_TRUE(absl::IsAborted(parts.events.back().why));
}

TEST_F(SessionLinksTest, APathThatIsTooNarrow_BreaksTheSession) {
  SessionEntry& entry = parts.dialled(1);
  happens(1, LinkEvent::Kind::kRefused, absl::OutOfRangeError("narrow"));
  EXPECT_EQ(entry.state, State::kOpen) << "its packets fit";
  wire.path_bytes = 500;
  happens(1, LinkEvent::Kind::kRefused, absl::OutOfRangeError("narrow"));
  EXPECT_EQ(entry.state, State::kConnecting);
}

}  // namespace
}  // namespace skua::rpc
