// The soft state of a node: whether it was heard of lately, and what it reported.
#ifndef SKUA_CONTROL_CORE_NODE_STATUS_H_
#define SKUA_CONTROL_CORE_NODE_STATUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/cluster_state.h"
#include "control/core/program_security.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// A copy of a shard that a node is making.
struct CopyReport {
  ShardKey shard;
  std::string text;  ///< its progress, for people
};

/// A shard that a node is a replica of but whose data it cannot open.
struct ShardRef {
  ShardKey shard;
  std::string why{};  ///< the reason, for people; if empty, the node's trouble has it

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
  /// The trouble that the node's last heartbeat reported, cut to kTroubleBytesMax.
  std::string trouble{};
  /// Copies that the node is making, at most kCopiesShownMax.
  std::vector<CopyReport> copies{};
  /// How much the node's wall clock was ahead of this process's at the last heartbeat.
  DurationNs clock_ahead_ns = 0;
  /// Shards that the node cannot serve according to its last heartbeat, and why.
  std::map<ShardKey, std::string> unserved{};
  /// As its last heartbeat said.
  ProgramSecurity security{};
  /// The node stops soon, and said so in its last heartbeat: it leads no shard that another member could.
  bool yielding = false;
};

/// What keeps the node from doing all its work, for people; empty: nothing.
[[nodiscard]] std::string trouble_of(const NodeStatus& status);

/// What happens if a node's wall clock is ahead of the control plane's by this much (or behind, if negative), and what
/// to do. Empty up to kClockAheadMax.
[[nodiscard]] std::string clock_trouble(DurationNs ahead_ns);

using NodeStatuses = std::map<std::string, NodeStatus>;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_NODE_STATUS_H_
