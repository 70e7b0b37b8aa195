#include "kvstore/ctl/host_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace skua::kv::ctl {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

uint64_t number_in(const std::string& path) {
  uint64_t value = 0;
  static_cast<void>(absl::SimpleAtoi(first_line(path), &value));
  return value;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(directory, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    out.push_back(it->path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string link_name(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? "" : target.filename().string();
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

uint64_t capabilities(const std::string& root) {
  std::ifstream status(root + "/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (absl::StartsWith(line, "CapEff:")) return std::strtoull(line.c_str() + 7, nullptr, 16);
  }
  return 0;
}

uint64_t locked_memory_limit() {
  rlimit locked{};
  const bool limited = getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY;
  return limited ? locked.rlim_cur : UINT64_MAX;
}

}  // namespace skua::kv::ctl
