// Who gets in: certificates of all kinds against each method of a control plane and of a storage node, over real
// connections.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "control/client/admin_client.h"
#include "control/client/bootstrap_client.h"
#include "control/client/node_agent.h"
#include "control/client/shard_map_cache.h"
#include "control/proto/control.grpc.pb.h"
#include "control/security/access.h"
#include "control/security/credentials.h"
#include "control/server/bootstrap_server.h"
#include "control/server/control_server.h"
#include "control/store/memory_store.h"
#include "tests/control/certificate_office.h"
#include "tests/control/fake_probe.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using testing::HasSubstr;

constexpr const char* kCluster = kOfficeCluster;
constexpr const char* kOtherCluster = "11111111-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kNode = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";
constexpr const char* kOtherNode = "6f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";
constexpr WallSeconds kDay = CertificateOffice::kDay;

class NoSessions final : public SessionAcceptor {
 public:
  NodeDescription describe() override { return {says, 7, kCluster, {{0, {{"tcp", "a"}}}}}; }
  absl::StatusOr<std::string> open_session(uint32_t /*worker*/, const TransportDescriptor& /*caller*/,
                                           const std::string& /*offer*/, const SessionCaller& /*who*/) override {
    ++opened;
    return "answer";
  }
  std::string says = kNode;
  std::atomic<int> opened{0};
};

class AuthenticationTest : public testing::Test {
 protected:
  AuthenticationTest() : office_(directory_.path(), "ours", kCluster) {
    auto control = ControlServer::start(control_options(), std::make_unique<MemoryStore>());
    EXPECT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    auto node = BootstrapServer::start("127.0.0.1:0", acceptor_, {}, loaded(office_.issue(Role::kNode, kNode)));
    EXPECT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
  }

  [[nodiscard]] ControlServerOptions control_options() {
    ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.cluster.id = kCluster;
    options.credentials = loaded(office_.issue(Role::kControl, "c1"));
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    return options;
  }

  [[nodiscard]] std::string server_of(std::string_view method) const {
    return method.find("Bootstrap") != std::string_view::npos ? node_->address() : control_->address();
  }

  /// How a call with an empty request ends.
  static grpc::Status call(const std::string& address, std::string_view method,
                           const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    grpc::Slice nothing("", 0);
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto running = stub.PrepareUnaryCall(&context, std::string(method), request, &queue);
    running->StartCall();
    running->Finish(&reply, &status, &status);
    void* tag = nullptr;
    bool ok = false;
    (void)queue.Next(&tag, &ok);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) continue;
    return status;
  }

  /// No method of either server can be called.
  void expect_nothing_is_open(const std::shared_ptr<grpc::ChannelCredentials>& credentials, const char* whose) {
    for (const MethodAccess& access : method_access()) {
      if (access.method.find("Admin/") != std::string_view::npos) continue;  // not served here
      const grpc::Status status = call(server_of(access.method), access.method, credentials);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << whose << " at " << access.method;
    }
    EXPECT_EQ(acceptor_.opened, 0);
  }

  TempDir directory_;
  CertificateOffice office_;
  NoSessions acceptor_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<BootstrapServer> node_;
};

/// Clients of a node's host that follow the map do not keep the node from following it.
TEST_F(AuthenticationTest, NodesAreNotCountedWithTheClientsOfTheirHost) {
  ControlServerOptions options = control_options();
  options.watches_per_host = 1;
  const auto control = ControlServer::start(options, std::make_unique<MemoryStore>());
  ASSERT_TRUE(control.ok()) << control.status();
  const auto any = [](const ShardMap& map) { return map.revision > 0; };
  ShardMapCache client(
      {.control_address = (*control)->address(), .credentials = loaded(office_.issue(Role::kClient, "app"))});
  client.start();
  ASSERT_TRUE(client.wait_until(any, kGenerous).ok());
  ShardMapCache node(
      {.control_address = (*control)->address(), .credentials = loaded(office_.issue(Role::kNode, kNode))});
  node.start();
  EXPECT_TRUE(node.wait_until(any, kGenerous).ok());
}

