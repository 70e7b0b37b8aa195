// Identities that are revoked, over real connections: what they have open does not help them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "control/client/admin_client.h"
#include "control/client/bootstrap_client.h"
#include "control/client/shard_map_cache.h"
#include "control/proto/bootstrap.grpc.pb.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/security/credentials.h"
#include "control/server/bootstrap_server.h"
#include "control/server/control_server.h"
#include "control/server/state_store.h"
#include "control/store/election.h"
#include "control/store/embedded_store.h"
#include "control/store/memory_store.h"
#include "tests/app/free_port.h"
#include "tests/control/certificate_office.h"
#include "tests/control/fake_probe.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kOurs = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kSomeNode = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";

/// Remembers who opened the last session.
class RememberingAcceptor final : public SessionAcceptor {
 public:
  NodeDescription describe() override { return {kSomeNode, 7, kOurs, {{0, {{"tcp", "a"}}}}}; }
  absl::StatusOr<std::string> open_session(uint32_t /*worker*/, const TransportDescriptor& /*caller*/,
                                           const std::string& /*offer*/, const SessionCaller& who) override {
    const std::lock_guard lock(mutex_);
    principal_ = who.principal;
    return "answer";
  }
  std::string principal() {
    const std::lock_guard lock(mutex_);
    return principal_;
  }

 private:
  std::mutex mutex_;
  std::string principal_;
};

/// A control plane, a node that follows its map, and an administrator.
class RevocationTest : public testing::Test {
 protected:
  RevocationTest() {
    start_control();
    admin_.emplace(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "ada")));
    const CredentialsPtr node = loaded(office_.issue(Role::kNode, kSomeNode));
    auto server = BootstrapServer::start("127.0.0.1:0", acceptor_, {}, node);
    EXPECT_TRUE(server.ok()) << server.status();
    node_ = *std::move(server);
    cache_.emplace(ShardMapCacheOptions{.control_address = control_->address(), .credentials = node});
    cache_->start();
  }

  void start_control() {
    ControlServerOptions options;
    options.listen_address = address_;
    options.cluster.id = kOurs;
    options.credentials = loaded(office_.issue(Role::kControl, "c1"));
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    control_.reset();
    auto store = open_embedded_store({.directory = directory_.path() + "/metadata"});
    ASSERT_TRUE(store.ok()) << store.status();
    auto control = ControlServer::start(options, *std::move(store));
    ASSERT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
  }

  absl::StatusCode open_session(BootstrapClient& client) {
    OpenSessionRequest request;
    request.grpc_address = node_->address();
    return client.open_session(request, 20 * kSecond).status().code();
  }

  TempDir directory_;
  CertificateOffice office_{directory_.path(), "office", kOurs};
  RememberingAcceptor acceptor_;
  const std::string address_ = app::free_address();
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<BootstrapServer> node_;
  std::optional<AdminClient> admin_;
  std::optional<ShardMapCache> cache_;  // of the node
};

TEST_F(RevocationTest, NextCallToTheControlPlaneIsRefused_AlsoOnAConnectionThatStands) {
  AdminClient eve(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "eve")));
  ASSERT_TRUE(eve.status().ok());
  ASSERT_TRUE(admin_->revoke_identity("admin/eve").ok());
  const absl::Status refused = eve.status().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("admin/eve is revoked"));
  EXPECT_EQ(eve.unrevoke_identity("admin/eve").code(), absl::StatusCode::kPermissionDenied);
  // Another certificate of the same identity does not help.
  AdminClient again(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "eve")));
  EXPECT_EQ(again.status().status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(admin_->shard_map()->denied, ElementsAre("admin/eve"));
  ASSERT_TRUE(admin_->unrevoke_identity("admin/eve").ok());
  EXPECT_TRUE(eve.status().ok());
}

