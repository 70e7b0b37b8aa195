#include "kvstore/client/dpdk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvstore/client/async_client.h"
#include "rpc/transport/transport.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

rpc::DpdkSettings nowhere() {
  rpc::DpdkSettings settings = dpdk_client_settings();
  settings.devices = "net_null0";
  settings.addresses = "10.77.0.254/24";
  settings.huge_pages = false;
  return settings;
}

TEST(DpdkTransports, RefusesBadSettingsBeforeDpdkIsStarted) {
  rpc::DpdkSettings settings = nowhere();
  settings.addresses = "10.77.0.254";
  const absl::Status status = dpdk_transports(settings, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--dpdk-addresses"));
}

// One test, as DPDK starts once in a process.
TEST(DpdkTransports, GivesEachClientALaneAndTakesItBack) {
  absl::StatusOr<TransportMaker> maker = dpdk_transports(nowhere(), 2);
  if (absl::IsUnimplemented(maker.status()) || absl::IsFailedPrecondition(maker.status())) {
    GTEST_SKIP() << maker.status();
  }
  ASSERT_TRUE(maker.ok()) << maker.status();
  ClientOptions options;
  options.make_transport = *maker;
  auto first = AsyncClient::create(options);
  auto second = AsyncClient::create(options);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(AsyncClient::create(options).status().code(), absl::StatusCode::kResourceExhausted);
  first->reset();
  first = AsyncClient::create(options);
  ASSERT_TRUE(first.ok()) << first.status();

  // The last client closes the devices, also after its maker is gone.
  options = {};
  maker = absl::CancelledError();
  second->reset();
  first->reset();
  EXPECT_EQ(dpdk_transports(nowhere(), 1).status().code(), absl::StatusCode::kFailedPrecondition)
      << "once in a process";
}

}  // namespace
}  // namespace skua::kv
