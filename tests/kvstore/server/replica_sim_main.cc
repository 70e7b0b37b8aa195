// kv_replica_sim: replicas of a shard with real engines, under many seeds. See replica_world.h.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/kvstore/server/replica_world.h"

int main(int argc, char** argv) {
  uint64_t first = 1;
  uint64_t seeds = 100;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--first-seed") == 0) first = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seeds") == 0) seeds = std::strtoull(argv[i + 1], nullptr, 10);
  }
  skua::kv::sim::ReplicaWorld::Tally all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    skua::kv::sim::ReplicaWorld world(seed);
    if (const auto broken = world.run()) {
      std::printf("seed %llu: %s\nagain: kv_replica_sim --first-seed %llu --seeds 1\n",
                  static_cast<unsigned long long>(seed), broken->c_str(), static_cast<unsigned long long>(seed));
      return 1;
    }
    all.add(world.tally());
  }
  const auto show = [](const char* what, uint64_t count) {
    std::printf("  %-14s %llu\n", what, static_cast<unsigned long long>(count));
  };
  std::printf("%llu seeds: no promise broken\n", static_cast<unsigned long long>(seeds));
  show("acknowledged", all.acknowledged);
  show("retries", all.retries);
  show("kills", all.kills);
  show("power cuts", all.power_cuts);
  show("view changes", all.views);
  show("joins", all.joins);
  show("snapshots", all.snapshots);
  show("messages", all.messages);
  show("reads", all.reads);
  show("backup reads", all.backup_reads);
  show("unsettled", all.unsettled);
  return 0;
}
