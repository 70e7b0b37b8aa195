// kv_cluster_sim: a whole cluster under faults of all kinds, seed by seed. See cluster_world.h.
#include "kvstore/types/mutants.h"
#include "tests/kvstore/cluster/cluster_world.h"
#include "tests/kvstore/replication/seed_runner.h"

namespace skua::kv::sim {
namespace {

WorldMutant g_world_mutant = WorldMutant::kNone;

constexpr auto& of_store = simulation::mutant_of<active_mutant<Mutant>>;
constexpr auto& of_world = simulation::mutant_of<g_world_mutant>;

/// Those that this simulation catches within a few seeds; kv_replication_sim and kv_shard_sim catch the others.
const NamedMutant kMutants[] = {
    of_world("ignore-cas-failure", WorldMutant::kIgnoreCasFailure),
    of_world("blind-commit", WorldMutant::kBlindCommit),
    of_world("forget-view", WorldMutant::kForgetView),
    of_world("forget-doubt", WorldMutant::kForgetDoubt),
    of_world("copy-off-by-one", WorldMutant::kCopyOffByOne),
    of_store("ack-before-durable", Mutant::kAckBeforeDurable),
    of_store("serve-after-lease", Mutant::kServeAfterLease),
    of_store("skip-epoch-check", Mutant::kSkipEpochCheck),
    of_store("no-promise-wait", Mutant::kNoPromiseWait),
    of_store("learner-hole", Mutant::kLearnerHole),
    of_store("truncate-committed", Mutant::kTruncateCommitted),
    of_store("commit-at-majority", Mutant::kCommitAtMajority),
    of_store("believe-unverified", Mutant::kBelieveUnverified),
    of_store("drop-dedup-record", Mutant::kDropDedupRecord),
    of_store("forget-by-wall-clock", Mutant::kForgetByWallClock),
    of_store("skip-sync", Mutant::kSkipSync),
    of_store("read-without-lease", Mutant::kReadWithoutLease),
    of_store("skip-view-file", Mutant::kSkipViewFile),
    of_store("skip-unsynced-file", Mutant::kSkipUnsyncedFile),
    of_store("keep-given-up-data", Mutant::kKeepGivenUpData),
    of_store("open-anew-for-copy", Mutant::kOpenAnewForCopy),
    of_store("stale-copy", Mutant::kStaleCopy),
};

/// Probes of parts that only tests/kvstore/replication has, and one that not every batch hits.
bool is_elsewhere(Probe probe) {
  switch (probe) {
    case Probe::kNewIncarnation:
    case Probe::kReadOverTaken:
    case Probe::kSeeSaw:
    case Probe::kSlowMemberRemoved:
    case Probe::kJoinStarted:
    case Probe::kJoinAborted:
    case Probe::kEpochRenewed:
    case Probe::kSnapshotKeptLog:
    case Probe::kTruncated:
    case Probe::kTornTail:
    case Probe::kDedupAttached:
    case Probe::kCasFailedOp:
    case Probe::kFalseSuspicion:
    case Probe::kStartFailed: return true;
    default: return false;
  }
}

}  // namespace
}  // namespace skua::kv::sim

int main(int argc, char** argv) {
  using namespace skua::kv::sim;
  const skua::simulation::Program program{
      .name = "kv_cluster_sim",
      .about = "a whole cluster under faults of all kinds, seed by seed",
      .make =
          [](uint64_t seed, bool trace) {
            return std::make_unique<ClusterWorld>(ClusterSimOptions::from_seed(seed), g_world_mutant, trace);
          },
      .mutants = kMutants,
      .probes = [] { return probe_names([](Probe probe) { return !is_elsewhere(probe); }); },
      .seeds_of_a_mutant = 500,
  };
  return skua::simulation::run_program(program, argc, argv);
}
