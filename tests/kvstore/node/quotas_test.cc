// A node with certificates goes by the quotas of its clients, also for sessions that stand. All in this process, over
// TCP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
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

constexpr char kClusterOfQuotas[] = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d14";
constexpr uint32_t kWorkers = 2;

class LimitedClientTest : public ::testing::Test {
 protected:
  LimitedClientTest() {
    control::ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.cluster.id = kClusterOfQuotas;
    options.heartbeat_interval_ms = 20;
    options.credentials = loaded(office_.issue(Role::kControl, "c1"));
    auto control = control::ControlServer::start(options, std::make_unique<control::MemoryStore>());
    EXPECT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    node_.emplace(control_->address(), kWorkers);
    node_->use_credentials([this](const std::string& uuid) { return loaded(office_.issue(Role::kNode, uuid)); });
    EXPECT_TRUE(node_->start().ok());
    admin_.emplace(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "ada")));
    EXPECT_TRUE(eventually([&] {
      return admin_->create_table({.name = "t", .shard_count = 4, .if_not_exists = true, .wait_ready_ms = 30'000}).ok();
    }));
  }

  std::unique_ptr<Client> client(Role role, const std::string& name, std::chrono::nanoseconds timeout) {
    return Client::create(
               {.control_address = control_->address(), .credentials = office_.issue(role, name), .timeout = timeout})
        .value();
  }
  /// Keys of shards of all workers.
  static std::vector<std::string> keys() {
    std::vector<std::string> keys;
    for (int i = 0; i < 20; ++i) keys.push_back("key" + std::to_string(i));
    return keys;
  }
  /// Whether an operation of "client/app" was tried until its deadline, and refused for the quota.
  static bool is_over_quota(const absl::Status& status, const std::string& quota) {
    return absl::IsDeadlineExceeded(status) &&
           absl::StrContains(status.message(), "client/app has used up its quota of this node: " + quota);
  }
  bool reads_all(Client& client) {
    for (const std::string& key : keys()) {
      if (!client.get("t", key).status.ok()) return false;
    }
    return true;
  }

  control::TempDir directory_;
  control::CertificateOffice office_{directory_.path(), "office", kClusterOfQuotas};
  std::unique_ptr<control::ControlServer> control_;
  std::optional<testing::TestNode> node_;
  std::optional<control::AdminClient> admin_;
};

TEST_F(LimitedClientTest, OperationsOfASessionThatStandsAreRefusedAndThoseOfOthersAreNot) {
  const auto app = client(Role::kClient, "app", std::chrono::milliseconds(300));
  const auto other = client(Role::kClient, "other", std::chrono::seconds(60));
  for (const std::string& key : keys()) ASSERT_TRUE(other->put("t", key, "1").status.ok());
  ASSERT_TRUE(eventually([&] { return reads_all(*app); }));
  // Each worker has a token at most, and then one in two seconds.
  ASSERT_TRUE(admin_->set_quota("client/app", {.operations_per_s = 1}).ok());
  // On a busy machine an operation may also run out of time before the node hears of the quota, or has answered.
  absl::Status refused;
  EXPECT_TRUE(eventually([&] {
    refused = app->get("t", "key0").status;
    return is_over_quota(refused, "1 operations/s");
  })) << refused
      << ": not tried again until the deadline";
  EXPECT_TRUE(reads_all(*other));
  const auto metrics = node_->metrics();
  EXPECT_THAT(metrics,
              ::testing::ContainsRegex("skua_quota_refusals_total.worker=\"[01]\",quota=\"operations\". [1-9]"));
  ASSERT_TRUE(admin_->remove_quota("client/app").ok());
  EXPECT_TRUE(eventually([&] { return reads_all(*app); }));
}

/// Clients try again, so a rate slows them down, and nothing fails.
TEST_F(LimitedClientTest, OperationsWithTimeEnoughAreDoneInTheEnd) {
  const auto app = client(Role::kClient, "app", std::chrono::seconds(60));
  for (const std::string& key : keys()) ASSERT_TRUE(app->put("t", key, "1").status.ok());
  ASSERT_TRUE(admin_->set_quota("client/app", {.operations_per_s = 100}).ok());
  for (int round = 0; round < 10; ++round) EXPECT_TRUE(reads_all(*app));
}

TEST_F(LimitedClientTest, SessionsOfAllWorkersCount_AndPlacesComeBack) {
  ASSERT_TRUE(admin_->set_quota("client/app", {.sessions = kWorkers}).ok());
  const auto other = client(Role::kClient, "other", std::chrono::seconds(60));
  for (const std::string& key : keys()) ASSERT_TRUE(other->put("t", key, "1").status.ok());
  std::unique_ptr<Client> first;
  // The node hears of the quota later. Then a second client finds no place.
  ASSERT_TRUE(eventually([&] {
    first.reset();
    first = client(Role::kClient, "app", std::chrono::seconds(60));
    if (!reads_all(*first)) return false;
    const auto second = client(Role::kClient, "app", std::chrono::milliseconds(300));
    const absl::Status refused = second->get("t", "key0").status;
    return is_over_quota(refused, "2 sessions");
  }));
  EXPECT_TRUE(reads_all(*first)) << "it has its sessions";
  EXPECT_TRUE(reads_all(*other));
  first.reset();
  const auto next = client(Role::kClient, "app", std::chrono::seconds(60));
  EXPECT_TRUE(reads_all(*next)) << "the places of sessions that ended";
}

TEST_F(LimitedClientTest, ANodeThatStartsLaterKnowsThem) {
  node_->stop();
  ASSERT_TRUE(admin_->set_quota("client/app", {.operations_per_s = 1}).ok());
  ASSERT_TRUE(node_->start().ok());
  const auto app = client(Role::kClient, "app", std::chrono::milliseconds(300));
  EXPECT_TRUE(eventually([&] {
    return std::string(app->get("t", "key0").status.message()).find("has used up its quota") != std::string::npos;
  }));
}

}  // namespace
}  // namespace skua::kv
