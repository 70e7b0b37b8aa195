#include "control/client/node_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "control/core/protocol_version.h"
#include "tests/control/client/control_harness.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

absl::Status refusal_of(NodeAgentOptions options) {
  NodeAgent agent(std::move(options));
  agent.start();
  return agent.wait_registered(kGenerous).status();
}

TEST(NodeAgent, RegistersAndLearnsTheCluster) {
  ControlHarness control;
  NodeAgent agent(agent_options(control, 1));
  agent.start();
  const auto registration = agent.wait_registered(kGenerous);
  ASSERT_TRUE(registration.ok()) << registration.status();
  EXPECT_EQ(registration->cluster_id, kClusterId);
  EXPECT_EQ(registration->cluster_name, "skua");
  EXPECT_EQ(registration->protocol_version, 1u);
  EXPECT_EQ(registration->map_revision, 2u);
  AdminClient admin(control.address(), kGenerous);
  EXPECT_EQ(liveness_of(admin, 1), Liveness::kAlive);
}

TEST(NodeAgent, HeartbeatsTellWhomTheNodeLetsIn) {
  ControlHarness control;
  NodeAgentOptions options = agent_options(control, 1);
  options.security = {Admission::kCertificates, PacketSafety::kEncrypt};
  NodeAgent agent(options);
  agent.start();
  ASSERT_TRUE(agent.wait_registered(kGenerous).ok());
  AdminClient admin(control.address(), kGenerous);
  EXPECT_TRUE(eventually([&] {
    const auto status = admin.status();
    return status.ok() && status->nodes.size() == 1 && status->nodes[0].security == options.security;
  }));
}

TEST(NodeAgent, WaitsForAControlPlaneThatIsNotThereYet) {
  ControlHarness control;
  const NodeAgentOptions options = agent_options(control, 1);
  control.stop();
  NodeAgent agent(options);
  agent.start();
  const auto status = agent.wait_registered(50 * kMillisecond).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  control.start();
  EXPECT_TRUE(agent.wait_registered(kGenerous).ok());
}

/// Nobody answers at first.
class LateProbe final : public NodeProbe {
 public:
  explicit LateProbe(std::atomic<int>& asked) : asked_(asked) {}
  void ask(const std::string& address, const NodeInfo& claimed, AnswerFn done) override {
    if (++asked_ <= 3) return done({.address = address});
    ClaimAnswer answer = answer_of(claimed);
    answer.address = address;
    done(std::move(answer));
  }

 private:
  std::atomic<int>& asked_;
};

TEST(NodeAgent, StaysWithALeaderThatSaysNotYet) {
  std::atomic<int> asked = 0;
  TempDir dir;
  auto store = open_embedded_store({.directory = dir.path()});
  ASSERT_TRUE(store.ok()) << store.status();
  ControlServerOptions server_options;
  server_options.listen_address = "127.0.0.1:0";
  server_options.fresh_cluster_id = test_uuid(0xabc);
  server_options.make_probe = [&asked] { return std::make_unique<LateProbe>(asked); };
  auto server = ControlServer::start(server_options, *std::move(store));
  ASSERT_TRUE(server.ok()) << server.status();
  ControlHarness another;  // whoever asks there would be registered there
  NodeAgentOptions options = agent_options(another, 1);
  options.control_address = (*server)->address() + "," + another.address();
  NodeAgent agent(options);
  agent.start();
  const auto registration = agent.wait_registered(kGenerous);
  ASSERT_TRUE(registration.ok()) << registration.status();
  EXPECT_EQ(registration->cluster_id, test_uuid(0xabc));
  EXPECT_EQ(asked, 4);
}

TEST(NodeAgent, DuplicateIdentityIsRefusedNamingTheOther) {
  ControlHarness control;
  const auto first = start_node(control, 1);
  NodeAgentOptions copy = agent_options(control, 1, 2);
  copy.node.grpc_address = "host-9:7500";
  std::promise<absl::Status> told;
  copy.on_refused = [&](const absl::Status& status) { told.set_value(status); };
  const auto status = refusal_of(copy);
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("host-1:7500"));
  EXPECT_EQ(told.get_future().get(), status);
}

