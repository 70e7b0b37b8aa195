// Who is believed, and may do what: rules for what a certificate says. TLS has verified its signature and time before.
//
// The table says which role may call which method of the gRPC services. A method that is not listed may be called by
// nobody; a test compares the list with the services' descriptors. What changes the cluster is audited (auditor.h).
#ifndef SKUA_CONTROL_SECURITY_ACCESS_H_
#define SKUA_CONTROL_SECURITY_ACCESS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/identity.h"

namespace skua::control {

/// Callers who show no certificate.
enum class Anonymous : uint8_t {
  kIfTaken,  ///< let in where a server takes peers without certificates (--security off-unsafe and accept)
  kNever,    ///< not with --security accept either: the method is about who may do what
  kOnly,     ///< served only where nobody shows a certificate (Credentials::for_joining()), and then to anybody
};

struct MethodAccess {
  std::string_view method;  ///< as in a request's path: "/skua.control.v1.Tables/CreateTable"
  Roles roles;
  bool audited = false;  ///< each call of it gets a line in the audit log
  Anonymous anonymous = Anonymous::kIfTaken;
};

/// The identity in the URI of a peer's certificate. PERMISSION_DENIED: the URI is none of Skua's, or the peer is of
/// another cluster, or has none of the roles that are `expected` (empty: any).
[[nodiscard]] absl::StatusOr<Identity> check_member(const std::string& uri, const std::string& cluster_id,
                                                    Roles expected);

/// PERMISSION_DENIED: the caller is a node other than `uuid`. A node speaks for itself only. Other roles pass: the
/// table says what they may do.
[[nodiscard]] absl::Status check_speaks_for(const Identity& caller, const std::string& uuid);

[[nodiscard]] std::span<const MethodAccess> method_access();

/// PERMISSION_DENIED: the role may not call the method, or there is no such method. The message names the roles that
/// may.
[[nodiscard]] absl::Status check_access(const Identity& caller, std::string_view method);

/// PERMISSION_DENIED: a caller without a certificate may not call the method where others show theirs, or there is no
/// such method.
[[nodiscard]] absl::Status check_anonymous(std::string_view method);

/// False also if there is no such method.
[[nodiscard]] bool is_audited(std::string_view method);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_ACCESS_H_
