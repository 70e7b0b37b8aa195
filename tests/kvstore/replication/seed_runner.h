// What the programs of the simulations have in common: seeds one after the other, replays, probes, mutants.
//
//   PROGRAM --seeds 2000               2,000 worlds, each with its own size, knobs and faults
//   PROGRAM --seed 4711 --trace        replays one, and says what happens in it
//   PROGRAM --replay --seeds 20        each seed twice: the traces must be equal (otherwise every 50th is)
//   PROGRAM --probes --seeds 300       fails if a rare branch was never taken
//   PROGRAM --keep-going               goes on behind a seed that fails
//   PROGRAM --mutant no-grant-wait     a deliberate fault: succeeds if some seed catches it
//   PROGRAM --mutants                  all of them
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SEED_RUNNER_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SEED_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

struct SimTally {
  uint64_t events = 0, operations = 0, writes = 0, views = 0;
  double virtual_s = 0;
  Probes probes{};
  void add(const SimTally& other);
};

class SimWorld {
 public:
  virtual ~SimWorld() = default;
  /// Runs to the end or to the first broken promise, which it returns.
  virtual std::optional<std::string> run() = 0;
  [[nodiscard]] virtual uint64_t trace() const = 0;
  [[nodiscard]] virtual SimTally tally() const = 0;
  /// What the seed decided.
  [[nodiscard]] virtual std::string describe() const = 0;
};

struct NamedMutant {
  const char* name;
  /// Before the first world of a process.
  std::function<void()> arm;
};

struct SimProgram {
  const char* name;
  std::function<std::unique_ptr<SimWorld>(uint64_t seed, bool verbose)> make;
  std::span<const NamedMutant> mutants;
  std::function<bool(Probe)> has;  ///< whether this simulation has a place for the probe
  uint64_t seeds_of_a_mutant = 1000;
};

[[nodiscard]] int run_program(const SimProgram& program, int argc, char** argv);

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SEED_RUNNER_H_