TEST_F(RevocationTest, AWatchThatStandsEndsAndCannotBeOpenedAgain) {
  const auto channel = grpc::CreateChannel(control_->address(),
                                           loaded(office_.issue(Role::kClient, "app"))->for_channel(Role::kControl));
  const auto stub = v1::ShardMap::NewStub(channel);
  v1::WatchShardMapRequest request;
  *request.mutable_versions() = to_proto(kProtocolVersions);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto stream = stub->WatchShardMap(&context, request);
  v1::WatchShardMapReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  ASSERT_TRUE(admin_->revoke_identity("client/app").ok());
  EXPECT_FALSE(stream->Read(&reply)) << "not even the map that says so";
  const grpc::Status ended = stream->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::PERMISSION_DENIED) << ended.error_message();
  EXPECT_THAT(ended.error_message(), HasSubstr("client/app is revoked"));
  grpc::ClientContext second;
  second.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto reopened = stub->WatchShardMap(&second, request);
  EXPECT_FALSE(reopened->Read(&reply));
  EXPECT_EQ(reopened->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(RevocationTest, NodesRefuseCallsAsSoonAsTheyHaveTheMap_AlsoOnAConnectionThatStands) {
  BootstrapClient app(loaded(office_.issue(Role::kClient, "app")));
  BootstrapClient other(loaded(office_.issue(Role::kClient, "other")));
  EXPECT_EQ(open_session(app), absl::StatusCode::kOk);
  EXPECT_EQ(acceptor_.principal(), "client/app") << "the node is told whose session it is";
  ASSERT_TRUE(admin_->revoke_identity("client/app").ok());
  ASSERT_TRUE(eventually([&] { return open_session(app) == absl::StatusCode::kPermissionDenied; }));
  EXPECT_EQ(app.describe(node_->address(), kOurs, 20 * kSecond).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(open_session(other), absl::StatusCode::kOk);
  // The list is in force while the control plane is away.
  control_->shutdown();
  EXPECT_EQ(open_session(app), absl::StatusCode::kPermissionDenied);
  start_control();
  ASSERT_TRUE(eventually([&] { return admin_->unrevoke_identity("client/app").ok(); }));
  EXPECT_TRUE(eventually([&] { return open_session(app) == absl::StatusCode::kOk; }));
}

TEST_F(RevocationTest, IsRememberedByAControlPlaneThatStartsAgain) {
  ASSERT_TRUE(admin_->revoke_identity("monitor/eyes").ok());
  start_control();
  AdminClient eyes(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kMonitor, "eyes")));
  EXPECT_TRUE(eventually([&] { return eyes.status().status().code() == absl::StatusCode::kPermissionDenied; }));
}

