#include "tests/kvstore/replication/seed_runner.h"

namespace skua::kv::sim {

simulation::Summary SimWorld::summary() const {
  const SimTally counted = tally();
  simulation::Summary summary{.counts = {{"operations answered", counted.operations},
                                         {"entries committed", counted.writes},
                                         {"views decided", counted.views},
                                         {"events", counted.events}},
                              .virtual_s = counted.virtual_s};
  for (size_t i = 0; i < counted.probes.size(); ++i) {
    summary.probes[probe_name(static_cast<Probe>(i))] = counted.probes[i];
  }
  return summary;
}

std::vector<std::string> probe_names(bool (*has)(Probe)) {
  std::vector<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(Probe::kCount); ++i) {
    if (has(static_cast<Probe>(i))) names.emplace_back(probe_name(static_cast<Probe>(i)));
  }
  return names;
}

}  // namespace skua::kv::sim
