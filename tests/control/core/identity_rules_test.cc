// A registration is a claim: what it takes to be believed, with the answers of addresses as values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ClaimAnswer stands(const std::string& address, const NodeInfo& node) {
  return {.address = address, .answered = true, .uuid = node.uuid, .incarnation = node.incarnation};
}

ClaimAnswer stands(const NodeInfo& node) {
  return stands(node.grpc_address, node);
}

ClaimAnswer nobody(const std::string& address) {
  return {.address = address, .trouble = "connection refused"};
}

/// A cluster whose core wants proof, with node 1 in it.
class ClaimsTest : public testing::Test {
 protected:
  ClaimsTest() { EXPECT_TRUE(claim(test_node(1), {stands(test_node(1))}).status.ok()); }

  Decision claim(const NodeInfo& node, std::vector<ClaimAnswer> answers = {}) {
    Decision decision = core.step(RegisterNode{kClusterId, node, 0, std::move(answers)}, now);
    if (decision.status.ok()) core.committed(decision.changes, now);
    return decision;
  }
  /// So long that node 1 counts as gone.
  void silence() {
    now += 10 * kSecond;
    core.step(Tick{}, now);
  }
  [[nodiscard]] const NodeInfo& known() const { return core.state().nodes.at(test_uuid(1)); }

  static NodeInfo moved() {
    NodeInfo node = test_node(1, 2);
    node.grpc_address = "host-9:7500";
    return node;
  }

  TimeNs now = 100 * kSecond;
  ClusterCore core{{.suspect_after_ns = 3 * kSecond, .views = {}, .claims_need_proof = true}, empty_cluster(), now};
};