TEST(NodeAgent, DuplicateGraceOutlastsAKilledPredecessor) {
  ControlHarness control(/*suspect_after_ms=*/200);
  // The first process ends without a word: its goodbye finds nobody.
  auto first = start_node(control, 1);
  control.stop();
  first.reset();
  control.start();
  NodeAgentOptions moved = agent_options(control, 1, 2);
  moved.node.grpc_address = "host-9:7500";
  std::atomic<bool> refused_at_first = false;
  moved.on_trouble = [&](const absl::Status& status) {
    if (status.code() == StatusCode::kAlreadyExists) refused_at_first = true;
  };
  moved.duplicate_grace_ns = kGenerous;
  NodeAgent agent(moved);
  agent.start();
  EXPECT_TRUE(agent.wait_registered(kGenerous).ok());
  EXPECT_TRUE(refused_at_first);
}

TEST(NodeAgent, ForeignClusterIsRefused) {
  ControlHarness control;
  NodeAgentOptions options = agent_options(control, 1);
  options.cluster_id = test_uuid(99);
  const auto status = refusal_of(options);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(test_uuid(99)));
  EXPECT_THAT(std::string(status.message()), HasSubstr(kClusterId));
}

TEST(NodeAgent, WrongVersionIsRefused) {
  ControlHarness control;
  NodeAgentOptions options = agent_options(control, 1);
  options.node.versions = {4, 5};
  const auto status = refusal_of(options);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4 to 5"));
}

TEST(NodeAgent, NewerProcessReplacesTheOldWhichIsTold) {
  ControlHarness control;
  std::promise<absl::Status> told;
  NodeAgentOptions options = agent_options(control, 1, 1);
  options.on_refused = [&](const absl::Status& status) { told.set_value(status); };
  NodeAgent old_process(options);
  old_process.start();
  ASSERT_TRUE(old_process.wait_registered(kGenerous).ok());
  NodeAgent new_process(agent_options(control, 1, 2));
  new_process.start();
  ASSERT_TRUE(new_process.wait_registered(kGenerous).ok());
  const absl::Status status = told.get_future().get();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Stop this process"));
}

TEST(NodeAgent, SilenceIsSuspectedAndStopIsSeenAtOnce) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  auto node = start_node(control, 1);
  node->stop();
  EXPECT_EQ(liveness_of(admin, 1), Liveness::kStopped);
  const auto status = admin.status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->nodes.size(), 1u) << "a stopped node stays registered";
}

TEST(NodeAgent, TroubleIsReported) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  const auto node = start_node(control, 1);
  node->set_trouble("the log failed");
  EXPECT_TRUE(eventually([&] {
    const auto status = admin.status();
    return status.ok() && status->nodes[0].trouble == "the log failed";
  }));
}

TEST(NodeAgent, UnservedShardsAreReportedAndTakenBack) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  const auto node = start_node(control, 1);
  const auto created = admin.create_table({.name = "t", .shard_count = 2});
  ASSERT_TRUE(created.ok()) << created.status();
  const TableId table = created->table.table.id;
  node->set_unserved({{{table, 1}, "damaged"}});
  EXPECT_TRUE(eventually([&] {
    const auto status = admin.status();
    return status.ok() && status->nodes[0].unserved == std::vector<ShardRef>{{{table, 1}, "damaged"}} &&
           status->tables[0].available_shard_count == 1 && status->troubles.size() == 1;
  }));
  node->set_unserved({});
  EXPECT_TRUE(eventually([&] {
    const auto status = admin.status();
    return status.ok() && status->nodes[0].unserved.empty() && status->tables[0].available_shard_count == 2;
  }));
}

TEST(NodeAgent, HeartbeatsGoOnWhileRegisteredTakesLong) {
  ControlHarness control(/*suspect_after_ms=*/200);
  AdminClient admin(control.address(), kGenerous);
  NodeAgentOptions options = agent_options(control, 1);
  std::promise<void> end;
  std::atomic<bool> begun = false;
  std::atomic<bool> ended = false;
  std::atomic<bool> map_too_early = false;
  options.on_registered = [&, wait = end.get_future().share()](const Registration&) {
    begun = true;
    wait.wait();
    ended = true;
  };
  options.on_map_revision = [&](uint64_t) { map_too_early = map_too_early || !ended; };
  NodeAgent agent(options);
  agent.start();
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  // Word of the node comes in its heartbeats.
  for (const std::string trouble : {"first", "second"}) {
    agent.set_trouble(trouble);
    EXPECT_TRUE(eventually([&] {
      const auto status = admin.status();
      return status.ok() && status->nodes[0].trouble == trouble;
    }));
  }
  EXPECT_FALSE(ended);
  end.set_value();
  agent.stop();
  EXPECT_TRUE(ended) << "stop() waits for the callback";
  EXPECT_FALSE(map_too_early);
}

