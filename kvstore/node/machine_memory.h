// What a node may use: limits of the machine, of the container (cgroup) and of the process on memory, and the process's
// limit on the size of files.
#ifndef SKUA_KVSTORE_NODE_MACHINE_MEMORY_H_
#define SKUA_KVSTORE_NODE_MACHINE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace skua::kv {

/// Bytes. Empty: the limit does not exist or is unknown.
struct MachineMemory {
  std::optional<uint64_t> physical{};
  std::optional<uint64_t> cgroup{};         ///< the smallest limit of the process's cgroup and its ancestors
  std::optional<uint64_t> address_space{};  ///< ulimit -v
};

/// The limits that hold for this process.
[[nodiscard]] MachineMemory machine_memory();

/// The smallest memory limit of the process's cgroup and its ancestors. `membership` is the text of /proc/self/cgroup.
/// `root` is where cgroups are mounted. Reads cgroup versions 1 and 2.
[[nodiscard]] std::optional<uint64_t> cgroup_memory(std::string_view membership, const std::string& root);

/// INVALID_ARGUMENT: a node of `bytes` (--memory) exceeds a limit. The message names the limit and its value. Pure.
[[nodiscard]] absl::Status check_fits(uint64_t bytes, const MachineMemory& machine);

/// Otherwise the kernel would kill the running node when it reaches the limit.
/// INVALID_ARGUMENT: the limit on file sizes (ulimit -f) is below the size that files of a node reach.
[[nodiscard]] absl::Status check_file_size_limit();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_MACHINE_MEMORY_H_
