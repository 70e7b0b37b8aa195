// A node with certificates goes by the grants of its tables, also for sessions that stand. All in this process, over
// TCP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "control/client/admin_client.h"
#include "control/server/control_server.h"
#include "control/store/memory_store.h"
#include "kvstore/client/client.h"
#include "tests/control/certificate_office.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"
#include "tests/kvstore/node/test_node.h"

namespace skua::kv {
namespace {

using control::eventually;
using control::loaded;
using control::Role;
using ::testing::HasSubstr;

constexpr char kClusterOfGrants[] = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d12";

class GrantedTableTest : public ::testing::Test {
 protected:
  GrantedTableTest() {
    control::ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.cluster.id = kClusterOfGrants;
    options.heartbeat_interval_ms = 20;
    options.credentials = loaded(office_.issue(Role::kControl, "c1"));
    auto control = control::ControlServer::start(options, std::make_unique<control::MemoryStore>());
    EXPECT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    node_.emplace(control_->address(), 2);
    node_->use_credentials([this](const std::string& uuid) { return loaded(office_.issue(Role::kNode, uuid)); });
    EXPECT_TRUE(node_->start().ok());
    admin_.emplace(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "ada")));
    EXPECT_TRUE(eventually([&] {
      return admin_->create_table({.name = "t", .shard_count = 4, .if_not_exists = true, .wait_ready_ms = 30'000}).ok();
    }));
  }

  /// Its time-out is much longer than what a refusal takes.
  std::unique_ptr<Client> client(Role role, const std::string& name) {
    return Client::create({.control_address = control_->address(),
                           .credentials = office_.issue(role, name),
                           .timeout = std::chrono::seconds(60)})
        .value();
  }
  bool is_refused(Client& client) {
    return eventually([&] { return absl::IsPermissionDenied(client.get("t", "key0").status); });
  }

  control::TempDir directory_;
  control::CertificateOffice office_{directory_.path(), "office", kClusterOfGrants};
  std::unique_ptr<control::ControlServer> control_;
  std::optional<testing::TestNode> node_;
  std::optional<control::AdminClient> admin_;
};

TEST_F(GrantedTableTest, SessionsThatStandHaveTheRightsOfTheNewestMap) {
  const auto app = client(Role::kClient, "app");
  const auto other = client(Role::kClient, "other");
  const auto admin = client(Role::kAdmin, "eve");
  for (int i = 0; i < 20; ++i) {  // sessions to both workers
    const std::string key = "key" + std::to_string(i);
    ASSERT_TRUE(app->put("t", key, "1").status.ok());
    ASSERT_TRUE(other->put("t", key, "1").status.ok());
    ASSERT_TRUE(admin->put("t", key, "1").status.ok());
  }
  ASSERT_TRUE(admin_->add_grant("client/app", "t", control::kRightRead).ok());
  EXPECT_TRUE(is_refused(*other));
  // Both workers have the grants now, or in a moment.
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 20; ++i) {
      if (other->get("t", "key" + std::to_string(i)).status.ok()) return false;
    }
    return true;
  }));
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    EXPECT_TRUE(app->get("t", key).status.ok());
    const WriteResult refused = app->put("t", key, "2");
    EXPECT_TRUE(absl::IsPermissionDenied(refused.status)) << refused.status;
    EXPECT_FALSE(refused.may_have_been_applied);
    EXPECT_THAT(std::string(refused.status.message()),
                HasSubstr("client/app has no right to write table t; an administrator can give it: skuactl grant add "
                          "client/app t write"));
    EXPECT_TRUE(admin->put("t", key, "3").status.ok());
  }
  ASSERT_TRUE(admin_->add_grant("client/app", "t", control::kRightWrite).ok());
  EXPECT_TRUE(eventually([&] { return app->put("t", "key0", "4").status.ok(); }));
  ASSERT_TRUE(admin_->remove_grant("client/app", "t", control::kRightsAll, true).ok());
  EXPECT_TRUE(eventually([&] { return other->put("t", "key0", "5").status.ok(); }));
}

TEST_F(GrantedTableTest, ANodeThatStartsLaterKnowsThem) {
  const auto other = client(Role::kClient, "other");
  ASSERT_TRUE(other->put("t", "key0", "1").status.ok());
  node_->stop();
  ASSERT_TRUE(admin_->add_grant("client/app", "t", control::kRightsAll).ok());
  ASSERT_TRUE(node_->start().ok());
  // Not once is it let in.
  for (int i = 0; i < 20; ++i) {
    const absl::Status refused = other->get("t", "key" + std::to_string(i)).status;
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  }
  const auto app = client(Role::kClient, "app");
  EXPECT_TRUE(app->get("t", "key0").status.ok());
}

}  // namespace
}  // namespace skua::kv
