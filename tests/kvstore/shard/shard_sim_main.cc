// kv_engine_sim: storage engines on a machine that ends in the middle of things, seed by seed.
//
//   kv_engine_sim --seeds 10000                   10,000 machines, each with its own faults
//   kv_engine_sim --first-seed 4711 --seeds 1     replays one
//   kv_engine_sim --replay --seeds 20             each seed twice: the traces must be equal
//   kv_engine_sim --mutant truncate-unflushed     a deliberate fault: succeeds if some seed catches it
//   kv_engine_sim --list-mutants
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kvstore/log/log_mutants.h"
#include "kvstore/memory/memory_mutants.h"
#include "kvstore/types/engine_mutants.h"
#include "tests/kvstore/shard/crash_world.h"

namespace skua::kv {
#ifdef SKUA_WITH_MUTANTS
EngineMutant g_engine_mutant = EngineMutant::kNone;
MemoryMutant g_memory_mutant = MemoryMutant::kNone;
#endif
}  // namespace skua::kv

namespace skua::kv::sim {
namespace {

struct NamedMutant {
  const char* name;
  EngineMutant engine = EngineMutant::kNone;
  LogMutant log = LogMutant::kNone;
  MemoryMutant memory = MemoryMutant::kNone;
};

constexpr NamedMutant kMutants[] = {
    {.name = "truncate-unflushed", .engine = EngineMutant::kTruncateUnflushed},
    {.name = "coalesce-first", .engine = EngineMutant::kCoalesceFirst},
    {.name = "clean-when-queued", .engine = EngineMutant::kCleanWhenQueued},
    {.name = "answer-from-pending", .engine = EngineMutant::kAnswerFromPending},
    {.name = "overtake-parked", .engine = EngineMutant::kOvertakeParked},
    {.name = "keep-indexes", .engine = EngineMutant::kKeepIndexes},
    {.name = "ignore-log-failure", .engine = EngineMutant::kIgnoreLogFailure},
    {.name = "close-unflushed", .engine = EngineMutant::kCloseUnflushed},
    {.name = "end-unflushed", .engine = EngineMutant::kEndUnflushed},
    {.name = "replay-oldest", .engine = EngineMutant::kReplayOldest},
    {.name = "drop-dedup-record", .engine = EngineMutant::kDropDedupRecord},
    {.name = "split-batch", .engine = EngineMutant::kSplitBatch},
    {.name = "forget-refusals", .engine = EngineMutant::kForgetRefusals},
    {.name = "reissue-indices", .engine = EngineMutant::kReissueIndices},
    {.name = "skip-sync", .log = LogMutant::kSkipSync},
    {.name = "acknowledge-early", .log = LogMutant::kAcknowledgeEarly},
    {.name = "report-before-commit", .log = LogMutant::kReportBeforeCommit},
    {.name = "truncate-too-far", .log = LogMutant::kTruncateTooFar},
    {.name = "reuse-region-early", .memory = MemoryMutant::kReuseRegionEarly},
    {.name = "evict-dirty", .memory = MemoryMutant::kEvictDirty},
    {.name = "drop-tombstone", .memory = MemoryMutant::kDropTombstone},
    {.name = "stale-fill", .memory = MemoryMutant::kStaleFill},
    {.name = "ignore-ticket", .memory = MemoryMutant::kIgnoreTicket},
    {.name = "keep-dropped-shard", .memory = MemoryMutant::kKeepDroppedShard},
    {.name = "mark-clean-too-far", .memory = MemoryMutant::kMarkCleanTooFar},
};

struct Arguments {
  uint64_t first_seed = 1;
  uint64_t seeds = 300;
  bool replay = false;
  const char* mutant = nullptr;
};

bool set_mutant(const char* name) {
  for (const NamedMutant& mutant : kMutants) {
    if (std::strcmp(mutant.name, name) != 0) continue;
    g_engine_mutant = mutant.engine;
    g_active_log_mutant = mutant.log;
    g_memory_mutant = mutant.memory;
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
    } else if (std::strcmp(argv[i], "--list-mutants") == 0) {
      for (const NamedMutant& mutant : kMutants) std::puts(mutant.name);
      std::exit(0);  // NOLINT(concurrency-mt-unsafe): nothing runs yet
    } else {
      return false;
    }
  }
  return true;
}

void print(const Arguments& arguments, const CrashWorld::Tally& tally) {
  std::printf("%" PRIu64 " seeds: %" PRIu64 " writes (%" PRIu64 " acknowledged, %" PRIu64 " refused, %" PRIu64
              " in doubt), %" PRIu64 " repeated, %" PRIu64 " reads (%" PRIu64 " of databases)\n",
              arguments.seeds, tally.writes, tally.acknowledged, tally.refused, tally.doubtful, tally.repeated,
              tally.reads, tally.disk_reads);
  std::printf("%" PRIu64 " kills, %" PRIu64 " power cuts, %" PRIu64 " orderly ends, %" PRIu64
              " recoveries cut short, %" PRIu64 " records replayed, %" PRIu64 " shards moved, %" PRIu64
              " logs and %" PRIu64 " databases failed, %" PRIu64 " items evicted, %" PRIu64 " segments recycled\n",
              tally.kills, tally.power_cuts, tally.orderly, tally.torn_recoveries, tally.replayed, tally.moves,
              tally.log_failures, tally.database_failures, tally.evictions, tally.recycled);
}

int run(const Arguments& arguments) {
  CrashWorld::Tally tally;
  for (uint64_t seed = arguments.first_seed; seed < arguments.first_seed + arguments.seeds; ++seed) {
    CrashWorld world(seed);
    const auto broken = world.run();
    tally.add(world.tally());
    if (broken && arguments.mutant != nullptr) {
      std::printf("caught by seed %" PRIu64 ": %s\n", seed, broken->c_str());
      std::fflush(stdout);
      std::_Exit(0);  // a mutant's engine may be in no state to be taken down
    }
    if (broken) {
      std::printf("seed %" PRIu64 ": %s\nreplay: kv_engine_sim --first-seed %" PRIu64 " --seeds 1\n", seed,
                  broken->c_str(), seed);
      std::fflush(stdout);
      std::_Exit(1);
    }
    if (!arguments.replay) continue;
    CrashWorld again(seed);
    (void)again.run();
    if (again.trace() != world.trace()) {
      std::printf("seed %" PRIu64 " does not replay\n", seed);
      return 1;
    }
  }
  print(arguments, tally);
  if (arguments.mutant != nullptr) std::printf("not caught: %s\n", arguments.mutant);
  return arguments.mutant == nullptr ? 0 : 1;
}

}  // namespace
}  // namespace skua::kv::sim

int main(int argc, char** argv) {
  skua::kv::sim::Arguments arguments;
  if (!skua::kv::sim::parse(argc, argv, arguments)) {
    std::fprintf(stderr, "usage: kv_engine_sim [--seeds N] [--first-seed N] [--replay] [--mutant NAME]\n");
    return 2;
  }
  return skua::kv::sim::run(arguments);
}
