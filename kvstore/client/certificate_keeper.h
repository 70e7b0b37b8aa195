// CertificateKeeper: renews the certificate of a program that runs for long, by the control plane, at half of its time,
// as nodes renew theirs. For certificates that came from the control plane (skuactl cert join). Clients of the same
// process and others look at the files once a second, and use what is there for new connections.
#ifndef SKUA_KVSTORE_CLIENT_CERTIFICATE_KEEPER_H_
#define SKUA_KVSTORE_CLIENT_CERTIFICATE_KEEPER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/security/credential_files.h"

namespace skua::kv {

/// One for each certificate: two of them would have it renewed twice. Thread: any.
class CertificateKeeper {
 public:
  /// Hears that the certificate was renewed, or why not (`warning`; the same reason again only after an hour). On a
  /// thread of the keeper's own.
  using LogFn = std::function<void(bool warning, const std::string& line)>;

  /// Starts a thread, which ends with the keeper. `files` are as ClientOptions::credentials; the certificate's and the
  /// authorities' file are replaced, and the directories that they are in must be open for that. `log` may be empty.
  /// INVALID_ARGUMENT: `files` names none. Others: they cannot be used, as in AsyncClient::create().
  static absl::StatusOr<std::unique_ptr<CertificateKeeper>> start(const std::string& control_address,
                                                                  const control::CredentialFiles& files, LogFn log);
  /// Waits for an attempt that is under way: seconds at most.
  ~CertificateKeeper();
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

 private:
  class Impl;
  explicit CertificateKeeper(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CERTIFICATE_KEEPER_H_
