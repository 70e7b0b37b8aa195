// What a program must find when it starts.
#ifndef SKUA_APP_PROCESS_H_
#define SKUA_APP_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace skua::app {

/// What a program opens before it does any work: libraries, threads' descriptors, a few connections.
inline constexpr uint64_t kFilesOfClient = 64;
/// A server: RocksDB's files and connections as well.
inline constexpr uint64_t kFilesOfServer = 256;

/// First in main, before anything is opened. A standard stream that is closed gets a descriptor on which reading and
/// writing fail, so that no file of ours is taken for it. Raises the soft limit of open files to the hard one. Ends the
/// program with kExitUsage and one line if fewer than `files` may be open: libraries abort at that limit, without a
/// word that helps.
void check_process(std::string_view program, uint64_t files);

/// How many files this process may have open.
[[nodiscard]] uint64_t open_files_max();

/// Makes so many threads for a moment. INVALID_ARGUMENT: so many are not to be had (ulimit -u, a container's limit),
/// which libraries would find out later and abort. `who` needs them, such as "a node"; `or_else`, such as ", or give
/// fewer --workers", ends the message.
[[nodiscard]] absl::Status check_threads(std::string_view who, size_t count, std::string_view or_else = "");

}  // namespace skua::app

#endif  // SKUA_APP_PROCESS_H_