TEST_F(ClaimsTest, NewcomerIsAskedForAtItsAddress) {
  const NodeInfo newcomer = test_node(2);
  const Decision decision = claim(newcomer);
  EXPECT_EQ(decision.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(decision.ask, ElementsAre(newcomer.grpc_address));
  EXPECT_TRUE(decision.changes.empty());
  EXPECT_FALSE(core.state().nodes.contains(newcomer.uuid));
  EXPECT_TRUE(claim(newcomer, {stands(newcomer)}).status.ok());
  EXPECT_TRUE(core.state().nodes.contains(newcomer.uuid));
}

TEST_F(ClaimsTest, StrangerWhoServesNothingIsNotRegistered) {
  const NodeInfo stranger = test_node(2);
  const Decision silent = claim(stranger, {nobody(stranger.grpc_address)});
  EXPECT_EQ(silent.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(message_of(silent.status),
              AllOf(HasSubstr("nobody answered"), HasSubstr("connection refused"), HasSubstr("--advertise-host")));
  const Decision other = claim(stranger, {stands(stranger.grpc_address, test_node(3))});
  EXPECT_EQ(other.status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(message_of(other.status), HasSubstr(test_uuid(3)));
  EXPECT_THAT(other.ask, IsEmpty());
  EXPECT_FALSE(core.state().nodes.contains(stranger.uuid));
}

TEST_F(ClaimsTest, LiveNodeIsNotEvictedByAClaim) {
  const Decision decision = claim(test_node(1, 2));
  EXPECT_THAT(decision.ask, ElementsAre("host-1:7500"));
  const Decision refused = claim(test_node(1, 2), {stands(test_node(1, 1))});
  EXPECT_EQ(refused.status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(message_of(refused.status),
              AllOf(HasSubstr("at host-1:7500 answers"), HasSubstr("incarnation 1"), HasSubstr("try again")));
  EXPECT_EQ(known(), test_node(1));
}

TEST_F(ClaimsTest, RestartAtTheSameAddressIsTakenAtOnce) {
  EXPECT_TRUE(claim(test_node(1, 2), {stands(test_node(1, 2))}).status.ok());
  EXPECT_EQ(known().incarnation, 2u);
}

TEST_F(ClaimsTest, SilenceAtTheAddressProvesNothing) {
  EXPECT_EQ(claim(test_node(1, 2), {nobody("host-1:7500")}).status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(known(), test_node(1));
}

TEST_F(ClaimsTest, ClaimOfAnotherProcessThanTheOneThatAnswersIsRefused) {
  // Somebody names the number of a restart under way.
  NodeInfo forged = test_node(1, 2);
  forged.storage_incarnation = 1;
  ClaimAnswer answer = stands(forged);
  answer.other_instance = true;
  EXPECT_EQ(claim(forged, {answer}).status.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(known(), test_node(1));
}

TEST_F(ClaimsTest, RegisteredProcessIsNotAskedAgain) {
  const Decision decision = claim(test_node(1));
  EXPECT_TRUE(decision.status.ok());
  EXPECT_THAT(decision.ask, IsEmpty());
}

TEST_F(ClaimsTest, RegisteredProcessProvesWhatAProcessNeverChanges) {
  NodeInfo moved = test_node(1);
  moved.grpc_address = "host-9:7500";
  EXPECT_THAT(claim(moved).ask, testing::Contains("host-9:7500"));
  NodeInfo orphan = test_node(1);
  orphan.storage_incarnation = 1;
  EXPECT_THAT(claim(orphan).ask, ElementsAre("host-1:7500"));
  EXPECT_EQ(known(), test_node(1));
}

TEST_F(ClaimsTest, MoveIsRefusedWhileTheOldProcessIsHeard) {
  const Decision decision = claim(moved(), {stands(moved())});
  EXPECT_EQ(decision.status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(decision.ask, IsEmpty());
}

TEST_F(ClaimsTest, MoveIsRefusedWhileTheOldProcessAnswersThoughItIsNotHeard) {
  silence();
  EXPECT_THAT(claim(moved()).ask, ElementsAre("host-9:7500", "host-1:7500"));
  const Decision refused = claim(moved(), {stands(moved()), stands(test_node(1))});
  EXPECT_EQ(refused.status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(message_of(refused.status), HasSubstr("still answers at host-1:7500"));
  EXPECT_TRUE(claim(moved(), {stands(moved()), nobody("host-1:7500")}).status.ok());
  EXPECT_EQ(known().grpc_address, "host-9:7500");
}

TEST_F(ClaimsTest, AnotherNodeAtTheOldAddressDoesNotKeepTheMoverOut) {
  silence();
  EXPECT_TRUE(claim(moved(), {stands(moved()), stands("host-1:7500", test_node(3))}).status.ok());
}

TEST_F(ClaimsTest, MoveAfterAGoodbyeAsksOnlyTheNewAddress) {
  const NodeInfo node = test_node(1);
  ASSERT_TRUE(core.step(NodeHeartbeat{node.uuid, 1, node.instance, 0, true}, now).status.ok());
  EXPECT_THAT(claim(moved()).ask, ElementsAre("host-9:7500"));
  EXPECT_TRUE(claim(moved(), {stands(moved())}).status.ok());
}

TEST_F(ClaimsTest, AnswersOfOtherAddressesDoNotCount) {
  silence();
  const Decision decision = claim(moved(), {stands(moved())});
  EXPECT_FALSE(decision.status.ok());
  EXPECT_THAT(decision.ask, ElementsAre("host-1:7500"));
}

TEST_F(ClaimsTest, IncarnationsOutOfReachAreRefused) {
  for (const uint64_t far : {1 + kIncarnationStepMax + 1, uint64_t{1} << 63, ~uint64_t{0}}) {
    NodeInfo node = test_node(1, 2);
    node.incarnation = far;
    const absl::Status status = claim(node, {stands(node)}).status;
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << far;
    EXPECT_THAT(message_of(status), AllOf(HasSubstr("65536"), HasSubstr("skuactl node remove " + node.uuid)));
  }
  const NodeInfo near = test_node(1, 1 + kIncarnationStepMax);
  EXPECT_TRUE(claim(near, {stands(near)}).status.ok());
}

TEST_F(ClaimsTest, StorageIsNotOrphanedByAnUnprovenOrFarClaim) {
  NodeInfo node = test_node(1, 2);
  node.storage_incarnation = 1;
  EXPECT_FALSE(claim(node, {stands(test_node(1))}).status.ok());
  EXPECT_FALSE(claim(node, {nobody(node.grpc_address)}).status.ok());
  silence();
  EXPECT_FALSE(claim(node, {nobody(node.grpc_address)}).status.ok()) << "not when the node is gone either";
  EXPECT_EQ(known().storage_incarnation, 0u);
  node.storage_incarnation = uint64_t{1} << 63;
  const absl::Status far = claim(node, {stands(node)}).status;
  EXPECT_EQ(far.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(far), HasSubstr("storage incarnation"));
  node.storage_incarnation = 1;
  EXPECT_TRUE(claim(node, {stands(node)}).status.ok());
  EXPECT_EQ(known().storage_incarnation, 1u);
}

/// Node 1 registered with a secret.
class SecretClaimsTest : public ClaimsTest {
 protected:
  SecretClaimsTest() { EXPECT_TRUE(claim(owner(1)).status.ok()); }
  static NodeInfo owner(uint64_t incarnation, const std::string& address = "host-1:7500") {
    NodeInfo node = test_node(1, incarnation);
    node.grpc_address = address;
    node.secret = test_uuid(1234);
    return node;
  }
  static NodeInfo thief(uint64_t incarnation, const std::string& address, const std::string& secret) {
    NodeInfo node = owner(incarnation, address);
    node.secret = secret;
    return node;
  }
};

TEST_F(SecretClaimsTest, ANodeThatIsDownIsNobodyElses) {
  silence();
  for (const std::string& secret : {std::string(), test_uuid(9)}) {
    NodeInfo node = thief(2, "host-9:7500", secret);
    node.storage_incarnation = 1;
    const Decision refused = claim(node, {stands(node), nobody("host-1:7500")});
    EXPECT_EQ(refused.status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.ask, IsEmpty());
    EXPECT_THAT(message_of(refused.status),
                AllOf(HasSubstr("identity.toml"), HasSubstr("skuactl node remove " + node.uuid),
                      testing::Not(HasSubstr(owner(1).secret))));
  }
  EXPECT_EQ(known().incarnation, 1u);
  EXPECT_EQ(known().storage_incarnation, 0u);
}

TEST_F(SecretClaimsTest, NorIsOneThatSaidGoodbye) {
  ASSERT_TRUE(core.step(NodeHeartbeat{owner(1).uuid, 1, owner(1).instance, 0, true}, now).status.ok());
  const NodeInfo node = thief(2, "host-9:7500", test_uuid(9));
  EXPECT_EQ(claim(node, {stands(node)}).status.code(), StatusCode::kFailedPrecondition);
  const NodeInfo there = thief(2, "host-1:7500", test_uuid(9));
  EXPECT_EQ(claim(there, {stands(there)}).status.code(), StatusCode::kFailedPrecondition) << "at its address neither";
}

TEST_F(SecretClaimsTest, ItsOwnerMovesAndRestarts) {
  silence();
  EXPECT_TRUE(claim(owner(2, "host-9:7500"), {stands(owner(2, "host-9:7500")), nobody("host-1:7500")}).status.ok());
  EXPECT_EQ(known().grpc_address, "host-9:7500");
  EXPECT_TRUE(claim(owner(3, "host-9:7500"), {stands(owner(3, "host-9:7500"))}).status.ok());
}

TEST_F(SecretClaimsTest, AnOlderReleaseThatKnowsNoSecretsIsTakenWhereTheNodeIs) {
  const NodeInfo older = thief(2, "host-1:7500", "");
  EXPECT_TRUE(claim(older, {stands(older)}).status.ok());
  EXPECT_EQ(known().incarnation, 2u);
  EXPECT_EQ(known().secret, owner(1).secret) << "it is still the node's";
}

TEST_F(ClaimsTest, ANodeOfAnOlderReleaseGetsItsSecretWithTheFirstOneItSays) {
  NodeInfo node = test_node(1, 2);
  node.secret = test_uuid(1234);
  EXPECT_TRUE(claim(node, {stands(node)}).status.ok());
  EXPECT_EQ(known().secret, node.secret);
}

TEST_F(ClaimsTest, NodesOfOneHostAreBounded) {
  const auto neighbour = [](uint64_t n) {
    NodeInfo node = test_node(n);
    node.grpc_address = absl::StrCat("crowded:", 7000 + n);
    return node;
  };
  for (uint64_t n = 10; n < 10 + kNodesPerHostMax; ++n) {
    ASSERT_TRUE(claim(neighbour(n), {stands(neighbour(n))}).status.ok()) << n;
  }
  const NodeInfo more = neighbour(10 + kNodesPerHostMax);
  EXPECT_EQ(claim(more, {stands(more)}).status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(claim(test_node(2), {stands(test_node(2))}).status.ok()) << "other hosts have room";
}

TEST_F(ClaimsTest, UuidThatBeginsAsAnotherIsRefused) {
  for (const char* rest : {"-4000-0000-000000000000", "-4000-ffff-ffffffffffff"}) {
    NodeInfo twin = test_node(2);
    twin.uuid = test_uuid(1).substr(0, 13) + std::string(rest);
    const absl::Status status = claim(twin, {stands(twin)}).status;
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(message_of(status),
                AllOf(HasSubstr(test_uuid(1)), HasSubstr("eight bytes"), HasSubstr("empty data directory")));
  }
  NodeInfo other = test_node(2);
  other.uuid = test_uuid(1).substr(0, 17) + "1" + test_uuid(1).substr(18);
  EXPECT_TRUE(claim(other, {stands(other)}).status.ok()) << "its eighth byte differs";
}

TEST_F(ClaimsTest, RefusalsKeepTheInstanceToThemselvesAndShowNoRawBytes) {
  NodeInfo node = test_node(2);
  node.uuid = "not a uuid\n\x1b[31m" + std::string(10'000, 'x');
  const std::string refusal = message_of(claim(node).status);
  EXPECT_THAT(refusal, testing::Not(HasSubstr(node.instance)));
  EXPECT_THAT(refusal, testing::Not(HasSubstr("\x1b")));
  EXPECT_LT(refusal.size(), 1000u);
  node = test_node(2);
  node.instance = "a secret that is no uuid";
  EXPECT_THAT(message_of(claim(node).status), testing::Not(HasSubstr(node.instance)));
  node = test_node(2);
  node.host = "two\nlines";
  EXPECT_THAT(message_of(claim(node).status), testing::Not(HasSubstr("\n")));
  node.versions = {40, 41};
  EXPECT_THAT(message_of(claim(node).status), testing::Not(HasSubstr("\n")));
}

TEST(Claims, AreTakenAtTheirWordWhereNobodyCanBeAsked) {
  TestCluster cluster;
  EXPECT_TRUE(cluster.register_node(test_node(1)).ok());
  EXPECT_TRUE(cluster.register_node(test_node(1, 2)).ok());
}

}  // namespace
}  // namespace skua::control
