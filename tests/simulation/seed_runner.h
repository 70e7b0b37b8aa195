// The base of all simulations' programs: seeds one after the other, replays, probes, mutants.
//
//   PROGRAM --seeds 2000               2,000 worlds, each with its own faults
//   PROGRAM --seed 4711 --trace        replays one, and says what happens in it
//   PROGRAM --replay --seeds 20        each seed twice: the traces must be equal (otherwise every 50th is)
//   PROGRAM --probes --seeds 300       fails if a rare branch was never taken
//   PROGRAM --keep-going               goes on behind a seed that fails
//   PROGRAM --jobs 2                   two worlds beside each other, in processes of their own
//   PROGRAM --mutant NAME              a deliberate fault: succeeds if some seed catches it
//   PROGRAM --mutants                  all of them
//
// A program hands in a Program: how a world is made, its mutants, its probes, and options of its own. A world is made
// from a seed alone and runs on one thread; when it has run, it says what it counted. A long run says once a minute, on
// standard error, how far it is.
#ifndef SKUA_TESTS_SIMULATION_SEED_RUNNER_H_
#define SKUA_TESTS_SIMULATION_SEED_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "app/config.h"
#include "tests/simulation/summary.h"

namespace skua::simulation {

class World {
 public:
  virtual ~World() = default;
  /// Runs to the end or to the first broken promise, which it returns.
  virtual std::optional<std::string> run() = 0;
  /// Of everything that was seen: equal for equal seeds.
  [[nodiscard]] virtual uint64_t trace() const = 0;
  [[nodiscard]] virtual Summary summary() const = 0;
  /// What the seed decided: lines.
  [[nodiscard]] virtual std::string describe() const { return ""; }
};

struct NamedMutant {
  const char* name;
  /// Before the first world of a process.
  std::function<void()> arm;
};

/// The mutant that sets the variable `Active`.
template <auto& Active>
NamedMutant mutant_of(const char* name, std::remove_reference_t<decltype(Active)> which) {
  return {name, [which] { Active = which; }};
}

struct Program {
  const char* name;
  const char* about;  ///< one line
  std::function<std::unique_ptr<World>(uint64_t seed, bool trace)> make;
  std::span<const NamedMutant> mutants;
  /// The probes that many seeds must hit. Asked after the command line was read.
  std::function<std::vector<std::string>()> probes = nullptr;
  /// So many seeds must hit them without --probes, too. 0: no number does.
  uint64_t covering_seeds = 0;
  uint64_t seeds = 200;
  uint64_t seeds_of_a_mutant = 1000;
  /// Whether its worlds can say what happens in them.
  bool has_trace = true;
  /// Declares options of its own.
  std::function<void(app::Command&)> declare = nullptr;
  /// Runs something else than worlds seed by seed, if the program's own options say so: whether all promises held.
  std::function<std::optional<bool>(uint64_t first_seed, uint64_t seeds)> run_instead = nullptr;
};

/// A main, as a whole: the exit code.
[[nodiscard]] int run_program(const Program& program, int argc, char** argv);

}  // namespace skua::simulation

#endif  // SKUA_TESTS_SIMULATION_SEED_RUNNER_H_
