#include "ycsb/driver/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string_view>

#include "ycsb/core/text.h"

#ifndef SKUA_VERSION
#define SKUA_VERSION "unknown"
#endif
#ifndef SKUA_BUILD_TYPE
#define SKUA_BUILD_TYPE "unknown"
#endif

namespace skua::ycsb {
namespace {

/// The value of the first "name : value" line in a /proc file.
std::string proc_value(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view view = line;
    if (trim_text(view.substr(0, colon)) == name) return std::string(trim_text(view.substr(colon + 1)));
  }
  return "unknown";
}

}  // namespace

std::string version() {
  return SKUA_VERSION;
}

Facts environment_facts() {
  utsname system = {};
  uname(&system);
#ifdef NDEBUG
  constexpr std::string_view kAsserts = "off";
#else
  constexpr std::string_view kAsserts = "on";
#endif
  return {
      {"Driver", "skua-ycsb " + version()},
      {"Build type", SKUA_BUILD_TYPE},
      {"Asserts", std::string(kAsserts)},
      {"Compiler", __VERSION__},
      {"CPU", proc_value("/proc/cpuinfo", "model name")},
      {"CPUs online", std::to_string(sysconf(_SC_NPROCESSORS_ONLN))},
      {"Memory", proc_value("/proc/meminfo", "MemTotal")},
      {"Kernel", concat(system.sysname, " ", system.release, " ", system.machine)},
  };
}

}  // namespace skua::ycsb
