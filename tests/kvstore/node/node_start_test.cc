#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kvstore/node/node.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

const std::string kUuid = "01020304-0506-4708-890a-0b0c0d0e0f10";

NodeOptions options_for(const TemporaryDirectory& directory) {
  NodeOptions options;
  options.data_dir = directory.path();
  options.node_uuid = kUuid;
  options.instance = "01020304-0506-4708-890a-000000000001";
  options.control_address = "127.0.0.1:1";
  options.grpc_address = "127.0.0.1:0";
  options.make_transport = [](uint32_t, const rpc::EndpointIdentity&) { return absl::AlreadyExistsError("taken"); };
  return options;
}

TEST(NodeStart, FailsWithTheReasonWhenAWorkerCannotListen) {
  const TemporaryDirectory directory;
  NodeOptions options = options_for(directory);
  // Whether the cluster is known or not.
  for (const std::string& cluster : {std::string(), kUuid}) {
    options.cluster_id = cluster;
    const absl::Status status = Node::start(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(status.message()), HasSubstr("taken"));
  }
}

TEST(NodeStart, MakesNoTransportBeforeItsClusterIsKnownUnlessToldToProbe) {
  const TemporaryDirectory directory;
  NodeOptions options = options_for(directory);
  options.probe_transports = false;
  const auto node = Node::start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  (*node)->stop();
}

TEST(NodeStart, FailsWithTheReasonWhenTheStateIsNewer) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/state") << "format_version = 2\n";
  const absl::Status status = Node::start(options_for(directory)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer version of skuad"));
}

TEST(NodeStart, WaitsForRoomForItsStateUntilItIsToldToStop) {
  const TemporaryDirectory directory;
  NodeOptions options = options_for(directory);
  // Whatever is written there finds no room.
  std::filesystem::create_symlink("/dev/full", directory.path() + "/state.new");
  int asked = 0;
  options.wait_for_room = [&](const absl::Status& why) {
    EXPECT_EQ(why.code(), absl::StatusCode::kResourceExhausted) << why;
    return ++asked < 3;
  };
  EXPECT_EQ(Node::start(options).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/shards"));
}

}  // namespace
}  // namespace skua::kv
