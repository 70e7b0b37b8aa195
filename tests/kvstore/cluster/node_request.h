// How clients' numbers are stored as keys and values, and a request that a node works on.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_NODE_REQUEST_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_NODE_REQUEST_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "tests/kvstore/cluster/cluster_node.h"

namespace skua::kv::sim {

[[nodiscard]] inline std::string key_text(uint32_t key) {
  return absl::StrCat("key", key);
}
[[nodiscard]] inline uint32_t key_number(std::string_view key) {
  return static_cast<uint32_t>(std::strtoul(std::string(key.substr(3)).c_str(), nullptr, 10));
}
/// A value begins with its number; a text goes on behind it.
[[nodiscard]] inline int64_t value_number(std::string_view value) {
  return std::strtoll(std::string(value.substr(0, 24)).c_str(), nullptr, 10);
}

struct ClusterNode::Request {
  ClientRequest request;
  std::string key;
  std::string value;
  WriteOp write;
  FetchOp fetch;
  // A read's.
  uint64_t epoch = 0;
  uint64_t shown_before = 0;
  int64_t found = 0;
  uint64_t version = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_NODE_REQUEST_H_
