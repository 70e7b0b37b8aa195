// What the worlds of replicated stores count, for the base of all simulations' programs (tests/simulation).
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SEED_RUNNER_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SEED_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kvstore/replication/sim_kernel.h"
#include "tests/simulation/seed_runner.h"

namespace skua::kv::sim {

using simulation::NamedMutant;

struct SimTally {
  uint64_t events = 0, operations = 0, writes = 0, views = 0;
  double virtual_s = 0;
  Probes probes{};
};

class SimWorld : public simulation::World {
 public:
  [[nodiscard]] virtual SimTally tally() const = 0;
  [[nodiscard]] simulation::Summary summary() const final;
};

/// Of those that a simulation has a place for.
[[nodiscard]] std::vector<std::string> probe_names(bool (*has)(Probe));

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SEED_RUNNER_H_