TEST_F(AuthenticationTest, StrangersCallNothing) {
  expect_nothing_is_open(grpc::InsecureChannelCredentials(), "plain text");
  grpc::experimental::TlsChannelCredentialsOptions nameless;
  nameless.set_verify_server_certs(false);
  nameless.set_check_call_host(false);
  expect_nothing_is_open(grpc::experimental::TlsCredentials(nameless), "no certificate");
  const auto any = Role::kControl | Role::kNode;
  for (const Role role : {Role::kAdmin, Role::kNode, Role::kControl}) {
    const std::string name = role == Role::kNode ? kNode : "eve";
    const WallSeconds now = CertificateOffice::now();
    // They trust our authority: only theirs is not trusted.
    CertificateOffice forged(directory_.path(), absl::StrCat("forged-", role_name(role)), kCluster);
    forged.trusted = office_.certificate();
    expect_nothing_is_open(unchecked(forged.issue(role, name))->for_channel(any), "another authority");
    expect_nothing_is_open(unchecked(office_.issue(role, name, {now - 2 * kDay, now - kDay}))->for_channel(any),
                           "expired");
    expect_nothing_is_open(unchecked(office_.issue(role, name, {now + kDay, now + 2 * kDay}))->for_channel(any),
                           "not valid yet");
  }
}

TEST_F(AuthenticationTest, AnotherClusterIsOutside) {
  // An authority that issues for two clusters, which ours does not: it is trusted on both sides here.
  CertificateOffice other(directory_.path(), "other", kOtherCluster);
  CertificateOffice both(directory_.path(), "both", kCluster);
  both.trusted = office_.certificate() + other.certificate();
  ControlServerOptions options;
  options.listen_address = "127.0.0.1:0";
  options.cluster.id = kCluster;
  both.trusted = both.certificate() + other.certificate();
  options.credentials = loaded(both.issue(Role::kControl, "c2"));
  const auto trusting = ControlServer::start(options, std::make_unique<MemoryStore>());
  ASSERT_TRUE(trusting.ok()) << trusting.status();
  other.trusted = both.trusted;
  const auto foreign = loaded(other.issue(Role::kAdmin, "eve"));
  const auto local = loaded(both.issue(Role::kAdmin, "ada"));
  EXPECT_TRUE(AdminClient((*trusting)->address(), kSecond * 10, local).status().ok());
  const auto refused = AdminClient((*trusting)->address(), kSecond * 10, foreign).status();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("do not trust each other"));
}

TEST_F(AuthenticationTest, EachRoleCallsWhatIsListedForIt) {
  for (const Role role : {Role::kControl, Role::kNode, Role::kAdmin, Role::kMonitor, Role::kClient}) {
    const auto credentials = loaded(office_.issue(role, role == Role::kNode ? kNode : "p"));
    for (const MethodAccess& access : method_access()) {
      if (access.method.find("Admin/") != std::string_view::npos) continue;  // not served here
      const auto server = access.method.find("Bootstrap") != std::string_view::npos ? Role::kNode : Role::kControl;
      // A watch does not end by itself.
      if (access.method.find("WatchShardMap") != std::string_view::npos && access.roles.contains(role)) continue;
      const grpc::Status status = call(server_of(access.method), access.method, credentials->for_channel(server));
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
      if (access.anonymous == Anonymous::kOnly) {
        EXPECT_EQ(status.error_message(), "there is no such method") << access.method;
        continue;
      }
      EXPECT_EQ(status.error_code() == grpc::StatusCode::PERMISSION_DENIED &&
                    status.error_message().find("may not call") != std::string::npos,
                !access.roles.contains(role))
          << role_name(role) << " at " << access.method << ": " << status.error_message();
    }
  }
}

/// Node A may not speak for node B.
TEST_F(AuthenticationTest, ANodeSpeaksForItselfOnly) {
  const auto channel = grpc::CreateChannel(control_->address(),
                                           loaded(office_.issue(Role::kNode, kOtherNode))->for_channel(Role::kControl));
  const auto stub = v1::Membership::NewStub(channel);
  const auto refused = [](auto send) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Status status = send(&context);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("another node"));
  };
  refused([&](grpc::ClientContext* context) {
    v1::RegisterRequest request;
    request.mutable_node()->set_uuid(kNode);
    v1::RegisterReply reply;
    return stub->Register(context, request, &reply);
  });
  refused([&](grpc::ClientContext* context) {
    v1::HeartbeatRequest request;
    request.set_uuid(kNode);
    v1::HeartbeatReply reply;
    return stub->Heartbeat(context, request, &reply);
  });
  // Else a node could take the leads of another one away.
  refused([&](grpc::ClientContext* context) {
    v1::HeartbeatRequest request;
    request.set_uuid(kNode);
    request.set_yielding(true);
    v1::HeartbeatReply reply;
    return stub->Heartbeat(context, request, &reply);
  });
  refused([&](grpc::ClientContext* context) {
    v1::ReportReplicasRequest request;
    request.set_uuid(kNode);
    v1::ReportReplicasReply reply;
    return stub->ReportReplicas(context, request, &reply);
  });
  refused([&](grpc::ClientContext* context) {
    v1::LeaveRequest request;
    request.set_uuid(kNode);
    v1::LeaveReply reply;
    return stub->Leave(context, request, &reply);
  });
}

