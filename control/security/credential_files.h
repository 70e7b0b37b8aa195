// Where a program's credentials lie.
#ifndef SKUA_CONTROL_SECURITY_CREDENTIAL_FILES_H_
#define SKUA_CONTROL_SECURITY_CREDENTIAL_FILES_H_

#include <string>

namespace skua::control {

/// Paths of PEM files. All three, or none: then the program speaks without TLS. The files are read again when they
/// change, so certificates are renewed without a restart.
struct CredentialFiles {
  std::string certificate;  ///< the program's certificate (docs/security.md), then those that issued it, if any
  std::string key;          ///< its private key
  std::string authorities;  ///< the certificates of whom to trust; two while the authority is replaced

  [[nodiscard]] bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_CREDENTIAL_FILES_H_
