// kv_shard_sim: storage engines on a machine that ends in the middle of things, seed by seed. See crash_world.h.
#include "kvstore/log/log_mutants.h"
#include "kvstore/memory/memory_mutants.h"
#include "kvstore/types/engine_mutants.h"
#include "tests/kvstore/shard/crash_world.h"

namespace skua::kv::sim {
namespace {

constexpr auto& of_engine = simulation::mutant_of<active_mutant<EngineMutant>>;
constexpr auto& of_log = simulation::mutant_of<active_mutant<LogMutant>>;
constexpr auto& of_memory = simulation::mutant_of<active_mutant<MemoryMutant>>;

/// Those that this simulation catches; kv_memory_model_test catches the others of the memory tier.
const simulation::NamedMutant kMutants[] = {
    of_engine("truncate-unflushed", EngineMutant::kTruncateUnflushed),
    of_engine("clean-when-queued", EngineMutant::kCleanWhenQueued),
    of_engine("answer-from-pending", EngineMutant::kAnswerFromPending),
    of_engine("overtake-parked", EngineMutant::kOvertakeParked),
    of_engine("keep-indexes", EngineMutant::kKeepIndexes),
    of_engine("ignore-log-failure", EngineMutant::kIgnoreLogFailure),
    of_engine("close-unflushed", EngineMutant::kCloseUnflushed),
    of_engine("end-unflushed", EngineMutant::kEndUnflushed),
    of_engine("keep-oldest", EngineMutant::kKeepOldest),
    of_engine("drop-dedup-record", EngineMutant::kDropDedupRecord),
    of_engine("split-batch", EngineMutant::kSplitBatch),
    of_engine("forget-refusals", EngineMutant::kForgetRefusals),
    of_engine("reissue-indices", EngineMutant::kReissueIndices),
    of_log("skip-sync", LogMutant::kSkipSync),
    of_log("acknowledge-early", LogMutant::kAcknowledgeEarly),
    of_log("report-before-commit", LogMutant::kReportBeforeCommit),
    of_log("truncate-too-far", LogMutant::kTruncateTooFar),
    of_memory("reuse-region-early", MemoryMutant::kReuseRegionEarly),
    of_memory("evict-dirty", MemoryMutant::kEvictDirty),
    of_memory("drop-tombstone", MemoryMutant::kDropTombstone),
    of_memory("stale-fill", MemoryMutant::kStaleFill),
    of_memory("keep-dropped-shard", MemoryMutant::kKeepDroppedShard),
    of_memory("mark-clean-too-far", MemoryMutant::kMarkCleanTooFar),
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
