#include "kvstore/node/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kvstore/node/size_text.h"

namespace skua::kv {
namespace {

/// Addresses that a node needs beside its memory: stacks, malloc's arenas and file mappings take address space but
/// little memory.
constexpr uint64_t kAddressesBeside = uint64_t{1} << 30;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::optional<uint64_t> cgroup_memory(std::string_view membership, const std::string& root) {
  std::optional<uint64_t> least;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(membership.data(), membership.size()), '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool v2 = parts[0] == "0" && parts[1].empty();
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (!v2 && std::ranges::find(controllers, "memory") == controllers.end()) continue;
    const std::string base = v2 ? root : root + "/memory";
    const char* const name = v2 ? "/memory.max" : "/memory.limit_in_bytes";
    std::string path = parts[2] == "/" ? std::string() : parts[2];
    while (true) {
      uint64_t limit = 0;  // the file has no number (such as "max"), or does not exist: no limit
      const bool is_limited = absl::SimpleAtoi(text_of(absl::StrCat(base, path, name)), &limit);
      if (is_limited) least = std::min(least.value_or(limit), limit);
      if (path.empty()) break;
      path.resize(std::min(path.rfind('/'), path.size() - 1));
    }
  }
  return least;
}

MachineMemory machine_memory() {
  MachineMemory out;
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) out.physical = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
  out.cgroup = cgroup_memory(text_of("/proc/self/cgroup"), "/sys/fs/cgroup");
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) out.address_space = limit.rlim_cur;
  return out;
}

absl::Status check_fits(uint64_t bytes, const MachineMemory& machine) {
  const auto too_much = [&](const std::string& limit) {
    return absl::InvalidArgumentError(absl::StrCat("--memory is ", size_text(bytes), ", but ", limit));
  };
  if (machine.physical && bytes > *machine.physical) {
    return too_much(absl::StrCat("this machine has ", size_text(*machine.physical), ": give less"));
  }
  if (machine.cgroup && bytes > *machine.cgroup) {
    return too_much(absl::StrCat("the container or cgroup that this process runs in may have ",
                                 size_text(*machine.cgroup), ": give less, or let it have more"));
  }
  if (!machine.address_space) return absl::OkStatus();
  const uint64_t addresses = *machine.address_space;
  if (addresses < kAddressesBeside || bytes > addresses - kAddressesBeside) {
    return too_much(
        absl::StrCat("this process may have ", size_text(addresses), " of addresses (ulimit -v), of which ",
                     size_text(kAddressesBeside),
                     " are for code, stacks and the like: raise that limit (ulimit -v unlimited), or give less"));
  }
  return absl::OkStatus();
}

absl::Status check_file_size_limit() {
  // Size of a table file, or of a log file for the largest records. The kernel kills a process that writes beyond the
  // limit.
  constexpr uint64_t kFileBytes = uint64_t{1} << 30;
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kFileBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("files may have ", size_text(limit.rlim_cur),
                                                 " here (ulimit -f), and a node's become larger: raise that limit "
                                                 "(ulimit -f unlimited; systemd: LimitFSIZE=infinity)"));
}

}  // namespace skua::kv
