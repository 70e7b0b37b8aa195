// Exposure: may a server start as it is configured, or would it let in whoever reaches it?
//
//                        all entrances on this machine     one can be reached from elsewhere
//    certificates        starts                            starts
//    none                starts                            refused, unless a person says --security off-unsafe
//
// With --security accept, a program with certificates takes peers without, too: while a running cluster gets its
// certificates, one program after the other.
//
// An entrance is where connections or packets come in: a listening address, or a device that packets are taken from.
// Pure.
#ifndef SKUA_CONTROL_SECURITY_EXPOSURE_H_
#define SKUA_CONTROL_SECURITY_EXPOSURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "control/core/program_security.h"
#include "control/security/security_choice.h"

namespace skua::control {

struct Entrance {
  /// The option and its value, as a user wrote it: "--grpc-address 0.0.0.0:7410".
  std::string option;
  /// Only programs of this machine get there.
  bool is_local = false;
};

/// An IP address of the loopback interface, or "localhost". Another name is none: what it stands for may change.
[[nodiscard]] bool is_loopback(std::string_view host);

/// Whom the program lets in. INVALID_ARGUMENT: it must not start so; the message names the entrance and what to do.
/// `role`: of the certificate that the program would need, "node" or "control NAME".
[[nodiscard]] absl::StatusOr<Admission> judge_exposure(SecurityChoice choice, bool has_certificates,
                                                       const std::vector<Entrance>& entrances, const std::string& role);

/// A warning for the log of a program that lets everybody in: through which entrances, and what to do. Empty: it does
/// not, or all entrances are on this machine.
[[nodiscard]] std::string unsafe_warning(Admission admission, const std::vector<Entrance>& entrances,
                                         const std::string& role);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_EXPOSURE_H_
