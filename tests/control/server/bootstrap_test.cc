// Bootstrap over real gRPC: BootstrapServer on one side, BootstrapClient on the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "control/client/bootstrap_client.h"
#include "control/server/bootstrap_server.h"
#include "control/server/controller_limits.h"
#include "tests/control/unfinished_messages.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class EchoAcceptor final : public SessionAcceptor {
 public:
  NodeDescription describe() override { return node; }

  absl::StatusOr<std::string> open_session(uint32_t worker, const TransportDescriptor& caller, const std::string& offer,
                                           const SessionCaller& who) override {
    EXPECT_EQ(who.host, "ipv4:127.0.0.1");
    EXPECT_EQ(who.principal, "");
    if (offer == "no") return absl::ResourceExhaustedError("worker 1 has no room for a session");
    std::unique_lock lock(mutex_);
    open_.wait(lock, [&] { return !blocked; });
    return std::to_string(worker) + "|" + caller.kind + "|" + caller.bytes + "|" + offer;
  }

  void unblock() {
    {
      std::lock_guard lock(mutex_);
      blocked = false;
    }
    open_.notify_all();
  }

  NodeDescription node{
      "node-uuid", 7, "cluster", {{0, {{"tcp", std::string("\0\1", 2)}}}, {1, {{"tcp", "b"}, {"verbs", "qp"}}}}, 5};
  bool blocked = false;

 private:
  std::mutex mutex_;
  std::condition_variable open_;
};

class BootstrapTest : public testing::Test {
 protected:
  BootstrapTest() {
    auto server = BootstrapServer::start("127.0.0.1:0", acceptor_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~BootstrapTest() override { acceptor_.unblock(); }

  OpenSessionRequest request() {
    OpenSessionRequest request;
    request.grpc_address = server_->address();
    request.cluster_id = "cluster";
    request.node_uuid = "node-uuid";
    request.incarnation = 7;
    request.worker = 1;
    request.transport = {"tcp", std::string("\0me", 3)};
    request.offer = std::string("off\0er", 6);
    return request;
  }

  EchoAcceptor acceptor_;
  std::unique_ptr<BootstrapServer> server_;
  BootstrapClient client_;
};

TEST_F(BootstrapTest, Describe_TellsEverything) {
  const auto node = client_.describe(server_->address(), "cluster", kGenerous);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(*node, acceptor_.node);
}

TEST_F(BootstrapTest, Describe_RefusesAForeignCluster) {
  const auto status = client_.describe(server_->address(), "other", kGenerous).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other"));
}

TEST_F(BootstrapTest, OpenSession_CarriesBytesBothWays) {
  const auto answer = client_.open_session(request(), kGenerous);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->answer, std::string("1|tcp|\0me|off\0er", 16));
  EXPECT_EQ(answer->node_uuid, "node-uuid");
  EXPECT_EQ(answer->incarnation, 7u);
}

TEST_F(BootstrapTest, OpenSession_ExpectationsMayBeLeftOpen) {
  OpenSessionRequest open = request();
  open.cluster_id.clear();
  open.node_uuid.clear();
  open.incarnation = 0;
  EXPECT_TRUE(client_.open_session(open, kGenerous).ok());
}

TEST_F(BootstrapTest, OpenSession_RefusesWhatIsNotExpectedHere) {
  const auto refused = [&](auto&& change) {
    OpenSessionRequest wrong = request();
    change(wrong);
    return client_.open_session(wrong, kGenerous).status();
  };
  EXPECT_EQ(refused([](auto& r) { r.cluster_id = "other"; }).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused([](auto& r) { r.node_uuid = "other"; }).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused([](auto& r) { r.incarnation = 6; }).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused([](auto& r) { r.worker = 2; }).code(), StatusCode::kNotFound);
  EXPECT_EQ(refused([](auto& r) { r.offer = std::string(kOfferMax + 1, 'x'); }).code(), StatusCode::kInvalidArgument);
}

TEST_F(BootstrapTest, OpenSession_PassesTheWorkersRefusalOn) {
  OpenSessionRequest refused = request();
  refused.offer = "no";
  const auto status = client_.open_session(refused, kGenerous).status();
  EXPECT_EQ(status, absl::ResourceExhaustedError("worker 1 has no room for a session"));
}

TEST_F(BootstrapTest, OpenSession_HasADeadline) {
  acceptor_.blocked = true;
  const auto status = client_.open_session(request(), 20 * kMillisecond).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_->address()));
}

TEST_F(BootstrapTest, OpenSession_NobodyThereIsUnavailable) {
  OpenSessionRequest nobody = request();
  nobody.grpc_address = "127.0.0.1:1";
  const auto status = client_.open_session(nobody, kGenerous).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
}

TEST_F(BootstrapTest, OpenSessionAsync_AnswersOnACallback) {
  std::promise<absl::StatusOr<OpenSessionAnswer>> promise;
  ASSERT_TRUE(
      client_.open_session_async(request(), kGenerous, [&](auto answer) { promise.set_value(std::move(answer)); })
          .ok());
  EXPECT_TRUE(promise.get_future().get().ok());
}

TEST_F(BootstrapTest, Destructor_CancelsWhatIsOpen) {
  acceptor_.blocked = true;
  absl::StatusCode code = StatusCode::kOk;
  {
    BootstrapClient client;
    ASSERT_TRUE(
        client.open_session_async(request(), kGenerous, [&](auto answer) { code = answer.status().code(); }).ok());
  }
  EXPECT_EQ(code, StatusCode::kCancelled);
}

TEST_F(BootstrapTest, MessagesThatNobodyEndsDoNotFillTheMemory) {
  UnfinishedMessages messages(server_->address(), "/skua.control.v1.Bootstrap/OpenSession", kCallsPerConnectionMax);
  EXPECT_TRUE(messages.is_stopped_within(4 * kGrpcMemoryMax));
  EXPECT_TRUE(eventually([&] { return client_.open_session(request(), kGenerous).ok(); })) << "others are served";
}

TEST(BootstrapServer, PortInUse) {
  EchoAcceptor acceptor;
  const auto first = BootstrapServer::start("127.0.0.1:0", acceptor);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(BootstrapServer::start((*first)->address(), acceptor).status().code(), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace skua::control
