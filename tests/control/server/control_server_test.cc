#include "control/server/control_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

ControlServerOptions ephemeral() {
  ControlServerOptions options;
  options.listen_address = "127.0.0.1:0";
  options.fresh_cluster_id = kClusterId;
  return options;
}

TEST(Start, ReportsAddressAndCluster) {
  const auto server = ControlServer::start(ephemeral(), std::make_unique<MemoryStore>());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->address(), testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  EXPECT_EQ((*server)->cluster_id(), kClusterId);
}

TEST(Start, PortInUse) {
  const auto first = ControlServer::start(ephemeral(), std::make_unique<MemoryStore>());
  ASSERT_TRUE(first.ok());
  ControlServerOptions options = ephemeral();
  options.listen_address = (*first)->address();
  EXPECT_EQ(ControlServer::start(options, std::make_unique<MemoryStore>()).status().code(), StatusCode::kAlreadyExists);
}

TEST(Start, BadClusterId) {
  ControlServerOptions options = ephemeral();
  options.cluster.id = "my-cluster";
  const auto status = ControlServer::start(options, std::make_unique<MemoryStore>()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("my-cluster"));
}

TEST(Start, BadHeartbeatTimes) {
  ControlServerOptions options = ephemeral();
  options.heartbeat_interval_ms = 1000;
  options.suspect_after_ms = 1500;
  const auto status = ControlServer::start(options, std::make_unique<MemoryStore>()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1500 ms"));
}

TEST(Shutdown, MayBeCalledTwice) {
  const auto server = ControlServer::start(ephemeral(), std::make_unique<MemoryStore>());
  ASSERT_TRUE(server.ok());
  (*server)->shutdown();
  (*server)->shutdown();
}

}  // namespace
}  // namespace skua::control
