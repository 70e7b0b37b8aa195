// kv_log_sim: the log on a simulated disk, seed by seed. See log_world.h.
#include "kvstore/log/log_mutants.h"
#include "tests/kvstore/log/log_world.h"

namespace skua::kv::sim {
namespace {

constexpr auto& of_log = simulation::mutant_of<active_mutant<LogMutant>>;

const simulation::NamedMutant kMutants[] = {
    of_log("skip-sync", LogMutant::kSkipSync),          of_log("acknowledge-early", LogMutant::kAcknowledgeEarly),
    of_log("sync-own-only", LogMutant::kSyncOwnOnly),   of_log("truncate-too-far", LogMutant::kTruncateTooFar),
    of_log("accept-bad-crc", LogMutant::kAcceptBadCrc), of_log("cut-in-the-middle", LogMutant::kCutInTheMiddle),
    of_log("same-seed", LogMutant::kSameSeed),          of_log("forget-table", LogMutant::kForgetTable),
    of_log("keep-replaced", LogMutant::kKeepReplaced),
};

}  // namespace
}  // namespace skua::kv::sim

int main(int argc, char** argv) {
  using namespace skua::kv::sim;
  const skua::simulation::Program program{
      .name = "kv_log_sim",
      .about = "the log on a simulated disk, seed by seed",
      .make = [](uint64_t seed, bool /*trace*/) { return std::make_unique<LogWorld>(seed); },
      .mutants = kMutants,
      .seeds = 500,
      .seeds_of_a_mutant = 500,
      .has_trace = false,
  };
  return skua::simulation::run_program(program, argc, argv);
}
