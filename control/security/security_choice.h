// What a user says about peers and programs without certificates.
#ifndef SKUA_CONTROL_SECURITY_SECURITY_CHOICE_H_
#define SKUA_CONTROL_SECURITY_SECURITY_CHOICE_H_

#include <cstdint>

namespace skua::control {

/// The values of --security.
enum class SecurityChoice : uint8_t {
  kAuto,       ///< with certificates: they are required of all. Without: only this machine gets in (exposure.h)
  kOffUnsafe,  ///< without certificates, and whoever reaches the program gets in
  kAccept,     ///< with certificates, and peers without are taken and spoken to: while a cluster gets its certificates
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_SECURITY_CHOICE_H_
