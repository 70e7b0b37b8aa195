// The first certificate of a program, by a join token (control/security/certificate_issuer.h), and the next ones.
// Blocking.
#ifndef SKUA_CONTROL_CLIENT_JOIN_CLIENT_H_
#define SKUA_CONTROL_CLIENT_JOIN_CLIENT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/client/admin_client.h"
#include "control/security/certificates.h"
#include "control/security/credential_files.h"
#include "rpc/base/clock.h"

namespace skua::control {

struct JoinOptions {
  /// The control plane: "host:port" or several with commas between them. Joined is at the same hosts, on the token's
  /// port.
  std::string control_address;
  std::string token;  ///< the word
  /// What the program is, and its name if it has one already; empty: whatever the token is for.
  std::string role{};
  std::string name{};
  /// Of the cluster to join; empty: the token's.
  std::string cluster_id{};
  DurationNs timeout_ns = 10 * kSecond;
};

/// Makes the key if there is none, joins, and writes certificate and authorities. May be repeated: the same key gets
/// its certificate again until the token expires. INVALID_ARGUMENT: not a token. PERMISSION_DENIED: the token is not
/// good. FAILED_PRECONDITION: it is for another role, name or cluster, or who answers is not the control plane that the
/// token is of. UNAVAILABLE: nobody answers. Others name a file.
absl::StatusOr<CertificateInfo> join(const JoinOptions& options, const CredentialFiles& files);

/// Has another certificate issued for the key and the identity of `files`, and replaces the certificate. `authorities`:
/// also the authorities' file, by those that the control plane believes. Over TLS only, whatever the credentials of
/// `admin` take. FAILED_PRECONDITION: a file that would be replaced holds a private key, and nothing was asked; or the
/// control plane does not believe the authority of the present certificate any more, or issues by one that `files` do
/// not have. UNAVAILABLE: that one was added to the authorities' file, and the next attempt takes its certificate.
/// ABORTED: somebody changed one of the files meanwhile, and they were left as they are.
/// Other errors of the control plane, or they name a file.
absl::StatusOr<CertificateInfo> renew(const CredentialFiles& files, bool authorities, AdminClient& admin);

/// Answers a request for a certificate (certificates.h) with one, and says whom to believe.
using CertificateSource = std::function<absl::StatusOr<IssuedText>(const std::string& request)>;

/// The same from another place than the control plane, with that one's errors.
absl::StatusOr<CertificateInfo> renew_from(const CredentialFiles& files, bool authorities,
                                           const CertificateSource& source);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_JOIN_CLIENT_H_
