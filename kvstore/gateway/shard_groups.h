// ShardGroups: requests that are sent together, by table and shard. What a group has is the user's: get_groups.h,
// put_groups.h.
#ifndef SKUA_KVSTORE_GATEWAY_SHARD_GROUPS_H_
#define SKUA_KVSTORE_GATEWAY_SHARD_GROUPS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace skua::kv::gateway {

/// `Group` has `const std::string* table`. Groups stay where they are, and are used again. Thread: one.
template <typename Group>
class ShardGroups {
 public:
  /// The group that takes the shard's requests now. `table` must outlive the object.
  [[nodiscard]] Group& open(const std::string& table, uint32_t shard) {
    Table& place = place_of(table);
    if (shard >= place.by_shard.size()) place.by_shard.resize(shard + size_t{1}, nullptr);
    Group*& open = place.by_shard[shard];
    if (open == nullptr) {
      open = &take(table);
      opened_.emplace_back(&table, shard);
    }
    return *open;
  }
  /// That group takes no further requests.
  void close(const std::string& table, uint32_t shard) { place_of(table).by_shard[shard] = nullptr; }
  /// Closes all groups, and calls `send` with each of them. `send` must not open one.
  template <typename Send>
  void close_all(Send send) {
    for (const auto& [table, shard] : opened_) {
      Group* const group = std::exchange(place_of(*table).by_shard[shard], nullptr);
      if (group != nullptr) send(*group);  // else it was closed before
    }
    opened_.clear();
  }
  /// A closed group is done. The user has emptied it.
  void free(Group& group) { spare_.push_back(&group); }

 private:
  struct Table {
    const std::string* table;
    std::vector<Group*> by_shard;  // null: no group is open
  };

  /// There are few tables, and mostly one.
  Table& place_of(const std::string& table) {
    for (Table& place : tables_) {
      if (place.table == &table) return place;
    }
    return tables_.emplace_back(Table{.table = &table, .by_shard = {}});
  }
  Group& take(const std::string& table) {
    if (spare_.empty()) spare_.push_back(groups_.emplace_back(std::make_unique<Group>()).get());
    Group& group = *spare_.back();
    spare_.pop_back();
    group.table = &table;
    return group;
  }

  std::vector<Table> tables_;
  std::vector<std::pair<const std::string*, uint32_t>> opened_;  // since close_all(), closed ones too
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> spare_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_SHARD_GROUPS_H_
