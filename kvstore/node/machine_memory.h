// How much memory this machine, or the container that the process runs in, has for a node.
#ifndef SKUA_KVSTORE_NODE_MACHINE_MEMORY_H_
#define SKUA_KVSTORE_NODE_MACHINE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace skua::kv {

/// Bytes; empty: there is no such limit, or it is not known.
struct MachineMemory {
  std::optional<uint64_t> physical{};
  std::optional<uint64_t> cgroup{};         ///< the least of the process's cgroup and those above it
  std::optional<uint64_t> address_space{};  ///< ulimit -v
};

/// Of this process.
[[nodiscard]] MachineMemory machine_memory();

/// What the process's own cgroup and those above it allow. `membership` is /proc/self/cgroup's text; `root` where
/// cgroups are mounted. Versions 1 and 2.
[[nodiscard]] std::optional<uint64_t> cgroup_memory(std::string_view membership, const std::string& root);

/// INVALID_ARGUMENT says which limit a node of `bytes` (--memory) does not fit into, and how much there is. Pure.
[[nodiscard]] absl::Status check_fits(uint64_t bytes, const MachineMemory& machine);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_MACHINE_MEMORY_H_
