// What a figure depends on besides the store: machine and build, for the report's environment
// block.
#ifndef SKUA_YCSB_DRIVER_ENVIRONMENT_H_
#define SKUA_YCSB_DRIVER_ENVIRONMENT_H_

#include <string>
#include <utility>
#include <vector>

namespace skua::ycsb {

using Facts = std::vector<std::pair<std::string, std::string>>;

/// CPU, memory, kernel, compiler, build type, version.
[[nodiscard]] Facts environment_facts();

/// The driver's version, "0.1.0".
[[nodiscard]] std::string version();

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_ENVIRONMENT_H_
