// What is known of a node beyond what is stored: whether it was heard of lately.
#ifndef SKUA_CONTROL_CORE_NODE_STATUS_H_
#define SKUA_CONTROL_CORE_NODE_STATUS_H_

#include <cstdint>
#include <map>
#include <string>

#include "rpc/base/clock.h"

namespace skua::control {

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
};

using NodeStatuses = std::map<std::string, NodeStatus>;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_NODE_STATUS_H_
