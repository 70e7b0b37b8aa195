// Thousands of random events against the core, with the invariants checked after each one.
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"
#include "control/core/shard_map.h"
#include "rpc/base/rng.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/core/core_invariants.h"

namespace skua::control {
namespace {

/// What may be found at the address of `claimed`.
std::vector<ClaimAnswer> random_answers(Rng& rng, const NodeInfo& claimed) {
  std::vector<ClaimAnswer> answers;
  for (uint64_t n = 1; n <= 5; ++n) {
    if (rng.chance(0.1)) continue;
    ClaimAnswer& answer = answers.emplace_back(ClaimAnswer{test_node(n).grpc_address});
    answer.answered = rng.chance(0.9);
    answer.uuid = rng.chance(0.9) ? test_uuid(n) : test_uuid(6);
    answer.incarnation = rng.chance(0.8) ? claimed.incarnation : rng.between(1, 4);
    answer.other_instance = rng.chance(0.05);
  }
  return answers;
}

Event random_registration(Rng& rng, NodeInfo node) {
  if (rng.chance(0.1)) node.grpc_address = test_node(rng.between(1, 5)).grpc_address;
  if (rng.chance(0.1)) node.storage_incarnation = rng.chance(0.8) ? rng.below(3) : kIncarnationStepMax + rng.below(9);
  if (rng.chance(0.02)) node.incarnation += kIncarnationStepMax;
  if (rng.chance(0.02)) node.uuid.back() = 'f';
  return RegisterNode{rng.chance(0.1) ? "foreign" : kClusterId, node, rng.below(50), random_answers(rng, node)};
}

Event random_event(Rng& rng) {
  const NodeInfo node = test_node(rng.between(1, 5), rng.between(1, 4), static_cast<uint32_t>(rng.between(1, 4)));
  const std::string table = "t" + std::to_string(rng.below(6));
  switch (rng.below(8)) {
    case 0:
    case 1: return random_registration(rng, node);
    case 2:
    case 3: return NodeHeartbeat{node.uuid, node.incarnation, node.instance, rng.below(50), rng.chance(0.1)};
    case 4: return NodeLeave{node.uuid, rng.chance(0.5) ? node.instance : "", rng.chance(0.3)};
    case 5:
    case 6: return CreateTable{table, static_cast<uint32_t>(rng.below(9)), rng.chance(0.5)};
    default: return DropTable{table};
  }
}

/// Counts what was accepted and changed something.
void run_random_events(uint64_t seed, bool claims_need_proof, size_t& changes) {
  Rng rng(seed);
  TestCluster cluster(empty_cluster(), {}, claims_need_proof);
  for (int i = 0; i < 150; ++i) {
    if (rng.chance(0.1)) cluster.advance(static_cast<DurationNs>(rng.below(4 * kSecond)));
    const ClusterState before = cluster.core.state();
    const Event event = random_event(rng);
    const Decision decision = cluster.step(event);
    ASSERT_EQ(broken_invariant(before, cluster.core.state(), event, decision, claims_need_proof), "");
    changes += decision.changes.empty() ? 0 : 1;
  }
}

TEST(ClusterCore, RandomEventsKeepTheInvariants) {
  constexpr uint64_t kSeeds = 150;
  for (const bool claims_need_proof : {false, true}) {
    size_t changes = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE(seed);
      run_random_events(seed, claims_need_proof, changes);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(changes, kSeeds * 20) << "most of it was refused";
  }
}

TEST(ClusterCore, SameEventsSameState) {
  const auto run = [](uint64_t seed) {
    Rng rng(seed);
    TestCluster cluster;
    for (int i = 0; i < 300; ++i) cluster.step(random_event(rng));
    return build_shard_map(cluster.core.state());
  };
  EXPECT_EQ(run(5), run(5));
}

}  // namespace
}  // namespace skua::control
