// Several control processes on a real etcd, and clients and nodes that know all of them.
#include <gtest/gtest.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "control/client/shard_map_cache.h"
#include "control/store/etcd_election.h"
#include "tests/app/free_port.h"
#include "tests/control/client/control_harness.h"
#include "tests/control/etcd_process.h"

namespace skua::control {
namespace {

class ControlLeadersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdProcess::is_installed()) GTEST_SKIP() << kNoEtcd;
    etcd_.emplace();
    for (size_t i = 0; i < servers_.size(); ++i) {
      addresses_[i] = app::free_address();
      start(i);
    }
  }

  void start(size_t i) {
    auto store = EtcdStore::open({.address = etcd_->address("p"), .open_timeout_ns = kGenerous});
    ASSERT_TRUE(store.ok()) << store.status();
    auto election = make_etcd_election(**store, {.lease_ns = 2 * kSecond, .period_ns = 50 * kMillisecond});
    ControlServerOptions options;
    options.listen_address = addresses_[i];
    options.fresh_cluster_id = test_uuid(0xc0 + i);
    options.heartbeat_interval_ms = 20;
    options.suspect_after_ms = 600'000;
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    auto server = ControlServer::start(options, *std::move(store), std::move(election));
    ASSERT_TRUE(server.ok()) << server.status();
    servers_[i] = *std::move(server);
  }

  [[nodiscard]] std::string all() const { return absl::StrCat(addresses_[0], ",", addresses_[1]); }

  /// The index of the one that leads.
  size_t leader() {
    size_t found = servers_.size();
    EXPECT_TRUE(eventually([&] {
      for (size_t i = 0; i < servers_.size(); ++i) {
        if (servers_[i] == nullptr) continue;
        AdminClient admin(addresses_[i], 100 * kMillisecond);
        if (admin.status().ok()) found = i;
      }
      return found < servers_.size();
    }));
    return found;
  }

  std::optional<EtcdProcess> etcd_;
  std::array<std::string, 2> addresses_;
  std::array<std::unique_ptr<ControlServer>, 2> servers_;
};

TEST_F(ControlLeadersTest, BothServeOneCluster) {
  EXPECT_EQ(servers_[0]->cluster_id(), servers_[1]->cluster_id());
}

TEST_F(ControlLeadersTest, FollowerNamesTheLeader) {
  const size_t leads = leader();
  AdminClient follower(addresses_[1 - leads], kSecond);
  ASSERT_TRUE(eventually([&] {
    const auto refused = follower.list_tables();
    return refused.status().code() == absl::StatusCode::kUnavailable &&
           std::string(refused.status().message()).find(addresses_[leads]) != std::string::npos;
  }));
}

TEST_F(ControlLeadersTest, EverybodyMovesToTheNewLeader) {
  const size_t first = leader();
  // Asked in either order, the leader is found.
  AdminClient admin(all(), kGenerous);
  NodeAgentOptions options;
  options.control_address = absl::StrCat(addresses_[1 - first], ",", addresses_[first]);
  options.node = test_node(1);
  NodeAgent agent(options);
  agent.start();
  ASSERT_TRUE(agent.wait_registered(kGenerous).ok());
  ShardMapCache cache({.control_address = options.control_address});
  cache.start();
  ASSERT_TRUE(cache.wait_until([](const ShardMap& map) { return map.nodes.size() == 1; }, kGenerous).ok());

  servers_[first] = nullptr;
  const auto created = admin.create_table({.name = "t", .shard_count = 4});
  // Nobody may know yet whether the node lives.
  ASSERT_TRUE(created.ok() || eventually([&] { return admin.create_table({.name = "t", .shard_count = 4}).ok(); }))
      << created.status();
  EXPECT_TRUE(cache.wait_until([](const ShardMap& map) { return map.tables.size() == 1; }, kGenerous).ok());
  EXPECT_EQ(leader(), 1 - first);

  start(first);
  EXPECT_EQ(leader(), 1 - first) << "who comes back follows";
}

TEST_F(ControlLeadersTest, WithoutEtcdNobodyLeadsAndThenSomebodyDoes) {
  AdminClient admin(all(), kGenerous);
  ASSERT_TRUE(admin.status().ok());
  etcd_->kill9();
  AdminClient impatient(all(), 100 * kMillisecond);
  ASSERT_TRUE(eventually([&] { return impatient.status().status().code() == absl::StatusCode::kUnavailable; }));
  etcd_->start();
  EXPECT_TRUE(eventually([&] { return impatient.status().ok(); }));
}

}  // namespace
}  // namespace skua::control
