// Grants over real connections to a control plane: who may give them, that they are remembered, and what the map says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "control/client/admin_client.h"
#include "control/client/node_agent.h"
#include "control/core/grants.h"
#include "control/server/control_server.h"
#include "control/store/embedded_store.h"
#include "control/store/memory_store.h"
#include "tests/app/free_port.h"
#include "tests/control/certificate_office.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/fake_probe.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kOurs = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";

/// A control plane with a node and the table "notes", and an administrator.
class GrantedTablesTest : public testing::Test {
 protected:
  GrantedTablesTest() {
    start_control();
    admin_.emplace(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "ada")));
    NodeAgentOptions agent;
    agent.control_address = control_->address();
    agent.node = test_node(1);
    agent.credentials = loaded(office_.issue(Role::kNode, agent.node.uuid));
    node_ = std::make_unique<NodeAgent>(agent);
    node_->start();
    EXPECT_TRUE(eventually([&] { return admin_->create_table({.name = "notes", .shard_count = 1}).ok(); }));
  }
  ~GrantedTablesTest() override { node_->stop(); }

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

  std::vector<MapGrant> grants() { return admin_->shard_map()->find_table("notes")->grants; }

  TempDir directory_;
  CertificateOffice office_{directory_.path(), "office", kOurs};
  const std::string address_ = app::free_address();
  std::unique_ptr<ControlServer> control_;
  std::optional<AdminClient> admin_;
  std::unique_ptr<NodeAgent> node_;
};

TEST_F(GrantedTablesTest, AreGivenAndTakenAndRememberedByAControlPlaneThatStartsAgain) {
  ASSERT_TRUE(admin_->add_grant("client/app-7", "notes", kRightRead | kRightWrite).ok());
  ASSERT_TRUE(admin_->add_grant("client/report", "notes", kRightScan).ok());
  EXPECT_THAT(grants(),
              ElementsAre(MapGrant{"client/app-7", kRightRead | kRightWrite}, MapGrant{"client/report", kRightScan}));
  ASSERT_TRUE(admin_->remove_grant("client/app-7", "notes", kRightWrite).ok());
  start_control();
  EXPECT_TRUE(eventually([&] { return admin_->shard_map().ok(); }));
  EXPECT_THAT(grants(), ElementsAre(MapGrant{"client/app-7", kRightRead}, MapGrant{"client/report", kRightScan}));
  ASSERT_TRUE(admin_->remove_grant("client/app-7", "notes", kRightsAll).ok());
  EXPECT_EQ(admin_->remove_grant("client/report", "notes", kRightsAll).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(admin_->remove_grant("client/report", "notes", kRightsAll, true).ok());
  EXPECT_THAT(grants(), IsEmpty());
}

TEST_F(GrantedTablesTest, AreNotLeftInTheStoreWhenTheirTableIsDropped) {
  ASSERT_TRUE(admin_->add_grant("client/app-7", "notes", kRightRead).ok());
  ASSERT_TRUE(admin_->drop_table("notes").ok());
  start_control();
  EXPECT_TRUE(eventually([&] { return admin_->shard_map().ok(); }));
  EXPECT_EQ(admin_->shard_map()->find_table("notes"), nullptr);
}

TEST_F(GrantedTablesTest, OnlyAdministratorsGiveThem) {
  for (const Role role : {Role::kClient, Role::kMonitor}) {
    AdminClient other(control_->address(), 20 * kSecond, loaded(office_.issue(role, "app-7")));
    EXPECT_EQ(other.add_grant("client/app-7", "notes", kRightRead).code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(other.remove_grant("client/app-7", "notes", kRightRead).code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_THAT(grants(), IsEmpty());
}

TEST_F(GrantedTablesTest, MistakesAreRefused) {
  for (const char* principal : {"app-7", "root/ada", "client/a b", "admin/ada", "client/"}) {
    EXPECT_EQ(admin_->add_grant(principal, "notes", kRightRead).code(), absl::StatusCode::kInvalidArgument)
        << principal;
  }
  EXPECT_EQ(admin_->add_grant("client/a", "notes", 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(admin_->add_grant("client/a", "nodes", kRightRead).code(), absl::StatusCode::kNotFound);
}

/// Nodes could not tell who asks, so the table would be closed to all.
TEST(GrantsWithoutCertificates, AreRefused) {
  ControlServerOptions without;
  without.listen_address = "127.0.0.1:0";
  without.fresh_cluster_id = kOurs;
  const auto plain = ControlServer::start(without, std::make_unique<MemoryStore>());
  ASSERT_TRUE(plain.ok()) << plain.status();
  AdminClient admin((*plain)->address(), 20 * kSecond);
  const absl::Status refused = admin.add_grant("client/app", "notes", kRightRead);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no certificates"));
  EXPECT_EQ(admin.remove_grant("client/app", "notes", kRightRead).code(), absl::StatusCode::kNotFound)
      << "can be taken all the same";
}

}  // namespace
}  // namespace skua::control
