// kv_shard_sim: storage engines on a machine that ends in the middle of things, seed by seed. See crash_world.h.
#include "kvstore/types/mutants.h"
#include "tests/kvstore/shard/crash_world.h"

namespace skua::kv::sim {
namespace {

constexpr auto& of_store = simulation::mutant_of<active_mutant<Mutant>>;

/// Those that this simulation catches; kv_memory_model_test catches the others of the memory tier.
const simulation::NamedMutant kMutants[] = {
    of_store("truncate-unflushed", Mutant::kTruncateUnflushed),
    of_store("clean-when-queued", Mutant::kCleanWhenQueued),
    of_store("answer-from-pending", Mutant::kAnswerFromPending),
    of_store("overtake-parked", Mutant::kOvertakeParked),
    of_store("keep-indexes", Mutant::kKeepIndexes),
    of_store("ignore-log-failure", Mutant::kIgnoreLogFailure),
    of_store("close-unflushed", Mutant::kCloseUnflushed),
    of_store("end-unflushed", Mutant::kEndUnflushed),
    of_store("keep-oldest", Mutant::kKeepOldest),
    of_store("drop-dedup-record", Mutant::kDropDedupRecord),
    of_store("split-batch", Mutant::kSplitBatch),
    of_store("forget-refusals", Mutant::kForgetRefusals),
    of_store("reissue-indices", Mutant::kReissueIndices),
    of_store("skip-sync", Mutant::kSkipSync),
    of_store("acknowledge-early", Mutant::kAcknowledgeEarly),
    of_store("report-before-commit", Mutant::kReportBeforeCommit),
    of_store("truncate-too-far", Mutant::kTruncateTooFar),
    of_store("reuse-region-early", Mutant::kReuseRegionEarly),
    of_store("evict-dirty", Mutant::kEvictDirty),
    of_store("drop-tombstone", Mutant::kDropTombstone),
    of_store("stale-fill", Mutant::kStaleFill),
    of_store("keep-dropped-shard", Mutant::kKeepDroppedShard),
    of_store("mark-clean-too-far", Mutant::kMarkCleanTooFar),
};

}  // namespace
}  // namespace skua::kv::sim

int main(int argc, char** argv) {
  using namespace skua::kv::sim;
  const skua::simulation::Program program{
      .name = "kv_shard_sim",
      .about = "storage engines on a machine that ends in the middle of things, seed by seed",
      .make = [](uint64_t seed, bool /*trace*/) { return std::make_unique<CrashWorld>(seed); },
      .mutants = kMutants,
      .seeds = 300,
      .has_trace = false,
  };
  return skua::simulation::run_program(program, argc, argv);
}
