// How often sessions are opened.
#include "kvstore/client/sessions.h"

#include <gtest/gtest.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;

/// A node that takes every session, and ends one at its first request as long as `ends` says so.
class EndedSessionsTest : public testing::Test {
 protected:
  EndedSessionsTest() : world_(1) {
    world_.publish(1);
    world_.start_client();
    world_.node(0).script = [this](rpc::IncomingCall& call) {
      if (!ends_) return false;
      ends_ = ends_always_;
      world_.node(0).endpoint().close(call.session);
      return true;
    };
  }

  absl::StatusCode read(milliseconds timeout) {
    Got<GetResult> got;
    EXPECT_TRUE(world_.client->get("t", "k", {.timeout = timeout}, got.callback()).ok());
    EXPECT_TRUE(world_.run_until([&] { return got.here(); }));
    return got.result.status.code();
  }
  [[nodiscard]] uint64_t opened() const { return world_.client->counters().sessions_opened; }

  ClientWorld world_;
  bool ends_ = true;
  bool ends_always_ = true;
};

// Openings are at least 5, 10, 20, 40, 80, 160, 320, 500, 500, 500 ms apart, and at most twice that.
constexpr uint64_t kOpenedMax = 11;  // in two seconds

TEST_F(EndedSessionsTest, Unheard_IsOpenedAgainWithGrowingPauses) {
  EXPECT_EQ(read(milliseconds(2000)), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(opened(), 6u);
  EXPECT_LE(opened(), kOpenedMax);
  EXPECT_EQ(world_.control.describes, opened());
}

TEST_F(EndedSessionsTest, Unheard_ManyOperationsOpenItNoMoreOften) {
  Got<GetResult> got;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(world_.client->get("t", absl::StrCat(i), {.timeout = milliseconds(2000)}, got.callback()).ok());
  }
  ASSERT_TRUE(world_.run_until([&] { return got.count == 100; }));
  EXPECT_LE(opened(), kOpenedMax);
}

TEST_F(EndedSessionsTest, Heard_IsOpenedAgainAtOnceAndWithShortPausesAfterwards) {
  EXPECT_EQ(read(milliseconds(2000)), absl::StatusCode::kDeadlineExceeded);
  ends_ = false;
  EXPECT_EQ(read(milliseconds(2000)), absl::StatusCode::kNotFound);

  ends_ = true;
  ends_always_ = false;
  const uint64_t before = opened();
  TimeNs begun = world_.network.now_ns();
  EXPECT_EQ(read(milliseconds(2000)), absl::StatusCode::kNotFound);
  EXPECT_EQ(opened(), before + 1);
  EXPECT_LT(world_.network.now_ns() - begun, kReopenPauseMinNs / 2);

  // The node ends what was heard, and then two that were not: the first of those is the first failure.
  int left = 3;
  world_.node(0).script = [&](rpc::IncomingCall& call) {
    if (left-- <= 0) return false;
    world_.node(0).endpoint().close(call.session);
    return true;
  };
  begun = world_.network.now_ns();
  EXPECT_EQ(read(milliseconds(2000)), absl::StatusCode::kNotFound);
  EXPECT_EQ(opened(), before + 4);
  EXPECT_GE(world_.network.now_ns() - begun, kReopenPauseMinNs / 2 + kReopenPauseMinNs);
  EXPECT_LT(world_.network.now_ns() - begun, 8 * kReopenPauseMinNs);
}

}  // namespace
}  // namespace skua::kv
