// kv_log_sim: the log on a simulated disk, seed by seed. See log_world.h.
#include "kvstore/types/mutants.h"
#include "tests/kvstore/log/log_world.h"

namespace skua::kv::sim {
namespace {

constexpr auto& of_store = simulation::mutant_of<active_mutant<Mutant>>;

const simulation::NamedMutant kMutants[] = {
    of_store("skip-sync", Mutant::kSkipSync),          of_store("acknowledge-early", Mutant::kAcknowledgeEarly),
    of_store("sync-own-only", Mutant::kSyncOwnOnly),   of_store("truncate-too-far", Mutant::kTruncateTooFar),
    of_store("accept-bad-crc", Mutant::kAcceptBadCrc), of_store("cut-in-the-middle", Mutant::kCutInTheMiddle),
    of_store("same-seed", Mutant::kSameSeed),          of_store("forget-table", Mutant::kForgetTable),
    of_store("keep-replaced", Mutant::kKeepReplaced),
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
