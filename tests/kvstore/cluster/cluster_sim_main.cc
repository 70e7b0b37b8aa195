// kv_cluster_sim: a whole cluster under faults of all kinds, seed by seed. See cluster_world.h.
#include "kvstore/log/log_mutants.h"
#include "kvstore/memory/memory_mutants.h"
#include "kvstore/replication/replication_mutants.h"
#include "kvstore/types/engine_mutants.h"
#include "kvstore/types/worker_mutants.h"
#include "tests/kvstore/cluster/cluster_world.h"
#include "tests/kvstore/replication/seed_runner.h"

namespace skua::kv::sim {
namespace {

WorldMutant g_world_mutant = WorldMutant::kNone;

constexpr auto& of_replica = simulation::mutant_of<active_mutant<ReplicaMutant>>;
constexpr auto& of_engine = simulation::mutant_of<active_mutant<EngineMutant>>;
constexpr auto& of_log = simulation::mutant_of<active_mutant<LogMutant>>;
constexpr auto& of_worker = simulation::mutant_of<active_mutant<WorkerMutant>>;
constexpr auto& of_world = simulation::mutant_of<g_world_mutant>;

/// Those that this simulation catches within a few seeds; kv_replication_sim and kv_shard_sim catch the others.
const NamedMutant kMutants[] = {
    of_world("ignore-cas-failure", WorldMutant::kIgnoreCasFailure),
    of_world("blind-commit", WorldMutant::kBlindCommit),
    of_world("forget-view", WorldMutant::kForgetView),
    of_world("forget-doubt", WorldMutant::kForgetDoubt),
    of_world("copy-off-by-one", WorldMutant::kCopyOffByOne),
    of_replica("ack-before-durable", ReplicaMutant::kAckBeforeDurable),
    of_replica("serve-after-lease", ReplicaMutant::kServeAfterLease),
    of_replica("skip-epoch-check", ReplicaMutant::kSkipEpochCheck),
    of_replica("no-promise-wait", ReplicaMutant::kNoPromiseWait),
    of_replica("learner-hole", ReplicaMutant::kLearnerHole),
    of_replica("truncate-committed", ReplicaMutant::kTruncateCommitted),
    of_replica("commit-at-majority", ReplicaMutant::kCommitAtMajority),
    of_replica("believe-unverified", ReplicaMutant::kBelieveUnverified),
    of_engine("drop-dedup-record", EngineMutant::kDropDedupRecord),
    of_engine("forget-by-wall-clock", EngineMutant::kForgetByWallClock),
    of_log("skip-sync", LogMutant::kSkipSync),
    of_worker("read-without-lease", WorkerMutant::kReadWithoutLease),
    of_worker("skip-view-file", WorkerMutant::kSkipViewFile),
    of_worker("skip-unsynced-file", WorkerMutant::kSkipUnsyncedFile),
    of_worker("keep-given-up-data", WorkerMutant::kKeepGivenUpData),
    of_worker("open-anew-for-copy", WorkerMutant::kOpenAnewForCopy),
    of_worker("stale-copy", WorkerMutant::kStaleCopy),
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
