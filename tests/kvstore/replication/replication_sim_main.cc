// kv_replication_sim: a replicated store under faults of all kinds, seed by seed. See replication_world.h.
#include <iterator>

#include "kvstore/replication/replication_mutants.h"
#include "tests/kvstore/replication/replication_world.h"
#include "tests/kvstore/replication/seed_runner.h"

namespace skua::kv::sim {
namespace {

WorldMutant g_world_mutant = WorldMutant::kNone;

constexpr auto& of_replica = simulation::mutant_of<active_mutant<ReplicaMutant>>;
constexpr auto& of_world = simulation::mutant_of<g_world_mutant>;

const NamedMutant kMutants[] = {
    of_replica("ack-before-durable", ReplicaMutant::kAckBeforeDurable),
    of_replica("serve-after-lease", ReplicaMutant::kServeAfterLease),
    of_replica("skip-epoch-check", ReplicaMutant::kSkipEpochCheck),
    of_replica("no-promise-wait", ReplicaMutant::kNoPromiseWait),
    of_replica("forget-promises", ReplicaMutant::kForgetPromises),
    of_replica("learner-hole", ReplicaMutant::kLearnerHole),
    of_replica("truncate-committed", ReplicaMutant::kTruncateCommitted),
    of_replica("commit-at-majority", ReplicaMutant::kCommitAtMajority),
    of_replica("release-twice", ReplicaMutant::kReleaseTwice),
    of_replica("snapshot-off-by-one", ReplicaMutant::kSnapshotOffByOne),
    of_replica("open-before-barrier", ReplicaMutant::kOpenBeforeBarrier),
    of_replica("keep-old-acks", ReplicaMutant::kKeepOldAcks),
    of_replica("believe-unverified", ReplicaMutant::kBelieveUnverified),
    of_world("lose-dedup", WorldMutant::kLoseDedup),
    of_world("serve-stale-map", WorldMutant::kServeStaleMap),
    of_world("ignore-cas-failure", WorldMutant::kIgnoreCasFailure),
};
static_assert(std::size(kMutants) == static_cast<size_t>(ReplicaMutant::kBelieveUnverified) +
                                         static_cast<size_t>(WorldMutant::kIgnoreCasFailure),
              "a mutant without a name");

}  // namespace
}  // namespace skua::kv::sim

int main(int argc, char** argv) {
  using namespace skua::kv::sim;
  const skua::simulation::Program program{
      .name = "kv_replication_sim",
      .about = "a replicated store under faults of all kinds, seed by seed",
      .make =
          [](uint64_t seed, bool trace) {
            return std::make_unique<ReplicationWorld>(ReplicationSimOptions::from_seed(seed), g_world_mutant, trace);
          },
      .mutants = kMutants,
      .probes = [] { return probe_names([](Probe probe) { return probe < kFirstClusterProbe; }); },
  };
  return skua::simulation::run_program(program, argc, argv);
}
