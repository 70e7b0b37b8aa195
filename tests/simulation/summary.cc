#include "tests/simulation/summary.h"

#include <cinttypes>
#include <cstdio>

namespace skua::simulation {

void Summary::add(const Summary& other) {
  if (counts.empty()) {
    counts = other.counts;
  } else {
    for (size_t i = 0; i < other.counts.size(); ++i) counts[i].second += other.counts[i].second;
  }
  for (const auto& [name, number] : other.probes) probes[name] += number;
  virtual_s += other.virtual_s;
}

void print_summary(const std::string& what, const Summary& summary, double seconds) {
  const char* before = ": ";
  std::printf("%s", what.c_str());
  for (const auto& [name, number] : summary.counts) {
    std::printf("%s%" PRIu64 " %s", before, number, name.c_str());
    before = ", ";
  }
  if (summary.virtual_s > 0) {
    std::printf("; %.0f virtual seconds in %.1f (%.0f : 1)\n", summary.virtual_s, seconds, summary.virtual_s / seconds);
  } else {
    std::printf("; %.1f seconds\n", seconds);
  }
  before = "probes: ";
  for (const auto& [name, number] : summary.probes) {
    if (number == 0) continue;
    std::printf("%s%s %" PRIu64, before, name.c_str(), number);
    before = ", ";
  }
  if (!summary.probes.empty()) std::printf("\n");
}

}  // namespace skua::simulation
