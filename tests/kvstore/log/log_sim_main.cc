// kv_log_sim: the log on a simulated disk, seed by seed.
//
//   kv_log_sim --seeds 2000                     2,000 worlds, each with its own faults
//   kv_log_sim --first-seed 4711 --seeds 1      replays one
//   kv_log_sim --replay --seeds 20              each seed twice: the traces must be equal
//   kv_log_sim --mutant skip-sync               a deliberate fault: succeeds if some seed catches it
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kvstore/log/log_mutants.h"
#include "tests/kvstore/log/log_world.h"

namespace skua::kv::sim {
namespace {

constexpr std::pair<const char*, LogMutant> kMutants[] = {
    {"skip-sync", LogMutant::kSkipSync},          {"acknowledge-early", LogMutant::kAcknowledgeEarly},
    {"sync-own-only", LogMutant::kSyncOwnOnly},   {"truncate-too-far", LogMutant::kTruncateTooFar},
    {"accept-bad-crc", LogMutant::kAcceptBadCrc}, {"cut-in-the-middle", LogMutant::kCutInTheMiddle},
    {"same-seed", LogMutant::kSameSeed},          {"forget-table", LogMutant::kForgetTable},
    {"keep-replaced", LogMutant::kKeepReplaced},
};

struct Arguments {
  uint64_t first_seed = 1;
  uint64_t seeds = 500;
  bool replay = false;
  const char* mutant = nullptr;
};

bool set_mutant(const char* name) {
  for (const auto& [known, mutant] : kMutants) {
    if (std::strcmp(known, name) != 0) continue;
    g_active_log_mutant = mutant;
    return true;
  }
  return false;
}

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--replay") == 0) {
      out.replay = true;
    } else if (std::strcmp(argv[i], "--seeds") == 0 && has_value) {
      out.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--first-seed") == 0 && has_value) {
      out.first_seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--mutant") == 0 && has_value) {
      out.mutant = argv[++i];
      if (!set_mutant(out.mutant)) return false;
    } else {
      return false;
    }
  }
  return true;
}

int run(const Arguments& arguments) {
  LogWorld::Tally tally;
  for (uint64_t seed = arguments.first_seed; seed < arguments.first_seed + arguments.seeds; ++seed) {
    LogWorld world(seed);
    const auto broken = world.run();
    tally.add(world.tally());
    if (broken && arguments.mutant != nullptr) {
      std::printf("caught by seed %" PRIu64 ": %s\n", seed, broken->c_str());
      return 0;
    }
    if (broken) {
      std::printf("seed %" PRIu64 ": %s\nreplay: kv_log_sim --first-seed %" PRIu64 " --seeds 1\n", seed,
                  broken->c_str(), seed);
      return 1;
    }
    if (!arguments.replay) continue;
    LogWorld again(seed);
    (void)again.run();
    if (again.trace() != world.trace()) {
      std::printf("seed %" PRIu64 " does not replay\n", seed);
      return 1;
    }
  }
  std::printf("%" PRIu64 " seeds: %" PRIu64 " groups, %" PRIu64 " restarts, %" PRIu64 " failures, %" PRIu64
              " refusals, %" PRIu64 " segments recycled, %" PRIu64 " records kept elsewhere, %" PRIu64
              " bits flipped, %" PRIu64 " of them reported\n",
              arguments.seeds, tally.groups, tally.restarts, tally.failures, tally.refusals, tally.recycled, tally.kept,
              tally.flips, tally.flips_reported);
  if (arguments.mutant != nullptr) std::printf("not caught: %s\n", arguments.mutant);
  return arguments.mutant == nullptr ? 0 : 1;
}

}  // namespace
}  // namespace skua::kv::sim

int main(int argc, char** argv) {
  skua::kv::sim::Arguments arguments;
  if (!skua::kv::sim::parse(argc, argv, arguments)) {
    std::fprintf(stderr, "usage: kv_log_sim [--seeds N] [--first-seed N] [--replay] [--mutant NAME]\n");
    return 2;
  }
  return skua::kv::sim::run(arguments);
}
