// kv_replication_sim: a replicated store under faults of all kinds, seed by seed.
//
//   kv_replication_sim --seeds 2000               2,000 worlds, each with its own size, knobs and faults
//   kv_replication_sim --seed 4711 --trace        replays one, and says what happens in it
//   kv_replication_sim --replay --seeds 20        each seed twice: the traces must be equal (otherwise every 50th is)
//   kv_replication_sim --probes --seeds 300       fails if a rare branch was never taken
//   kv_replication_sim --mutant no-grant-wait     a deliberate fault: succeeds if some seed catches it
//   kv_replication_sim --mutants                  all of them
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kvstore/replication/mutants.h"
#include "tests/kvstore/replication/replication_world.h"

namespace skua::kv {
ReplicaMutant g_active_replica_mutant = ReplicaMutant::kNone;
}  // namespace skua::kv

namespace skua::kv::sim {
namespace {

constexpr uint64_t kSeedsOfAMutant = 1000;
constexpr uint64_t kReplayOneIn = 50;

struct NamedMutant {
  const char* name;
  ReplicaMutant replica = ReplicaMutant::kNone;
  WorldMutant world = WorldMutant::kNone;
};

constexpr NamedMutant kMutants[] = {
    {.name = "ack-before-durable", .replica = ReplicaMutant::kAckBeforeDurable},
    {.name = "serve-after-lease", .replica = ReplicaMutant::kServeAfterLease},
    {.name = "skip-epoch-check", .replica = ReplicaMutant::kSkipEpochCheck},
    {.name = "no-grant-wait", .replica = ReplicaMutant::kNoGrantWait},
    {.name = "forget-promises", .replica = ReplicaMutant::kForgetPromises},
    {.name = "learner-hole", .replica = ReplicaMutant::kLearnerHole},
    {.name = "truncate-committed", .replica = ReplicaMutant::kTruncateCommitted},
    {.name = "commit-at-majority", .replica = ReplicaMutant::kCommitAtMajority},
    {.name = "release-twice", .replica = ReplicaMutant::kReleaseTwice},
    {.name = "snapshot-off-by-one", .replica = ReplicaMutant::kSnapshotOffByOne},
    {.name = "open-before-barrier", .replica = ReplicaMutant::kOpenBeforeBarrier},
    {.name = "keep-old-acks", .replica = ReplicaMutant::kKeepOldAcks},
    {.name = "believe-unverified", .replica = ReplicaMutant::kBelieveUnverified},
    {.name = "lose-dedup", .world = WorldMutant::kLoseDedup},
    {.name = "serve-stale-map", .world = WorldMutant::kServeStaleMap},
    {.name = "ignore-cas-failure", .world = WorldMutant::kIgnoreCasFailure},
};
static_assert(std::size(kMutants) == static_cast<size_t>(ReplicaMutant::kBelieveUnverified) +
                                         static_cast<size_t>(WorldMutant::kIgnoreCasFailure),
              "a mutant without a name");

struct Arguments {
  uint64_t first_seed = 1;
  uint64_t seeds = 200;
  bool seeds_given = false;
  bool replay = false;
  bool trace = false;
  bool probes = false;
  bool all_mutants = false;
  bool keep_going = false;
  const NamedMutant* mutant = nullptr;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    if (is("--replay")) {
      out.replay = true;
    } else if (is("--trace")) {
      out.trace = true;
    } else if (is("--probes")) {
      out.probes = true;
    } else if (is("--keep-going")) {
      out.keep_going = true;
    } else if (is("--mutants")) {
      out.all_mutants = true;
    } else if (is("--seeds") && has_value) {
      out.seeds = std::strtoull(argv[++i], nullptr, 10);
      out.seeds_given = true;
    } else if (is("--first-seed") && has_value) {
      out.first_seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (is("--seed") && has_value) {
      out.first_seed = std::strtoull(argv[++i], nullptr, 10);
      out.seeds = 1;
    } else if (is("--mutant") && has_value) {
      ++i;
      for (const NamedMutant& mutant : kMutants) {
        if (std::strcmp(mutant.name, argv[i]) == 0) out.mutant = &mutant;
      }
      if (out.mutant == nullptr) return false;
    } else {
      return false;
    }
  }
  return true;
}

void print(uint64_t seeds, const ReplicationWorld::Tally& tally, double seconds) {
  std::printf("%" PRIu64 " seeds: %" PRIu64 " operations answered, %" PRIu64 " entries committed, %" PRIu64
              " views decided, %" PRIu64 " events; %.0f virtual seconds in %.1f (%.0f : 1)\n",
              seeds, tally.operations, tally.writes, tally.views, tally.events, tally.virtual_s, seconds,
              tally.virtual_s / seconds);
  for (size_t i = 0; i < tally.probes.size(); ++i) {
    std::printf("%s%s %" PRIu64, i == 0 ? "probes: " : ", ", probe_name(static_cast<Probe>(i)), tally.probes[i]);
  }
  std::printf("\n");
}

/// 0: all probes were hit.
int missing_probes(const Probes& probes) {
  int missing = 0;
  for (size_t i = 0; i < probes.size(); ++i) {
    if (probes[i] != 0) continue;
    std::printf("never hit: %s\n", probe_name(static_cast<Probe>(i)));
    missing = 1;
  }
  return missing;
}

int run(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const WorldMutant world_mutant = arguments.mutant == nullptr ? WorldMutant::kNone : arguments.mutant->world;
  if (arguments.mutant != nullptr) g_active_replica_mutant = arguments.mutant->replica;
  ReplicationWorld::Tally tally;
  int failures = 0;
  for (uint64_t seed = arguments.first_seed; seed < arguments.first_seed + arguments.seeds; ++seed) {
    const ReplicationSimOptions options = ReplicationSimOptions::from_seed(seed);
    ReplicationWorld world(options, world_mutant, arguments.trace);
    const auto broken = world.run();
    tally.add(world.tally());
    if (broken && arguments.mutant != nullptr) {
      std::printf("%s: caught by seed %" PRIu64 ": %s\n", arguments.mutant->name, seed, broken->c_str());
      return 0;
    }
    if (broken) {
      std::printf("seed %" PRIu64 ": %s\n", seed, broken->c_str());
      if (!arguments.keep_going) {
        std::printf("%sreplay: kv_replication_sim --seed %" PRIu64 " --trace\n", options.describe().c_str(), seed);
        return 1;
      }
      std::fflush(stdout);
      ++failures;
    }
    if (!arguments.replay && seed % kReplayOneIn != 0) continue;
    ReplicationWorld again(options, world_mutant, false);
    (void)again.run();
    if (again.trace() != world.trace()) {
      std::printf("seed %" PRIu64 " does not replay\n", seed);
      return 1;
    }
  }
  if (arguments.mutant != nullptr) {
    std::printf("%s: not caught by %" PRIu64 " seeds\n", arguments.mutant->name, arguments.seeds);
    return 1;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print(arguments.seeds, tally, seconds.count());
  if (failures != 0) return 1;
  return arguments.probes ? missing_probes(tally.probes) : 0;
}

/// In a process of its own: a mutant may be stopped by a check of the code itself, which counts as caught.
int run_mutant(const Arguments& arguments) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int result = run(arguments);
    std::fflush(stdout);
    std::_Exit(result);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
    std::printf("%s: caught by a check\n", arguments.mutant->name);
    return 0;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run_mutants(Arguments arguments) {
  if (!arguments.seeds_given) arguments.seeds = kSeedsOfAMutant;
  if (!arguments.all_mutants) return run_mutant(arguments);
  int missed = 0;
  for (const NamedMutant& mutant : kMutants) {
    arguments.mutant = &mutant;
    missed += run_mutant(arguments) == 0 ? 0 : 1;
  }
  std::printf("%zu of %zu mutants caught\n", std::size(kMutants) - static_cast<size_t>(missed), std::size(kMutants));
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace skua::kv::sim

int main(int argc, char** argv) {
  skua::kv::sim::Arguments arguments;
  if (!skua::kv::sim::parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: kv_replication_sim [--seeds N] [--first-seed N] [--seed N] [--trace] [--replay] [--probes]\n"
                 "                          [--keep-going] [--mutant NAME | --mutants]\n");
    return 2;
  }
  if (arguments.all_mutants || arguments.mutant != nullptr) return skua::kv::sim::run_mutants(arguments);
  return skua::kv::sim::run(arguments);
}
