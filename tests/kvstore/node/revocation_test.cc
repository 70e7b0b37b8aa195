// A node with certificates closes the sessions of a client that is revoked. All in this process, over TCP.
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

constexpr char kClusterId[] = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";

class RevokedClientTest : public ::testing::Test {
 protected:
  RevokedClientTest() {
    control::ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.cluster.id = kClusterId;
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

  std::unique_ptr<Client> client(const std::string& name) {
    return Client::create({.control_address = control_->address(),
                           .credentials = office_.issue(Role::kClient, name),
                           .timeout = std::chrono::seconds(60)})
        .value();
  }

  control::TempDir directory_;
  control::CertificateOffice office_{directory_.path(), "office", kClusterId};
  std::unique_ptr<control::ControlServer> control_;
  std::optional<testing::TestNode> node_;
  std::optional<control::AdminClient> admin_;
};

TEST_F(RevokedClientTest, ItsOperationsEndAndThoseOfOthersDoNot) {
  const auto app = client("app");
  const auto other = client("other");
  for (int i = 0; i < 20; ++i) {  // sessions to both workers
    ASSERT_TRUE(app->put("t", "key" + std::to_string(i), "1").status.ok());
    ASSERT_TRUE(other->put("t", "key" + std::to_string(i), "2").status.ok());
  }
  ASSERT_TRUE(admin_->revoke_identity("client/app").ok());
  absl::Status refused;
  EXPECT_TRUE(eventually([&] {
    refused = app->get("t", "key0").status;
    return absl::IsPermissionDenied(refused);
  })) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("client/app is revoked"));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(absl::IsPermissionDenied(app->put("t", "key" + std::to_string(i), "3").status));
    const ReadResult read = other->get("t", "key" + std::to_string(i));
    EXPECT_TRUE(read.status.ok()) << read.status;
    EXPECT_EQ(read.value, "2");
  }
  ASSERT_TRUE(admin_->unrevoke_identity("client/app").ok());
  EXPECT_TRUE(eventually([&] { return app->get("t", "key0").status.ok(); }));
}

TEST_F(RevokedClientTest, TheNodesMetricsTellWhenItsCertificateExpires) {
  const auto text = node_->metrics();
  EXPECT_THAT(text, ::testing::MatchesRegex(".*\nskua_certificate_expires_seconds [0-9]+\n"));
}

/// The map that the client has does not help it either.
TEST_F(RevokedClientTest, ANodeThatStartsLaterKnowsTheList) {
  const auto app = client("app");
  ASSERT_TRUE(app->put("t", "key", "1").status.ok());
  node_->stop();
  ASSERT_TRUE(admin_->revoke_identity("client/app").ok());
  ASSERT_TRUE(node_->start().ok());
  EXPECT_TRUE(eventually([&] { return absl::IsPermissionDenied(app->put("t", "key", "2").status); }));
  const auto other = client("other");
  EXPECT_TRUE(eventually([&] { return other->get("t", "key").status.ok(); }));
}

/// Nor has it to wait for its time-out to hear why it gets no map.
TEST_F(RevokedClientTest, AClientThatStartsLaterHearsItAtOnce) {
  ASSERT_TRUE(admin_->revoke_identity("client/app").ok());
  const auto app = client("app");
  const absl::Status refused = app->get("t", "key").status;
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("client/app is revoked"));
  ASSERT_TRUE(admin_->unrevoke_identity("client/app").ok());
  EXPECT_TRUE(eventually([&] { return app->put("t", "key", "1").status.ok(); }));
}

}  // namespace
}  // namespace skua::kv
