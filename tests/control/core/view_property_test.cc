// Random faults against views, with everything that must hold checked at every record that is stored.
#include <gtest/gtest.h>

#include "tests/control/core/view_sim.h"

namespace skua::control {
namespace {

/// Short times, so that a run is long in events.
SimOptions quick(uint32_t replicas) {
  SimOptions options;
  options.replicas = replicas;
  options.views.replace_after_ns = 2 * kSecond;
  options.views.rejoin_max_ns = 4 * kSecond;
  options.views.join_timeout_ns = 2 * kSecond;
  options.views.rebalance_quiet_ns = 3 * kSecond;
  options.views.records_per_change_max = 4;
  return options;
}

class Views : public testing::TestWithParam<uint32_t> {};

// Sanitizers make a seed ten times as long, and look for what the first ones show as well.
#ifdef SKUA_SANITIZED
constexpr uint64_t kSeeds = 8;
#else
constexpr uint64_t kSeeds = 40;
#endif

TEST_P(Views, SurviveRandomFaults) {
  size_t writes = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    ViewSim sim(seed, quick(GetParam()));
    Rng rng(seed * 77);
    for (int i = 0; i < 150; ++i) {
      if (rng.chance(0.5)) sim.disturb();
      for (uint64_t rounds = rng.below(12); rounds > 0; --rounds) sim.round();
      ASSERT_EQ(sim.broken(), "");
    }
    sim.heal();
    sim.run(10 * kSecond);
    sim.recover_hopeless_shards();
    sim.run(60 * kSecond);
    ASSERT_EQ(sim.broken(), "");
    ASSERT_EQ(sim.unsettled(), 0u);
    const uint64_t revision = sim.stored().map_revision;
    sim.run(20 * kSecond);
    ASSERT_EQ(sim.stored().map_revision, revision) << "changes although nothing is wrong";

    // One node for good: its shards find others.
    sim.crash(1 + seed % 6);
    sim.run(60 * kSecond);
    ASSERT_EQ(sim.broken(), "");
    ASSERT_EQ(sim.unsettled(), 0u);
    const uint64_t after = sim.stored().map_revision;
    sim.run(20 * kSecond);
    ASSERT_EQ(sim.stored().map_revision, after) << "changes although nothing more is wrong";
    writes += sim.committed_writes();
  }
  EXPECT_GT(writes, 10'000u);
}

/// No shard waits for time when all nodes are there, whatever the control processes have forgotten.
TEST_P(Views, AreWholeSoonAfterAllNodesAndTheControlPlaneHaveReturned) {
  SimOptions options = quick(GetParam());
  options.views.replace_after_ns = 10'000 * kSecond;
  options.views.rebalance = false;
  for (uint64_t seed = 1; seed <= kSeeds / 4; ++seed) {
    SCOPED_TRACE(seed);
    ViewSim sim(seed, options);
    sim.run(5 * kSecond);
    for (uint64_t n = 1; n <= options.nodes; ++n) {
      sim.crash(n);
      sim.run(10 * kSecond);
    }
    for (const auto& [key, record] : sim.stored().shards) ASSERT_EQ(member_count(record), 1u);
    sim.restart_managers();
    sim.heal();
    sim.run(30 * kSecond);
    ASSERT_EQ(sim.broken(), "");
    ASSERT_EQ(sim.unsettled(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, Views, testing::Values(2, 3, 5));

}  // namespace
}  // namespace skua::control
