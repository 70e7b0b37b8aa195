// Which role may call which method of the gRPC services. A method that is not listed may be called by nobody; a test
// compares the list with the services' descriptors. What changes the cluster is audited (auditor.h).
#ifndef SKUA_CONTROL_SECURITY_ACCESS_H_
#define SKUA_CONTROL_SECURITY_ACCESS_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "control/security/identity.h"

namespace skua::control {

struct MethodAccess {
  std::string_view method;  ///< as in a request's path: "/skua.control.v1.Tables/CreateTable"
  Roles roles;
  bool audited = false;  ///< each call of it gets a line in the audit log
  /// Served only where nobody shows a certificate (Credentials::for_joining()), and then to anybody.
  bool for_strangers = false;
};

[[nodiscard]] std::span<const MethodAccess> method_access();

/// PERMISSION_DENIED: the role may not call the method, or there is no such method. The message names the roles that
/// may.
[[nodiscard]] absl::Status check_access(const Identity& caller, std::string_view method);

/// False also if there is no such method.
[[nodiscard]] bool is_audited(std::string_view method);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_ACCESS_H_
