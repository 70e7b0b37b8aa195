// Reading the kernel's files: what the doctors look at. A file that is not there reads as empty.
#ifndef SKUA_KVSTORE_CTL_HOST_FILES_H_
#define SKUA_KVSTORE_CTL_HOST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace skua::kv::ctl {

std::string first_line(const std::string& path);
/// The number that the file consists of; 0 if it is none.
uint64_t number_in(const std::string& path);
/// Names in a directory, sorted; none if there is no such directory.
std::vector<std::string> names_in(const std::string& directory);
/// The last part of what a symbolic link points at: a device's driver, an interface's bridge.
std::string link_name(const std::string& path);
bool exists(const std::string& path);
/// CapEff of /proc/self/status below `root`: a bit for each capability that this program has.
uint64_t capabilities(const std::string& root);

inline constexpr int kCapIpcLock = 14;

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_HOST_FILES_H_
