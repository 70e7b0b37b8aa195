// kv_replication_sim: a replicated store under faults of all kinds, seed by seed. See replication_world.h.
#include <iterator>

#include "kvstore/types/mutants.h"
#include "tests/kvstore/replication/replication_world.h"
#include "tests/kvstore/replication/seed_runner.h"

namespace skua::kv::sim {
namespace {

WorldMutant g_world_mutant = WorldMutant::kNone;

constexpr auto& of_store = simulation::mutant_of<active_mutant<Mutant>>;
constexpr auto& of_world = simulation::mutant_of<g_world_mutant>;

const NamedMutant kMutants[] = {
    of_store("ack-before-durable", Mutant::kAckBeforeDurable),
    of_store("serve-after-lease", Mutant::kServeAfterLease),
    of_store("skip-epoch-check", Mutant::kSkipEpochCheck),
    of_store("no-promise-wait", Mutant::kNoPromiseWait),
    of_store("forget-promises", Mutant::kForgetPromises),
    of_store("learner-hole", Mutant::kLearnerHole),
    of_store("truncate-committed", Mutant::kTruncateCommitted),
    of_store("commit-at-majority", Mutant::kCommitAtMajority),
    of_store("release-twice", Mutant::kReleaseTwice),
    of_store("snapshot-off-by-one", Mutant::kSnapshotOffByOne),
    of_store("open-before-barrier", Mutant::kOpenBeforeBarrier),
    of_store("keep-old-acks", Mutant::kKeepOldAcks),
    of_store("believe-unverified", Mutant::kBelieveUnverified),
    of_world("lose-dedup", WorldMutant::kLoseDedup),
    of_world("serve-stale-map", WorldMutant::kServeStaleMap),
    of_world("ignore-cas-failure", WorldMutant::kIgnoreCasFailure),
};
constexpr size_t kReplicaMutants =
    static_cast<size_t>(Mutant::kBelieveUnverified) - static_cast<size_t>(Mutant::kAckBeforeDurable) + 1;
static_assert(std::size(kMutants) == kReplicaMutants + static_cast<size_t>(WorldMutant::kIgnoreCasFailure),
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
