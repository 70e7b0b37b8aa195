// Strangers ask for everything at once, over real gRPC, and a node joins and stays all the same.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/client/admin_client.h"
#include "control/client/node_agent.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/server/control_server.h"
#include "control/server/controller_limits.h"
#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/fake_probe.h"
#include "tests/control/unfinished_messages.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using testing::AnyOf;

std::shared_ptr<grpc::Channel> channel_to(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

/// Watches that stay open.
class Watches {
 public:
  explicit Watches(const std::string& address) : address_(address) {}
  ~Watches() {
    for (auto& context : contexts_) context->TryCancel();
    for (auto& reader : readers_) {
      while (reader->Read(&reply_)) {
      }
      (void)reader->Finish();
    }
  }

  /// Opens one more and waits for its first message; its end, if it is refused.
  grpc::Status open() {
    auto context = std::make_unique<grpc::ClientContext>();
    v1::WatchShardMapRequest request;
    *request.mutable_versions() = to_proto(kProtocolVersions);
    // One connection does not have room for as many as one host.
    if (contexts_.size() % (kCallsPerConnectionMax / 2) == 0) stub_ = v1::ShardMap::NewStub(channel_to(address_));
    auto reader = stub_->WatchShardMap(context.get(), request);
    if (!reader->Read(&reply_)) return reader->Finish();
    contexts_.push_back(std::move(context));
    readers_.push_back(std::move(reader));
    return grpc::Status::OK;
  }

 private:
  const std::string address_;
  std::unique_ptr<v1::ShardMap::Stub> stub_;
  v1::WatchShardMapReply reply_;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchShardMapReply>>> readers_;
};

class FloodTest : public testing::Test {
 protected:
  FloodTest() {
    ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.fresh_cluster_id = kClusterId;
    options.heartbeat_interval_ms = 20;
    options.suspect_after_ms = 600'000;
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    auto server = ControlServer::start(options, std::make_unique<MemoryStore>());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~FloodTest() override { end_flood(); }

  /// One stranger, who asks again as soon as it has an answer.
  template <typename Ask>
  void flood(Ask ask) {
    strangers_.emplace_back([this, ask] {
      const auto channel = channel_to(server_->address());
      while (!over_) {
        grpc::ClientContext context;
        const grpc::Status status = ask(context, channel);
        if (status.error_code() != grpc::StatusCode::UNAVAILABLE) ++answered_;
      }
    });
  }
  void end_flood() {
    over_ = true;
    for (std::thread& stranger : strangers_) stranger.join();
    strangers_.clear();
  }

  std::unique_ptr<ControlServer> server_;
  std::atomic<bool> over_ = false;
  std::atomic<uint64_t> answered_ = 0;
  std::vector<std::thread> strangers_;
};

TEST_F(FloodTest, ANodeJoinsAndIsHeardWhileStrangersAskForEverything) {
  for (int i = 0; i < 3; ++i) {
    flood([](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
      v1::GetStatusReply reply;
      return v1::Cluster::NewStub(channel)->GetStatus(&context, {}, &reply);
    });
    flood([i](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
      v1::HeartbeatRequest request;
      request.set_uuid(test_uuid(1000 + static_cast<uint64_t>(i)));
      request.set_incarnation(1);
      v1::HeartbeatReply reply;
      const grpc::Status status = v1::Membership::NewStub(channel)->Heartbeat(&context, request, &reply);
      EXPECT_THAT(status.error_code(), AnyOf(grpc::StatusCode::NOT_FOUND, grpc::StatusCode::UNAVAILABLE));
      return status;
    });
    flood([](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
      v1::WatchShardMapRequest request;
      *request.mutable_versions() = to_proto(kProtocolVersions);
      const auto reader = v1::ShardMap::NewStub(channel)->WatchShardMap(&context, request);
      v1::WatchShardMapReply reply;
      reader->Read(&reply);
      context.TryCancel();
      return reader->Finish();
    });
  }
  ASSERT_TRUE(eventually([&] { return answered_ > 100; }));
  NodeAgentOptions options;
  options.control_address = server_->address();
  options.node = test_node(1);
  NodeAgent agent(options);
  agent.start();
  ASSERT_TRUE(agent.wait_registered(kGenerous).ok());
  AdminClient admin(server_->address(), kGenerous);
  // What heartbeats say comes through, again and again.
  for (int i = 0; i < 5; ++i) {
    const std::string trouble = absl::StrCat("trouble ", i);
    agent.set_trouble(trouble);
    EXPECT_TRUE(eventually([&] {
      const auto status = admin.status();
      return status.ok() && status->nodes.size() == 1 && status->nodes[0].trouble == trouble &&
             status->nodes[0].liveness == Liveness::kAlive;
    }));
  }
  const uint64_t before = answered_;
  EXPECT_TRUE(eventually([&] { return answered_ > before; })) << "the flood goes on";
}

TEST_F(FloodTest, MessagesThatNobodyEndsDoNotFillTheMemory) {
  UnfinishedMessages messages(server_->address(), "/skua.control.v1.Cluster/GetStatus", kCallsPerConnectionMax);
  EXPECT_TRUE(messages.is_stopped_within(4 * kGrpcMemoryMax));
  AdminClient admin(server_->address(), kGenerous);
  EXPECT_TRUE(eventually([&] { return admin.status().ok(); })) << "others are served";
}

TEST_F(FloodTest, WatchesOfOneHostAreBoundedAndNodesJoinAllTheSame) {
  Watches watches(server_->address());
  for (size_t i = 0; i < kWatchersPerSourceMax; ++i) ASSERT_TRUE(watches.open().ok()) << i;
  const grpc::Status refused = watches.open();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("limit for one host"));
  NodeAgentOptions options;
  options.control_address = server_->address();
  options.node = test_node(1);
  NodeAgent agent(options);
  agent.start();
  EXPECT_TRUE(agent.wait_registered(kGenerous).ok());
}

}  // namespace
}  // namespace skua::control
