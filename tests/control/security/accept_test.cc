// --security accept: servers that take connections with TLS and without, and callers that try both.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "control/client/admin_client.h"
#include "control/client/bootstrap_client.h"
#include "control/client/node_agent.h"
#include "control/client/shard_map_cache.h"
#include "control/client/what_answers.h"
#include "control/core/grants.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/redirect.h"
#include "control/security/access.h"
#include "control/security/certificate_issuer.h"
#include "control/security/credentials.h"
#include "control/security/first_words.h"
#include "control/server/bootstrap_server.h"
#include "control/server/control_server.h"
#include "control/server/grpc_listener.h"
#include "control/server/node_probe.h"
#include "control/store/memory_store.h"
#include "tests/control/certificate_office.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/fake_probe.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

constexpr const char* kUuid = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";

class Described final : public SessionAcceptor {
 public:
  NodeDescription describe() override { return {kUuid, 7, kOfficeCluster, {{0, {{"tcp", "a"}}}}}; }
  absl::StatusOr<std::string> open_session(uint32_t /*worker*/, const TransportDescriptor& /*caller*/,
                                           const std::string& /*offer*/, const SessionCaller& who) override {
    return who.principal.empty() ? "to nobody" : "to " + who.principal;
  }
};

class AcceptTest : public testing::Test {
 protected:
  CredentialsPtr credentials(Role role, const std::string& name, SecurityChoice choice = SecurityChoice::kAuto) {
    auto loaded = Credentials::load(office_.issue(role, name), {}, choice);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }
  std::unique_ptr<BootstrapServer> node(const CredentialsPtr& own) {
    auto server = BootstrapServer::start("127.0.0.1:0", acceptor_, {}, own);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  std::unique_ptr<ControlServer> control(const CredentialsPtr& own, bool issues = false) {
    ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.cluster.id = kOfficeCluster;
    options.credentials = own;
    if (issues) {
      options.join_address = "127.0.0.1:0";
      options.issuer = *CertificateIssuer::make(office_.authority(), kCertificateLifeS, *own, CertificateOffice::now());
    }
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    auto server = ControlServer::start(options, std::make_unique<MemoryStore>());
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  /// What a node says to whom a session was opened, once a call gets through: UNAVAILABLE is repeated, as nodes do.
  static std::string opened(const std::string& address, const CredentialsPtr& own) {
    BootstrapClient client(own);
    OpenSessionRequest request;
    request.grpc_address = address;
    std::string said;
    EXPECT_TRUE(eventually([&] {
      const auto answer = client.open_session(request, kGenerous);
      if (answer.status().code() == StatusCode::kUnavailable) return false;
      said = answer.ok() ? answer->answer : answer.status().ToString();
      return true;
    }));
    return said;
  }

  /// What a node says to a control plane that takes both.
  ClaimAnswer probed(const std::string& address) {
    const auto probe = make_node_probe(credentials(Role::kControl, "c1", SecurityChoice::kAccept));
    NodeInfo claimed;
    claimed.uuid = kUuid;
    claimed.grpc_address = address;
    std::promise<ClaimAnswer> promise;
    probe->ask(address, claimed, [&](ClaimAnswer answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }

  TempDir directory_;
  CertificateOffice office_{directory_.path(), "office"};
  Described acceptor_;
};

TEST_F(AcceptTest, Node_TakesBothAndKnowsWhoIsWho) {
  const auto server = node(credentials(Role::kNode, kUuid, SecurityChoice::kAccept));
  EXPECT_EQ(opened(server->address(), nullptr), "to nobody");
  EXPECT_EQ(opened(server->address(), credentials(Role::kClient, "app")), "to client/app");
  EXPECT_EQ(opened(server->address(), credentials(Role::kClient, "app", SecurityChoice::kAccept)), "to client/app");
  // A role may no more than ever.
  EXPECT_THAT(opened(server->address(), credentials(Role::kMonitor, "eyes")), HasSubstr("may not call OpenSession"));
}

TEST_F(AcceptTest, Caller_SpeaksToBothKindsOfNodes) {
  const CredentialsPtr caller =
      credentials(Role::kNode, "6f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10", SecurityChoice::kAccept);
  const auto plain = node(nullptr);
  EXPECT_EQ(opened(plain->address(), caller), "to nobody");
  const auto secure = node(credentials(Role::kNode, kUuid));
  EXPECT_EQ(opened(secure->address(), caller), "to node/6f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10");
}

TEST_F(AcceptTest, Probe_AsksBothKindsOfNodes) {
  for (const CredentialsPtr& own : {CredentialsPtr(), credentials(Role::kNode, kUuid)}) {
    const auto server = node(own);
    const ClaimAnswer answer = probed(server->address());
    EXPECT_TRUE(answer.answered) << answer.trouble;
    EXPECT_EQ(answer.uuid, kUuid);
  }
}

/// A certificate that was shown and refused is no reason to go on without, though the node would take that.
TEST_F(AcceptTest, Caller_DoesNotGoOnWithoutTlsAfterARefusal) {
  CertificateOffice foreign(directory_.path(), "foreign");
  auto shown = Credentials::load(foreign.issue(Role::kNode, kUuid), {}, SecurityChoice::kAccept);
  ASSERT_TRUE(shown.ok()) << shown.status();
  const auto server = node(*shown);
  BootstrapClient client(credentials(Role::kClient, "app", SecurityChoice::kAccept));
  OpenSessionRequest request;
  request.grpc_address = server->address();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(client.open_session(request, kGenerous).status().code(), StatusCode::kUnavailable);
  }
  EXPECT_FALSE(probed(server->address()).answered);
}

TEST_F(AcceptTest, Control_TakesBothAndCallersSpeakToBoth) {
  const auto both = control(credentials(Role::kControl, "c1", SecurityChoice::kAccept));
  const auto plain = control(nullptr);
  const auto secure = control(credentials(Role::kControl, "c1"));
  const CredentialsPtr admin = credentials(Role::kAdmin, "ada");
  const CredentialsPtr either = credentials(Role::kAdmin, "ada", SecurityChoice::kAccept);
  EXPECT_FALSE(speaks_no_tls(both->address(), kGenerous));
  EXPECT_TRUE(AdminClient(both->address(), kGenerous).status().ok());
  EXPECT_TRUE(AdminClient(both->address(), kGenerous, admin).status().ok());
  EXPECT_TRUE(AdminClient(plain->address(), kGenerous, either).status().ok());
  EXPECT_TRUE(AdminClient(secure->address(), kGenerous, either).status().ok());
  EXPECT_FALSE(AdminClient(secure->address(), kSecond).status().ok());
  EXPECT_FALSE(AdminClient(plain->address(), kSecond, admin).status().ok()) << "no fall back unless it was chosen";
}

TEST_F(AcceptTest, Control_AnonymousCallersSayNothingAboutNames) {
  const auto both = control(credentials(Role::kControl, "c1", SecurityChoice::kAccept));
  AdminClient nobody(both->address(), kGenerous);
  EXPECT_EQ(nobody.revoke_identity("client/app").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(nobody.unrevoke_identity("client/app").code(), StatusCode::kPermissionDenied);
  AdminClient admin(both->address(), kGenerous, credentials(Role::kAdmin, "ada"));
  EXPECT_TRUE(admin.revoke_identity("client/app").ok());
}

/// A call without TLS, of an empty message.
grpc::Status call_plainly(const std::string& address, std::string_view method) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const grpc::ByteBuffer request(nullptr, 0);
  grpc::ByteBuffer reply;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, std::string(method), {}, &request, &reply,
                 [&](grpc::Status status) { ended.set_value(std::move(status)); });
  return ended.get_future().get();
}

TEST_F(AcceptTest, Control_WhatNeedsANameIsForNobodyWithout) {
  const auto both = control(credentials(Role::kControl, "c1", SecurityChoice::kAccept), true);
  size_t asked = 0;
  for (const MethodAccess& access : method_access()) {
    if (access.anonymous != Anonymous::kNever) continue;
    const grpc::Status refused = call_plainly(both->address(), access.method);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED) << access.method;
    EXPECT_THAT(refused.error_message(), HasSubstr("who has no certificate")) << access.method;
    ++asked;
  }
  EXPECT_EQ(asked, 10u);
  AdminClient nobody(both->address(), kGenerous);
  EXPECT_EQ(nobody.create_join_token("admin", "evil", 0).status().code(), StatusCode::kPermissionDenied);
  AdminClient admin(both->address(), kGenerous, credentials(Role::kAdmin, "ada"));
  EXPECT_TRUE(admin.create_join_token("admin", "eve", 0).ok());
}

/// What was made for those with certificates is not theirs.
TEST_F(AcceptTest, Control_NamelessCallersBringNoNewNodeAndDropNoTableThatHasGrants) {
  const auto both = control(credentials(Role::kControl, "c1", SecurityChoice::kAccept));
  NodeAgentOptions agent;
  agent.control_address = both->address();
  agent.node = test_node(1);
  {
    NodeAgent stranger(agent);
    stranger.start();
    EXPECT_EQ(stranger.wait_registered(kSecond).status().code(), StatusCode::kDeadlineExceeded);
  }
  agent.credentials = credentials(Role::kNode, agent.node.uuid);
  {
    NodeAgent node(agent);
    node.start();
    EXPECT_TRUE(node.wait_registered(kGenerous).ok());
    AdminClient admin(both->address(), kGenerous, credentials(Role::kAdmin, "ada"));
    ASSERT_TRUE(admin.create_table({.name = "granted", .shard_count = 1}).ok());
    ASSERT_TRUE(admin.create_table({.name = "open", .shard_count = 1}).ok());
    ASSERT_TRUE(admin.add_grant("client/app", "granted", kRightRead).ok());
    AdminClient nobody(both->address(), kGenerous);
    EXPECT_EQ(nobody.drop_table("granted").status().code(), StatusCode::kPermissionDenied);
    EXPECT_TRUE(nobody.drop_table("open").ok());
    EXPECT_TRUE(admin.drop_table("granted").ok());
  }
  agent.credentials = nullptr;
  NodeAgent known(agent);
  known.start();
  EXPECT_TRUE(known.wait_registered(kGenerous).ok());
}

/// A control process that says of itself that somebody else leads, at its own address.
class NamesItself final : public v1::Tables::Service {
 public:
  grpc::Status ListTables(grpc::ServerContext* context, const v1::ListTablesRequest* /*request*/,
                          v1::ListTablesReply* /*reply*/) override {
    ++(peer_identity(*context->auth_context()).has_value() ? named : nameless);
    context->AddTrailingMetadata(kLeaderMetadata, address);
    return {grpc::StatusCode::UNAVAILABLE, "somebody else leads"};
  }
  std::string address;
  std::atomic<int> named = 0;
  std::atomic<int> nameless = 0;
};

TEST_F(AcceptTest, Control_ARedirectLeadsNobodyAwayFromTls) {
  NamesItself service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  auto listener = listen(builder, "127.0.0.1:0", credentials(Role::kControl, "c1", SecurityChoice::kAccept));
  ASSERT_TRUE(listener.ok()) << listener.status();
  service.address = listener->address;
  for (const std::string& addresses : {service.address, service.address + ",127.0.0.1:1"}) {
    AdminClient admin(addresses, kSecond, credentials(Role::kAdmin, "ada", SecurityChoice::kAccept));
    // Until it was asked: on a slow machine a second may end before a handshake.
    EXPECT_TRUE(eventually([&] { return !admin.list_tables().ok() && service.named.exchange(0) > 0; })) << addresses;
    EXPECT_EQ(service.nameless, 0) << addresses;
  }
}

/// The one address there is leads to something else, which is told at once: it is one address, by TLS and without.
TEST_F(AcceptTest, Map_OneAddressIsOneAddress) {
  const auto wrong = node(nullptr);
  ShardMapCache cache(
      {.control_address = wrong->address(), .credentials = credentials(Role::kClient, "app", SecurityChoice::kAccept)});
  cache.start();
  EXPECT_EQ(cache.wait_for_revision(1, kGenerous).code(), StatusCode::kFailedPrecondition);
}

/// A connection that says nothing keeps nobody else waiting, however many there are of it.
TEST_F(AcceptTest, Door_SilentConnectionsAreBounded) {
  const auto server = node(credentials(Role::kNode, kUuid, SecurityChoice::kAccept));
  const auto parts = split_address(server->address());
  ASSERT_TRUE(parts.ok());
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(parts->port)));
  constexpr int kSilent = 300;  // more than the door bears with
  std::vector<int> silent;
  for (int i = 0; i < kSilent; ++i) {
    silent.push_back(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(silent.back(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  EXPECT_EQ(opened(server->address(), nullptr), "to nobody");
  EXPECT_EQ(opened(server->address(), credentials(Role::kClient, "app")), "to client/app");
  char byte = 0;
  EXPECT_EQ(recv(silent.front(), &byte, 1, 0), 0) << "the oldest was closed for others";
  for (const int fd : silent) close(fd);
}

}  // namespace
}  // namespace skua::control
