// Whom a program lets in, as nodes report it to the control plane and people see it in the status.
#ifndef SKUA_CONTROL_CORE_PROGRAM_SECURITY_H_
#define SKUA_CONTROL_CORE_PROGRAM_SECURITY_H_

#include <cstdint>
#include <string>

namespace skua::control {

enum class Admission : uint8_t {
  kUnknown,       ///< nothing was heard of it, or its build does not say
  kLoopback,      ///< without certificates: whoever reaches it, and that is this machine only
  kUnsafe,        ///< without certificates: whoever reaches it, from elsewhere too, because a person chose that
  kCertificates,  ///< those with a certificate of the cluster
  kAccept,        ///< those with a certificate, and, while the cluster gets its certificates, whoever else reaches it
};

/// How packets of sessions are protected.
enum class PacketSafety : uint8_t { kUnknown, kOff, kAuthenticate, kEncrypt };

struct ProgramSecurity {
  Admission admission = Admission::kUnknown;
  /// kUnknown for a program that has no sessions.
  PacketSafety packets = PacketSafety::kUnknown;

  friend bool operator==(const ProgramSecurity&, const ProgramSecurity&) = default;
};

/// For people: "certificates, packets encrypt", "off, loopback only", "OFF-UNSAFE",
/// "ACCEPT: certificates, and who has none", "unknown".
[[nodiscard]] std::string describe(const ProgramSecurity& security);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_PROGRAM_SECURITY_H_
