// The names that all parts of the cluster simulation share: the cluster, its table, and how clients' numbers are stored
// as keys and values.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NAMES_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NAMES_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "control/core/uuid.h"
#include "kvstore/types/mutation.h"

namespace skua::kv::sim {

/// The simulation's only table.
inline constexpr uint32_t kTableId = 1;
[[nodiscard]] inline ShardId shard_id(size_t shard) {
  return {kTableId, static_cast<uint32_t>(shard)};
}
[[nodiscard]] inline std::string cluster_uuid() {
  return control::uuid_from_random(1, 1);
}

[[nodiscard]] inline std::string key_text(uint32_t key) {
  return absl::StrCat("key", key);
}
[[nodiscard]] inline uint32_t key_number(std::string_view key) {
  return static_cast<uint32_t>(std::strtoul(std::string(key.substr(3)).c_str(), nullptr, 10));
}
/// A value begins with its number. A text goes on behind the number.
[[nodiscard]] inline int64_t value_number(std::string_view value) {
  return std::strtoll(std::string(value.substr(0, 24)).c_str(), nullptr, 10);
}

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_NAMES_H_
