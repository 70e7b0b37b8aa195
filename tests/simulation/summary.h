// What worlds of a simulation counted.
#ifndef SKUA_TESTS_SIMULATION_SUMMARY_H_
#define SKUA_TESTS_SIMULATION_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace skua::simulation {

/// What one world counted, or many.
struct Summary {
  /// What was done. All worlds of a program give the same names in the same order.
  std::vector<std::pair<std::string, uint64_t>> counts = {};
  /// How often each rare branch was taken.
  std::map<std::string, uint64_t> probes = {};
  /// 0: the world has no clock.
  double virtual_s = 0;
  void add(const Summary& other);
};

/// The lines that end a run. `what` says of which worlds.
void print_summary(const std::string& what, const Summary& summary, double seconds);

}  // namespace skua::simulation

#endif  // SKUA_TESTS_SIMULATION_SUMMARY_H_