TEST(NodeAgent, OfAnotherClusterIsShownWhereItAsks) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  control.lose_everything();
  control.start();
  AdminClient admin(control.address(), kGenerous);
  EXPECT_TRUE(eventually([&] {
    const auto status = admin.status();
    return status.ok() && status->nodes.empty() && status->troubles.size() == 1 &&
           status->troubles[0].find("started on another --data-dir") != std::string::npos &&
           status->troubles[0].find(kClusterId) != std::string::npos;
  }));
}

TEST(NodeAgent, AppliedRevisionIsReported) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  const auto node = start_node(control, 1);
  const uint64_t revision = admin.status()->map_revision;
  ASSERT_GT(revision, 0u);
  node->set_applied_revision(revision);
  EXPECT_TRUE(eventually([&] {
    const auto status = admin.status();
    return status.ok() && status->nodes[0].applied_revision == revision;
  }));
}

/// Takes each map as soon as it hears of it.
class QuickNode {
 public:
  QuickNode(const ControlHarness& control, uint64_t n) {
    NodeAgentOptions options = agent_options(control, n);
    options.node.replication_version = kReplicationVersion;
    options.on_map_revision = [this](uint64_t revision) { agent_->set_applied_revision(revision); };
    agent_ = std::make_unique<NodeAgent>(std::move(options));
    agent_->start();
    EXPECT_TRUE(agent_->wait_registered(kGenerous).ok());
  }
  ~QuickNode() { agent_->stop(); }
  QuickNode(const QuickNode&) = delete;
  QuickNode& operator=(const QuickNode&) = delete;
  NodeAgent& agent() { return *agent_; }

 private:
  std::unique_ptr<NodeAgent> agent_;
};

size_t led_by(AdminClient& admin, uint64_t n) {
  const auto status = admin.status();
  return status.ok() ? status->nodes.at(n - 1).owned_shard_count : 999;
}

TEST(NodeAgent, OtherNodesLeadItsShardsWhenItYields) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  QuickNode one(control, 1);
  QuickNode two(control, 2);
  ASSERT_TRUE(admin.create_table({.name = "t", .shard_count = 6, .replicas = 2}).ok());
  ASSERT_EQ(led_by(admin, 1), 3u);
  const absl::StatusOr<size_t> yielded = one.agent().yield(kGenerous);
  ASSERT_TRUE(yielded.ok()) << yielded.status();
  EXPECT_EQ(*yielded, 3u);
  EXPECT_EQ(led_by(admin, 1), 0u);
  EXPECT_EQ(led_by(admin, 2), 6u);
  EXPECT_EQ(one.agent().yield(0).value_or(0), 3u) << "again, it is done already";
  EXPECT_EQ(two.agent().yield(kGenerous).value_or(9), 0u) << "nobody is left who could lead";
}

TEST(NodeAgent, YieldsNothingIfNobodyCouldHandOver) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  control.stop();
  EXPECT_EQ(node->yield(kGenerous).status().code(), StatusCode::kUnavailable);
  node->stop();
  NodeAgent stranger(agent_options(control, 2));
  stranger.start();
  EXPECT_EQ(stranger.yield(kGenerous).status().code(), StatusCode::kUnavailable);
}

TEST(NodeAgent, YieldEndsWhenTheTimeIsOver) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  QuickNode one(control, 1);
  NodeAgentOptions options = agent_options(control, 2);
  options.node.replication_version = kReplicationVersion;
  NodeAgent slow(options);  // takes no map
  slow.start();
  ASSERT_TRUE(slow.wait_registered(kGenerous).ok());
  ASSERT_TRUE(admin.create_table({.name = "t", .shard_count = 2, .replicas = 2}).ok());
  const absl::Status status = one.agent().yield(600 * kMillisecond).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("do not all do so yet"));
}

TEST(NodeAgent, LeaveIsRefusedWithShardsUnlessForced) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  const auto node = start_node(control, 1);
  ASSERT_TRUE(admin.create_table({.name = "t", .shard_count = 2}).ok());
  EXPECT_EQ(node->leave(false).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(liveness_of(admin, 1), Liveness::kAlive);
  EXPECT_TRUE(node->leave(true).ok());
  EXPECT_TRUE(admin.status()->nodes.empty());
  EXPECT_EQ(admin.list_tables()->front().available_shard_count, 0u);
}

TEST(NodeAgent, StopsWhileTheControlPlaneIsDown) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  control.stop();
  node->stop();
  EXPECT_TRUE(node->wait_registered(0).ok()) << "what was learnt stays";
}

}  // namespace
}  // namespace skua::control