/// A server whose certificate is a client's, or another node's, is not believed.
TEST_F(AuthenticationTest, ServersAreNotBelievedAnyMoreThanCallers) {
  const auto client = loaded(office_.issue(Role::kClient, "app"));
  const auto asked = [&](const std::string& address) {
    return BootstrapClient(client).describe(address, kCluster, 20 * kSecond).status();
  };
  EXPECT_TRUE(asked(node_->address()).ok()) << asked(node_->address());
  NoSessions liar;
  liar.says = kNode;
  const auto other = BootstrapServer::start("127.0.0.1:0", liar, {}, loaded(office_.issue(Role::kNode, kOtherNode)));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(asked((*other)->address()).code(), absl::StatusCode::kFailedPrecondition);
  const auto pretender = BootstrapServer::start("127.0.0.1:0", liar, {}, loaded(office_.issue(Role::kControl, "c9")));
  ASSERT_TRUE(pretender.ok());
  EXPECT_EQ(asked((*pretender)->address()).code(), absl::StatusCode::kUnavailable) << "a control plane is no node";
  const auto plain = BootstrapServer::start("127.0.0.1:0", liar);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(asked((*plain)->address()).code(), absl::StatusCode::kUnavailable) << "no fall back to plain text";
}

TEST_F(AuthenticationTest, RefusalsSayWhatToDo) {
  const absl::Status plain = AdminClient(control_->address(), 20 * kSecond).status().status();
  EXPECT_EQ(plain.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plain.message()), HasSubstr("give --cert, --key and --ca"));
  ControlServerOptions options;
  options.listen_address = "127.0.0.1:0";
  options.cluster.id = kCluster;
  const auto insecure = ControlServer::start(options, std::make_unique<MemoryStore>());
  ASSERT_TRUE(insecure.ok());
  const absl::Status downgrade =
      AdminClient((*insecure)->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "ada"))).status().status();
  EXPECT_EQ(downgrade.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(downgrade.message()), HasSubstr("without TLS"));
}

/// People see it where they look: in the status, also in that of the control plane itself.
TEST_F(AuthenticationTest, ACertificateThatExpiresSoonIsATrouble) {
  const WallSeconds now = CertificateOffice::now();
  const CredentialFiles server = office_.issue(Role::kControl, "c3", {now - 100 * kDay, now + 2 * kDay});
  ControlServerOptions options;
  options.listen_address = "127.0.0.1:0";
  options.cluster.id = kCluster;
  options.credentials = loaded(server);
  const auto control = ControlServer::start(options, std::make_unique<MemoryStore>());
  ASSERT_TRUE(control.ok());
  AdminClient admin((*control)->address(), 20 * kSecond, loaded(office_.issue(Role::kMonitor, "eyes")));
  const auto status = admin.status();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->troubles.size(), 1U);
  EXPECT_THAT(status->troubles[0], HasSubstr("expires at"));
  EXPECT_THAT(status->troubles[0], HasSubstr(server.certificate));
  // Judged by the file as it is then, once in ten seconds.
  EXPECT_NE(options.credentials->trouble(now + kDay), "");
  EXPECT_EQ(options.credentials->expires_s(now + kDay), now + 2 * kDay);
  office_.renew(server, Role::kControl, "c3");
  EXPECT_EQ(options.credentials->trouble(now + kDay / 2), "");
  EXPECT_GT(options.credentials->expires_s(now + kDay / 2), now + 2 * kDay);
}

/// Certificates are renewed, and authorities replaced, by other files in their place.
TEST_F(AuthenticationTest, FilesAreReadAgainWhenTheyChange) {
  CertificateOffice next(directory_.path(), "next", kCluster);
  const CredentialFiles server = office_.issue(Role::kControl, "c1");
  ControlServerOptions options;
  options.listen_address = "127.0.0.1:0";
  options.cluster.id = kCluster;
  options.credentials = loaded(server);
  const auto control = ControlServer::start(options, std::make_unique<MemoryStore>());
  ASSERT_TRUE(control.ok());
  next.trusted = office_.certificate() + next.certificate();
  const auto newcomer = loaded(next.issue(Role::kAdmin, "ada"));
  EXPECT_FALSE(AdminClient((*control)->address(), 10 * kSecond, newcomer).status().ok());
  CertificateOffice::write(server.authorities, office_.certificate() + next.certificate());
  EXPECT_TRUE(eventually([&] { return AdminClient((*control)->address(), 10 * kSecond, newcomer).status().ok(); }));
}

}  // namespace
}  // namespace skua::control
