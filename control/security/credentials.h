// Credentials: what a program shows its peers over gRPC, and whom it believes. Mutual TLS: both sides have a
// certificate of the cluster's authority.
//
//     caller                                             server
//       | -- TLS: certificate, authorities -------------> |  signed by an authority, of this cluster
//       | <------------------------------- certificate -- |
//       |  signed, of this cluster, of a role that        |
//       |  the caller expects there                       |
//       | -- call of a method --------------------------> |  is the caller revoked (deny_list.h)?
//                                                         |  may the caller's role call it (access.h)?
//                                                         |  the handler: peer_identity()
//
// The certificate's and the authorities' files are watched: what is in them counts for connections that are made later.
#ifndef SKUA_CONTROL_SECURITY_CREDENTIALS_H_
#define SKUA_CONTROL_SECURITY_CREDENTIALS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/certificates.h"
#include "control/security/credential_files.h"
#include "control/security/deny_list.h"
#include "control/security/identity.h"
#include "control/security/security_choice.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
namespace experimental {
class FileWatcherCertificateProvider;
}
}  // namespace grpc

namespace skua::control {

class Auditor;
class Credentials;
/// Null: without TLS.
using CredentialsPtr = std::shared_ptr<const Credentials>;

/// Thread: any.
class Credentials {
 public:
  /// Null if `files` names none. FAILED_PRECONDITION, INVALID_ARGUMENT: in one line, which file cannot be used and what
  /// to do. `roles`: those that the program's certificate may have; empty: any.
  /// `choice`: kAccept for a program that takes and speaks to peers without certificates, too.
  static absl::StatusOr<CredentialsPtr> load(const CredentialFiles& files, Roles roles = {},
                                             SecurityChoice choice = SecurityChoice::kAuto);

  Credentials(CredentialFiles files, CertificateInfo own, SecurityChoice choice = SecurityChoice::kAuto);
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  /// Servers take connections without TLS, too; callers try TLS, and then without. Peers without are anonymous.
  [[nodiscard]] bool takes_plaintext() const { return choice_ == SecurityChoice::kAccept; }

  /// Of the certificate as it was when the program started.
  [[nodiscard]] const Identity& self() const { return *own_.identity; }
  [[nodiscard]] const CertificateInfo& certificate() const { return own_; }

  /// Text for people if the certificate in the file, perhaps a newer one than certificate(), has expired or soon will,
  /// or cannot be read. Empty: all is well. Looks at the file once in ten seconds.
  [[nodiscard]] std::string trouble(WallSeconds now) const;
  /// When the certificate in the file expires. Nothing: it cannot be read. Looks at the file once in ten seconds.
  [[nodiscard]] std::optional<WallSeconds> expires_s(WallSeconds now) const;

  /// Who is revoked. Starts empty, whoever follows the shard map keeps it up to date.
  [[nodiscard]] DenyList& deny_list() const { return *deny_list_; }

  /// For channels to servers of one of these roles.
  [[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> for_channel(Roles servers) const;
  /// For servers: calls of callers that are revoked, and those that access.h does not allow, end with PERMISSION_DENIED
  /// and do not reach a handler. `auditor` (null: nobody) hears of them, and of certificates that are refused.
  [[nodiscard]] std::shared_ptr<grpc::ServerCredentials> for_server(std::shared_ptr<Auditor> auditor = nullptr) const;
  /// For the port where those are served who have no certificate yet, and nobody else.
  [[nodiscard]] std::shared_ptr<grpc::ServerCredentials> for_joining() const;

  /// Whom this program believes, as PEM text: what is in the file now. FAILED_PRECONDITION: it cannot be read.
  [[nodiscard]] absl::StatusOr<std::string> authorities() const;
  /// FAILED_PRECONDITION: this program's certificate is not signed by `authority` (PEM).
  [[nodiscard]] absl::Status check_signed_by(std::string_view authority, WallSeconds now) const;

 private:
  const CredentialFiles files_;
  const CertificateInfo own_;
  const SecurityChoice choice_;
  const std::shared_ptr<grpc::experimental::FileWatcherCertificateProvider> provider_;
  const std::shared_ptr<DenyList> deny_list_;  // gRPC's servers and channels have it, too
  /// What the certificate's file said when it was last looked at.
  struct Look {
    WallSeconds at_s = 0;
    std::optional<WallSeconds> expires_s;
    std::string trouble;
  };
  [[nodiscard]] Look look(WallSeconds now) const;

  mutable std::mutex mutex_;
  mutable Look look_;  // protected by mutex_
};

/// The same for programs that may be without TLS: insecure credentials if `credentials` is null.
[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const CredentialsPtr& credentials,
                                                                            Roles servers);
[[nodiscard]] std::shared_ptr<grpc::ServerCredentials> server_credentials(const CredentialsPtr& credentials,
                                                                          std::shared_ptr<Auditor> auditor = nullptr);

/// For the channel of somebody who has no certificate yet, to a control plane of the cluster `cluster_id` that
/// `authority` (one certificate, PEM) has signed. With an empty `authority` anybody is taken for one: to ask what
/// nobody else answers right (JoinToken).
[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> joining_channel_credentials(const std::string& authority,
                                                                                    const std::string& cluster_id);

/// True of credentials that take peers without certificates, too.
[[nodiscard]] bool takes_plaintext(const CredentialsPtr& credentials);

/// Who is at the other end of a call; nothing if the connection has no TLS.
[[nodiscard]] std::optional<Identity> peer_identity(const grpc::AuthContext& context);

/// What the certificate says that the other end showed when the connection was made. UNAUTHENTICATED: it showed none.
[[nodiscard]] absl::StatusOr<CertificateInfo> peer_certificate(const grpc::AuthContext& context);

/// The same certificate and those that the other end sent with it, as PEM text; empty: none.
[[nodiscard]] std::string peer_chain(const grpc::AuthContext& context);

/// Its Identity::principal(), or "".
[[nodiscard]] std::string peer_principal(const grpc::AuthContext& context);

/// check_anonymous() of whoever calls `method` without a certificate, where `credentials` take such callers and know
/// others by name. OK for all others: TLS has judged them before.
[[nodiscard]] absl::Status check_named(const CredentialsPtr& credentials, const grpc::AuthContext& context,
                                       std::string_view method);

/// check_speaks_for() of who is at the other end of a call.
[[nodiscard]] absl::Status check_node_is(const grpc::AuthContext& context, const std::string& uuid);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_CREDENTIALS_H_
