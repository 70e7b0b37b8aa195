#include "kvstore/client/operation_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvstore/client/client_core.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Asking again would only make the application wait until its deadline.
TEST(OperationRunner, WhoMayOpenNoSessionIsToldAtOnce) {
  ClientWorld world(1);
  world.publish(2);
  world.control.set_bootstrap_error(absl::PermissionDeniedError("the role monitor may not call OpenSession"));
  world.start_client();
  Got<GetResult> read;
  Got<WriteResult> written;
  ASSERT_TRUE(world.client->get("t", "a", {.timeout = seconds(60)}, read.callback()).ok());
  ASSERT_TRUE(world.client->put("t", "b", "v", {.timeout = seconds(60)}, written.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return read.here() && written.here(); }, 5 * kSecond));
  for (const absl::Status& status : {read.result.status, written.result.status}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node0"), HasSubstr("may not call OpenSession")));
  }
  EXPECT_FALSE(written.result.may_have_been_applied);
  // Somebody gave this program another certificate.
  world.control.set_bootstrap_error(absl::OkStatus());
  Got<GetResult> again;
  ASSERT_TRUE(world.client->get("t", "a", {.timeout = seconds(60)}, again.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return again.here(); }));
  EXPECT_EQ(again.result.status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace skua::kv
