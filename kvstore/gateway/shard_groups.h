// ShardGroups: requests that are sent together, by table and shard. What a group has is the user's: get_groups.h,
// put_groups.h.
#ifndef SKUA_KVSTORE_GATEWAY_SHARD_GROUPS_H_
#define SKUA_KVSTORE_GATEWAY_SHARD_GROUPS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace skua::kv::gateway {

/// `Group` has `const std::string* table`. Groups stay where they are, and are used again. Thread: one.
template <typename Group>
class ShardGroups {
 public:
  /// The group that takes the shard's requests now. `table` must outlive the object.
  [[nodiscard]] Group& open(const std::string& table, uint32_t shard) {
    Group*& open = open_[Shard(&table, shard)];
    if (open == nullptr) open = &take(table);
    return *open;
  }
  /// That group takes no further requests.
  void close(const std::string& table, uint32_t shard) { open_.erase(Shard(&table, shard)); }
  /// Closes all groups, and calls `send` with each of them. `send` must not open one.
  template <typename Send>
  void close_all(Send send) {
    for (const auto& [shard, group] : open_) send(*group);
    open_.clear();
  }
  /// A closed group is done. The user has emptied it.
  void free(Group& group) { spare_.push_back(&group); }

 private:
  using Shard = std::pair<const std::string*, uint32_t>;

  Group& take(const std::string& table) {
    if (spare_.empty()) spare_.push_back(groups_.emplace_back(std::make_unique<Group>()).get());
    Group& group = *spare_.back();
    spare_.pop_back();
    group.table = &table;
    return group;
  }

  absl::flat_hash_map<Shard, Group*> open_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> spare_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_SHARD_GROUPS_H_
