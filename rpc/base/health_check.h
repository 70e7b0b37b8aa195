// One condition of a program's health, as probes and people read it.
#ifndef SKUA_RPC_BASE_HEALTH_CHECK_H_
#define SKUA_RPC_BASE_HEALTH_CHECK_H_

#include <string>

namespace skua {

struct HealthCheck {
  /// Lower case with dashes: "map-applied".
  std::string name{};
  bool passes = false;
  /// One line: what was seen. If the check fails, also why.
  std::string detail{};
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_HEALTH_CHECK_H_
