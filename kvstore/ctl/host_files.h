// Reads the kernel's files for the doctors. A file that does not exist reads as empty.
#ifndef SKUA_KVSTORE_CTL_HOST_FILES_H_
#define SKUA_KVSTORE_CTL_HOST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace skua::kv::ctl {

std::string first_line(const std::string& path);
/// The number in the file's first line. 0 if the line is not a number.
uint64_t number_in(const std::string& path);
/// The names in a directory, sorted. None if there is no such directory.
std::vector<std::string> names_in(const std::string& directory);
/// The last part of a symbolic link's target, for example a device's driver or an interface's bridge. Empty if there is
/// no such link.
std::string link_name(const std::string& path);
/// True also for a symbolic link whose target does not exist.
bool exists(const std::string& path);
/// CapEff of /proc/self/status below `root`: one bit for each capability that this program has.
uint64_t capabilities(const std::string& root);

/// RLIMIT_MEMLOCK of this program, in bytes; UINT64_MAX: unlimited.
uint64_t locked_memory_limit();

/// Bit of CAP_IPC_LOCK.
inline constexpr int kCapIpcLock = 14;

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_HOST_FILES_H_
