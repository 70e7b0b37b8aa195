// What is known of a node beyond what is stored: whether it was heard of lately.
#ifndef SKUA_CONTROL_CORE_NODE_STATUS_H_
#define SKUA_CONTROL_CORE_NODE_STATUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/cluster_state.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// A copy of a shard that a node is making.
struct CopyReport {
  ShardKey shard;
  std::string text;  ///< how far it is, for people
};

/// A shard that a node has a part in and whose data it cannot open.
struct ShardRef {
  ShardKey shard;
  std::string why{};  ///< for people; may be empty: then the node's trouble says it

  friend bool operator==(const ShardRef&, const ShardRef&) = default;
};

enum class Liveness { kUnknown, kAlive, kSuspected, kStopped };

/// "unknown", "alive", "suspected" or "stopped".
[[nodiscard]] const char* liveness_name(Liveness liveness);

struct NodeStatus {
  Liveness liveness = Liveness::kUnknown;
  /// Time of the last sign of life, or of this process's start.
  TimeNs heard_ns = 0;
  uint64_t applied_revision = 0;
  /// As the node's last heartbeat said, at most kTroubleBytesMax of it.
  std::string trouble{};
  /// At most kCopiesShownMax of those that it is making.
  std::vector<CopyReport> copies{};
  /// How much its wall clock was ahead of this process's, at the last heartbeat.
  DurationNs clock_ahead_ns = 0;
  /// Shards that it cannot serve, as its last heartbeat said, and why.
  std::map<ShardKey, std::string> unserved{};
};

/// What keeps the node from doing all its work, for people; empty: nothing.
[[nodiscard]] std::string trouble_of(const NodeStatus& status);

/// What a wall clock that is ahead of the control plane's by so much does, and what to do; empty if it is hardly any.
[[nodiscard]] std::string clock_trouble(DurationNs ahead_ns);

using NodeStatuses = std::map<std::string, NodeStatus>;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_NODE_STATUS_H_
