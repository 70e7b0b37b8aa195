#include "kvstore/peers/peer_bootstrap.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "tests/kvstore/peers/peer_world.h"

namespace skua::kv {
namespace {

using testing::kPeerCluster;

TEST(PeerBootstrapTest, Nobody_ThereIsAnError) {
  const auto bootstrap = make_grpc_peer_bootstrap();
  std::promise<absl::Status> described;
  std::promise<absl::Status> opened;
  bootstrap->describe("127.0.0.1:1", kPeerCluster, [&](const auto& node) { described.set_value(node.status()); });
  control::OpenSessionRequest request;
  request.grpc_address = "127.0.0.1:1";
  bootstrap->open_session(request, [&](const auto& answer) { opened.set_value(answer.status()); });
  EXPECT_FALSE(described.get_future().get().ok());
  EXPECT_FALSE(opened.get_future().get().ok());
}

TEST(PeerBootstrapTest, End_AnswersEverythingThatWasAsked) {
  std::atomic<int> answers = 0;
  {
    const auto bootstrap = make_grpc_peer_bootstrap();
    for (int i = 0; i < 100; ++i) {
      bootstrap->describe("127.0.0.1:1", kPeerCluster, [&](const auto& node) {
        EXPECT_FALSE(node.ok());
        ++answers;
      });
    }
  }
  EXPECT_EQ(answers, 100);
}

}  // namespace
}  // namespace skua::kv
