// Certificates: makes the authority of a cluster, issues certificates with it, and reads certificates. ECDSA over
// P-256; by OpenSSL.
//
//     authority (made once, valid for years; the key stays with whoever issues)
//        |-- control, node     may serve and call: their hosts stand in the certificate, too
//        |-- admin, monitor, client     may call only
//        +-- servers of others' clients: no members of the cluster
//
// Which member a certificate is for is its one URI of identity.h. All functions are pure but for random numbers.
// Thread: any.
#ifndef SKUA_CONTROL_SECURITY_CERTIFICATES_H_
#define SKUA_CONTROL_SECURITY_CERTIFICATES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "control/security/identity.h"

namespace skua::control {

/// Seconds since 1970.
using WallSeconds = int64_t;

/// A certificate and its private key as PEM text. The key is a secret.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

struct ValidTime {
  WallSeconds from = 0;
  WallSeconds until = 0;
};

/// The certificate and key of a new authority. INVALID_ARGUMENT: the cluster id is no UUID.
[[nodiscard]] absl::StatusOr<CertificateAndKey> make_authority(const std::string& cluster_id, ValidTime valid);

/// A certificate for `identity`, signed by `authority`. `hosts`: names and IP addresses under which a server is
/// reached. The certificate never outlives the authority. INVALID_ARGUMENT: the identity is none, or is of another
/// cluster than the authority; the authority is none, or its key is another's.
[[nodiscard]] absl::StatusOr<CertificateAndKey> issue_certificate(const CertificateAndKey& authority,
                                                                  const Identity& identity,
                                                                  const std::vector<std::string>& hosts,
                                                                  ValidTime valid);

/// A certificate for a server whose clients are no programs of the cluster, such as the gateway's. It names the hosts,
/// and no identity, so it opens nothing in the cluster. `name`: one of an identity. Otherwise as issue_certificate();
/// INVALID_ARGUMENT also without hosts.
[[nodiscard]] absl::StatusOr<CertificateAndKey> issue_server_certificate(const CertificateAndKey& authority,
                                                                         const std::string& name,
                                                                         const std::vector<std::string>& hosts,
                                                                         ValidTime valid);

/// A new private key, as PEM text.
[[nodiscard]] absl::StatusOr<std::string> make_private_key();

/// What a program that keeps its key to itself sends to have a certificate made: its public key, and the proof that it
/// has the private one (PKCS #10, DER). `key`: PEM text. INVALID_ARGUMENT: it is none.
[[nodiscard]] absl::StatusOr<std::string> make_certificate_request(std::string_view key);

/// Bytes of a request for a certificate.
inline constexpr size_t kCertificateRequestMax = 4096;

/// SHA-256 of the public key of a request for a certificate, hexadecimal. INVALID_ARGUMENT: these bytes are no request,
/// its key is not of P-256, or whoever made it does not have the private key. Names in a request count for nothing.
[[nodiscard]] absl::StatusOr<std::string> inspect_certificate_request(std::string_view request);

/// As issue_certificate(), for the key of a request. Errors of inspect_certificate_request(), too.
[[nodiscard]] absl::StatusOr<std::string> sign_certificate_request(const CertificateAndKey& authority,
                                                                   std::string_view request, const Identity& identity,
                                                                   ValidTime valid,
                                                                   const std::vector<std::string>& hosts = {});

struct CertificateInfo {
  /// Nothing for an authority.
  std::optional<Identity> identity;
  std::string common_name;
  std::string cluster_id;
  bool is_authority = false;
  ValidTime valid;
  /// Hexadecimal, as deny lists name certificates.
  std::string serial;
  /// SHA-256 of the certificate, hexadecimal.
  std::string fingerprint;
  /// SHA-256 of its public key, hexadecimal, as inspect_certificate_request() says it.
  std::string key_hash;
  std::vector<std::string> hosts;
};

/// What the first certificate of the PEM text says; nothing is verified. INVALID_ARGUMENT: there is none, or none of
/// Skua's.
[[nodiscard]] absl::StatusOr<CertificateInfo> inspect_certificate(std::string_view pem);

/// The same of any certificate. If it is none of Skua's, it has neither an identity nor a cluster's id.
[[nodiscard]] absl::StatusOr<CertificateInfo> inspect_any_certificate(std::string_view pem);

/// The first certificate of the text alone, as PEM. INVALID_ARGUMENT: there is none.
[[nodiscard]] absl::StatusOr<std::string> first_certificate(std::string_view pem);

/// Whether a program can use these at `now`. FAILED_PRECONDITION says in one line what is wrong and what to do: the key
/// is another certificate's, the certificate has expired or is not valid yet, none of the authorities has signed it.
[[nodiscard]] absl::Status check_credentials(const CertificateAndKey& own, std::string_view authorities,
                                             WallSeconds now);

/// OK: one of `authorities` has signed the first certificate of `chain` (PEM texts), by those that follow it there if
/// need be, and it is good at `now`. Otherwise FAILED_PRECONDITION.
[[nodiscard]] absl::Status check_signed_by(std::string_view chain, std::string_view authorities, WallSeconds now);

/// Text for people about a certificate that has expired or soon will: in its last week, or in the last eighth of its
/// time if that is shorter. Empty: it is valid for longer.
[[nodiscard]] std::string expiry_trouble(const CertificateInfo& info, WallSeconds now);

/// When half of a certificate's time is over: time for another one.
[[nodiscard]] WallSeconds renewal_time(const CertificateInfo& info);

/// INVALID_ARGUMENT: the certificate cannot be renewed, because it has a name or an address that no authority of ours
/// signs: another PKI's, or one that was signed by hand. Says which, and what to do.
[[nodiscard]] absl::Status check_renewable(const CertificateInfo& info);

/// "2026-11-24 09:30 UTC".
[[nodiscard]] std::string wall_time_text(WallSeconds at);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_CERTIFICATES_H_
