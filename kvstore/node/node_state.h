// The state that a node remembers across restarts, in addition to its identity: file `<data_dir>/state`.
//
//   # Written by skuad. Do not edit.
//   format_version = 1
//   incarnation = 7          +1 at each start: distinguishes sessions of this process from older ones
//   map_revision = 42        revision of the newest shard map that the node acted upon (see shard_plan.h)
//   storage_incarnation = 2  +1 when replicas here may lack data that they acknowledged; absent while it is 1
//
// The file is replaced as a whole (new file written, synced, renamed, directory synced). So a crash leaves the old file
// or the new one.
#ifndef SKUA_KVSTORE_NODE_NODE_STATE_H_
#define SKUA_KVSTORE_NODE_NODE_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kvstore/storage/durable_files.h"

namespace skua::kv {

struct NodeState {
  uint64_t incarnation = 0;
  uint64_t map_revision = 0;
  uint64_t storage_incarnation = 1;

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// Encodes and decodes the file's text. FAILED_PRECONDITION: a newer format. DATA_LOSS: any text that format_state()
/// does not write.
[[nodiscard]] std::string format_state(const NodeState& state);
[[nodiscard]] absl::StatusOr<NodeState> parse_state(std::string_view text);

/// What `decode` makes of one of the node's files. Without the file: T{}. Errors name the file.
template <typename T>
absl::StatusOr<T> read_decoded(const DurableFiles& files, const char* name,
                               absl::StatusOr<T> (*decode)(std::string_view bytes)) {
  const auto bytes = files.read(name);
  if (!bytes.ok()) return bytes.status();
  if (!bytes->has_value()) return T{};
  auto value = decode(**bytes);
  if (value.ok()) return value;
  return absl::Status(value.status().code(), absl::StrCat(files.path_of(name), ": ", value.status().message()));
}

/// Reads the state. Without a file the state has its defaults. Errors name the file.
[[nodiscard]] absl::StatusOr<NodeState> read_state(const DurableFiles& files);
/// Once it returns OK the state survives a power failure. INTERNAL and RESOURCE_EXHAUSTED name the file.
[[nodiscard]] absl::Status write_state(const DurableFiles& files, const NodeState& state);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_STATE_H_