/// Whoever follows the map opens no connection to a node that is revoked.
TEST_F(RevocationTest, ClientsDoNotBelieveARevokedNode) {
  const CredentialsPtr credentials = loaded(office_.issue(Role::kClient, "app"));
  ShardMapCache cache({.control_address = control_->address(), .credentials = credentials});
  cache.start();
  ASSERT_TRUE(cache.wait_for_revision(1, kGenerous).ok());
  EXPECT_TRUE(BootstrapClient(credentials).describe(node_->address(), kOurs, 20 * kSecond).ok());
  ASSERT_TRUE(admin_->revoke_identity(std::string("node/") + kSomeNode).ok());
  ASSERT_TRUE(cache.wait_until([](const ShardMap& map) { return !map.denied.empty(); }, kGenerous).ok());
  EXPECT_EQ(BootstrapClient(credentials).describe(node_->address(), kOurs, 20 * kSecond).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(RevocationTest, MistakesAreRefused) {
  const absl::Status oneself = admin_->revoke_identity("admin/ada");
  EXPECT_EQ(oneself.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(oneself.message()), HasSubstr("use another administrator's"));
  for (const char* principal : {"ada", "root/ada", "client/a b", "node/not-a-uuid", "control/c1"}) {
    EXPECT_EQ(admin_->revoke_identity(principal).code(), absl::StatusCode::kInvalidArgument) << principal;
  }
  EXPECT_TRUE(admin_->status().ok());
  ControlServerOptions without;
  without.listen_address = "127.0.0.1:0";
  without.fresh_cluster_id = kOurs;
  const auto plain = ControlServer::start(without, std::make_unique<MemoryStore>());
  ASSERT_TRUE(plain.ok()) << plain.status();
  const absl::Status nobody = AdminClient((*plain)->address(), 20 * kSecond).revoke_identity("client/app");
  EXPECT_EQ(nobody.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("no certificates"));
}

/// Leads, or does not, as the test says.
class ToldElection final : public Election {
 public:
  void start(const std::string& own_address, std::function<void(const Leadership&)> changed) override {
    own_address_ = own_address;
    changed_ = std::move(changed);
    win();
  }
  void stop() override {}
  void win() { changed_({.leads = true, .term = ++term_, .leader = own_address_, .trouble = ""}); }
  void lose() { changed_({.leads = false, .term = ++term_, .leader = "", .trouble = "it is restored"}); }

 private:
  std::string own_address_;
  uint64_t term_ = 0;
  std::function<void(const Leadership&)> changed_;
};

/// The control plane's metadata is that of an older snapshot, with older revisions.
TEST(RestoredMetadata, WhoIsRevokedInItIsRefused) {
  const TempDir directory;
  CertificateOffice office{directory.path(), "office", kOurs};
  auto owned_store = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned_store;
  auto owned_election = std::make_unique<ToldElection>();
  ToldElection& election = *owned_election;
  ControlServerOptions options;
  options.listen_address = "127.0.0.1:0";
  options.cluster.id = kOurs;
  options.credentials = loaded(office.issue(Role::kControl, "c1"));
  options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
  const auto control = ControlServer::start(options, std::move(owned_store), std::move(owned_election));
  ASSERT_TRUE(control.ok()) << control.status();
  AdminClient ada((*control)->address(), 20 * kSecond, loaded(office.issue(Role::kAdmin, "ada")));
  AdminClient eve((*control)->address(), 20 * kSecond, loaded(office.issue(Role::kAdmin, "eve")));
  ASSERT_TRUE(eventually([&] { return ada.revoke_identity("admin/eve").ok(); }));
  for (const char* other : {"client/a", "client/b", "client/c"}) ASSERT_TRUE(ada.revoke_identity(other).ok());

  election.lose();
  AdminClient impatient((*control)->address(), 100 * kMillisecond, loaded(office.issue(Role::kAdmin, "ada")));
  ASSERT_TRUE(eventually([&] { return impatient.shard_map().status().code() == absl::StatusCode::kUnavailable; }));
  Changes older;
  older.map_revision = 2;
  older.next_table_id = 1;
  older.put_denied = {"admin/eve"};
  StateStore behind(store);
  ASSERT_TRUE(behind.load().ok());
  ASSERT_TRUE(*behind.commit(older));
  election.win();
  ASSERT_TRUE(eventually([&] { return ada.shard_map().ok(); }));
  EXPECT_EQ(eve.shard_map().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(DenyList, TheMapsMakerMayGoBack) {
  DenyList list;
  const Identity app{kOurs, Role::kClient, "app"};
  list.replace(5, {});
  list.replace(2, {"client/app"});
  EXPECT_EQ(list.check(app).code(), absl::StatusCode::kPermissionDenied);
  list.update(3, {});
  EXPECT_TRUE(list.check(app).ok());
}

TEST(DenyList, AnOlderListIsIgnored) {
  DenyList list;
  const Identity app{kOurs, Role::kClient, "app"};
  EXPECT_TRUE(list.check(app).ok());
  list.update(5, {"client/app", "node/x"});
  EXPECT_EQ(list.check(app).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(list.check({kOurs, Role::kAdmin, "app"}).ok()) << "another role";
  list.update(4, {});
  EXPECT_FALSE(list.check(app).ok());
  list.update(6, {});
  EXPECT_TRUE(list.check(app).ok());
}

}  // namespace
}  // namespace skua::control
