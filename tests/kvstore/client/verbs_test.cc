#include "kvstore/client/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvstore/client/async_client.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

TEST(VerbsTransports, RefusesBadSettingsBeforeADeviceIsOpened) {
  rpc::VerbsSettings settings;
  settings.mtu = 1500;
  const absl::Status status = verbs_transports(settings).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--verbs-mtu"));
}

TEST(VerbsTransports, RefusesADeviceThatIsNotThere) {
  rpc::VerbsSettings settings;
  settings.device = "nothing9";
  const absl::Status status = verbs_transports(settings).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status)) << status;
}

TEST(VerbsTransports, ClientsShareADeviceThatOutlivesItsMaker) {
  absl::StatusOr<TransportMaker> maker = verbs_transports({});
  if (!maker.ok()) GTEST_SKIP() << maker.status();
  ClientOptions options;
  options.make_transport = *maker;
  auto first = AsyncClient::create(options);
  auto second = AsyncClient::create(options);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  options = {};
  maker = absl::CancelledError();
  first->reset();
  (*second)->poll(std::chrono::nanoseconds(0));
  second->reset();
}

}  // namespace
}  // namespace skua::kv
