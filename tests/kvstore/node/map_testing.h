// Small shard maps for tests.
#ifndef SKUA_TESTS_KVSTORE_NODE_MAP_TESTING_H_
#define SKUA_TESTS_KVSTORE_NODE_MAP_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/core/shard_map.h"

namespace skua::kv::testing {

inline const std::string kCluster = "00000000-0000-4000-8000-00000000c1c1";
inline const std::string kUs = "00000000-0000-4000-8000-000000000001";
inline const std::string kThem = "10000000-0000-4000-8000-000000000002";

/// One shard's owner: node 0 is kUs, 1 is kThem.
struct Owner {
  uint32_t node = 0;
  uint32_t worker = 0;
  uint64_t epoch = 1;
};

/// A map of two nodes.
class MapMaker {
 public:
  explicit MapMaker(uint64_t revision) {
    map_.cluster_id = kCluster;
    map_.revision = revision;
    map_.nodes = {{kUs, 1, "127.0.0.1:1", 2}, {kThem, 1, "127.0.0.1:2", 2}};
  }
  MapMaker& table(uint64_t id, const std::vector<Owner>& owners) {
    control::MapTable table{id, "t" + std::to_string(id), {}};
    for (const Owner& owner : owners) {
      table.shards.push_back({owner.epoch, control::MapReplica{owner.node, owner.worker}, {}});
    }
    map_.tables.push_back(std::move(table));
    return *this;
  }
  [[nodiscard]] control::ShardMap map() const { return map_; }
  [[nodiscard]] std::shared_ptr<const control::ShardMap> share() const {
    return std::make_shared<const control::ShardMap>(map_);
  }

 private:
  control::ShardMap map_;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_NODE_MAP_TESTING_H_
