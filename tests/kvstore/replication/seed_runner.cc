#include "tests/kvstore/replication/seed_runner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace skua::kv::sim {
namespace {

constexpr uint64_t kReplayOneIn = 50;

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

class Runner {
 public:
  explicit Runner(const SimProgram& program) : program_(program) {}

  bool parse(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const bool has_value = i + 1 < argc;
      const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
      if (is("--replay")) {
        arguments_.replay = true;
      } else if (is("--trace") || is("--verbose")) {
        arguments_.trace = true;
      } else if (is("--probes")) {
        arguments_.probes = true;
      } else if (is("--keep-going")) {
        arguments_.keep_going = true;
      } else if (is("--mutants")) {
        arguments_.all_mutants = true;
      } else if (!has_value || !take_value(argv[i], argv[i + 1])) {
        return false;
      } else {
        ++i;
      }
    }
    return true;
  }

  int run() {
    if (arguments_.all_mutants) return run_mutants();
    return arguments_.mutant != nullptr ? run_mutant() : run_seeds();
  }

 private:
  bool take_value(const char* name, const char* value) {
    if (std::strcmp(name, "--mutant") == 0) {
      const auto found = std::ranges::find_if(
          program_.mutants, [value](const NamedMutant& mutant) { return std::strcmp(mutant.name, value) == 0; });
      if (found == program_.mutants.end()) return false;
      arguments_.mutant = &*found;
      return true;
    }
    const uint64_t number = std::strtoull(value, nullptr, 10);
    if (std::strcmp(name, "--seeds") == 0) {
      arguments_.seeds = number;
      arguments_.seeds_given = true;
    } else if (std::strcmp(name, "--first-seed") == 0) {
      arguments_.first_seed = number;
    } else if (std::strcmp(name, "--seed") == 0) {
      arguments_.first_seed = number;
      arguments_.seeds = 1;
    } else {
      return false;
    }
    return true;
  }

  int run_seeds() {
    const auto start = std::chrono::steady_clock::now();
    if (arguments_.mutant != nullptr) arguments_.mutant->arm();
    int failures = 0;
    for (uint64_t seed = arguments_.first_seed; seed < arguments_.first_seed + arguments_.seeds; ++seed) {
      const auto world = program_.make(seed, arguments_.trace);
      const auto broken = world->run();
      tally_.add(world->tally());
      if (broken && arguments_.mutant != nullptr) {
        std::printf("%s: caught by seed %" PRIu64 ": %s\n", arguments_.mutant->name, seed, broken->c_str());
        return 0;
      }
      if (broken) {
        tell_broken(seed, *broken, *world);
        if (!arguments_.keep_going) return 1;
        ++failures;
      }
      if ((arguments_.replay || seed % kReplayOneIn == 0) && !replays(seed, *world)) return 1;
    }
    if (arguments_.mutant != nullptr) {
      std::printf("%s: not caught by %" PRIu64 " seeds\n", arguments_.mutant->name, arguments_.seeds);
      return 1;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    print(seconds.count());
    if (failures != 0) return 1;
    return arguments_.probes ? missing_probes() : 0;
  }

  void tell_broken(uint64_t seed, const std::string& broken, const SimWorld& world) const {
    std::printf("seed %" PRIu64 ": %s\n", seed, broken.c_str());
    if (!arguments_.keep_going) {
      std::printf("%sreplay: %s --seed %" PRIu64 " --trace\n", world.describe().c_str(), program_.name, seed);
    }
    std::fflush(stdout);
  }

  [[nodiscard]] bool replays(uint64_t seed, const SimWorld& world) const {
    const auto again = program_.make(seed, false);
    static_cast<void>(again->run());
    if (again->trace() == world.trace()) return true;
    std::printf("seed %" PRIu64 " does not replay\n", seed);
    return false;
  }

  void print(double seconds) const {
    std::printf("%" PRIu64 " seeds: %" PRIu64 " operations answered, %" PRIu64 " entries committed, %" PRIu64
                " views decided, %" PRIu64 " events; %.0f virtual seconds in %.1f (%.0f : 1)\n",
                arguments_.seeds, tally_.operations, tally_.writes, tally_.views, tally_.events, tally_.virtual_s,
                seconds, tally_.virtual_s / seconds);
    const char* before = "probes: ";
    for (size_t i = 0; i < tally_.probes.size(); ++i) {
      if (!program_.has(static_cast<Probe>(i))) continue;
      std::printf("%s%s %" PRIu64, before, probe_name(static_cast<Probe>(i)), tally_.probes[i]);
      before = ", ";
    }
    std::printf("\n");
  }

  /// 0: all probes were hit.
  [[nodiscard]] int missing_probes() const {
    int missing = 0;
    for (size_t i = 0; i < tally_.probes.size(); ++i) {
      if (tally_.probes[i] != 0 || !program_.has(static_cast<Probe>(i))) continue;
      std::printf("never hit: %s\n", probe_name(static_cast<Probe>(i)));
      missing = 1;
    }
    return missing;
  }

  /// In a process of its own: a mutant may be stopped by a check of the code itself, which counts as caught.
  int run_mutant() {
    if (!arguments_.seeds_given) arguments_.seeds = program_.seeds_of_a_mutant;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      const int result = run_seeds();
      std::fflush(stdout);
      std::_Exit(result);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
      std::printf("%s: caught by a check\n", arguments_.mutant->name);
      return 0;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }

  int run_mutants() {
    size_t missed = 0;
    for (const NamedMutant& mutant : program_.mutants) {
      arguments_.mutant = &mutant;
      missed += run_mutant() == 0 ? 0 : 1;
    }
    std::printf("%zu of %zu mutants caught\n", program_.mutants.size() - missed, program_.mutants.size());
    return missed == 0 ? 0 : 1;
  }

  const SimProgram& program_;
  Arguments arguments_;
  SimTally tally_;
};

}  // namespace

void SimTally::add(const SimTally& other) {
  events += other.events;
  operations += other.operations;
  writes += other.writes;
  views += other.views;
  virtual_s += other.virtual_s;
  for (size_t i = 0; i < probes.size(); ++i) probes[i] += other.probes[i];
}

int run_program(const SimProgram& program, int argc, char** argv) {
  Runner runner(program);
  if (runner.parse(argc, argv)) return runner.run();
  std::fprintf(stderr,
               "usage: %s [--seeds N] [--first-seed N] [--seed N] [--trace] [--replay] [--probes] [--keep-going]\n"
               "       [--mutant NAME | --mutants]\n",
               program.name);
  return 2;
}

}  // namespace skua::kv::sim
