// What a node must remember about itself beside its identity: `<data_dir>/state`.
//
//   # Written by skuad. Do not edit.
//   format_version = 1
//   incarnation = 7          counted up at each start: tells this process's sessions from older ones
//   map_revision = 42        the newest shard map that was acted upon (see shard_plan.h)
//   storage_incarnation = 2  counted up when replicas here may lack what they had acknowledged; not written while it is 1
//
// Replaced as a whole (written aside, synced, renamed, directory synced), so that a crash leaves the
// old or the new one.
#ifndef SKUA_KVSTORE_NODE_NODE_STATE_H_
#define SKUA_KVSTORE_NODE_NODE_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

struct NodeState {
  uint64_t incarnation = 0;
  uint64_t map_revision = 0;
  uint64_t storage_incarnation = 1;

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// The file's text, and back. FAILED_PRECONDITION for a newer format, DATA_LOSS for anything that
/// format_state() does not write.
[[nodiscard]] std::string format_state(const NodeState& state);
[[nodiscard]] absl::StatusOr<NodeState> parse_state(std::string_view text);

/// What `data_dir` holds; all zero if there is no file yet. Errors name the file.
[[nodiscard]] absl::StatusOr<NodeState> read_state(const std::string& data_dir);
/// After OK the state survives a power loss. INTERNAL or RESOURCE_EXHAUSTED name the file.
[[nodiscard]] absl::Status write_state(const std::string& data_dir, const NodeState& state);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_STATE_H_
