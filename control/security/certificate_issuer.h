// CertificateIssuer: the certificate service's pen. The control plane issues certificates when it is started with the
// authority's key (skua-control --authority DIR).
//
//   who                       gets                                how
//   an administrator          a join token for an identity        Certificates.CreateJoinToken, mutual TLS
//   who has the token         one certificate of that identity    Joining.Join, on a port of its own, without a
//                                                                 certificate
//   who has a certificate     another one of the same identity    Certificates.Renew, mutual TLS
//
// The authority itself signs; there is no intermediate. Its key is in the memory of the control plane that leads (each
// of several needs it) and in DIR, and nowhere else: no message has it. Private keys of members are made where they are
// used, and only the public ones travel. Certificates of the role control are issued where the authority is
// (skuactl cert issue): the service gives none.
//
// Joining. The joiner does not know the authority yet; its token has the hash of the authority's certificate. So it
// asks for that certificate first, believing nobody, compares, and then connects anew and believes what the authority
// has signed for the role control only. Only then it says the secret. Strangers have a port of their own, and a server
// whose only service is Joining: the other port goes on taking nobody without a certificate, and messages, calls,
// connections and memory of strangers have bounds of their own there (gRPC 1.51 bounds messages by server, not by
// method).
//
// Life. A certificate lives 30 days and is renewed at half of that, so a cluster whose control plane is away goes on
// for two weeks. A shorter life would shut out nobody: whoever stole a key can renew its certificate just as its owner
// can, and to shut somebody out there is revocation, which works by identity, for all certificates at once. Renewal
// keeps the key, so that one file changes, in one step.
//
// Who is believed by whom. TLS lets in whoever has a certificate of any authority in --ca: two while one is replaced, or
// another PKI's. That is no reason to give a certificate of this authority: else whoever stole another one's key makes
// himself a certificate with it, has that renewed, and is still there when the other authority is believed no longer.
// So certificates are renewed, and tokens are made, for those only whose own certificate is of this authority, or of one
// that it replaces by the operator's word (--replaced-authority), for as long as that is given.
//
// What a thief gets:
//   a token, unused           that one identity, until the token expires or its owner uses it first; the
//                             owner's attempt then fails, and tells so. Revoke the identity
//   a token, used             nothing: it is good for the key that used it
//   a node's certificate      what that node may do, and renewals of it, until the node's identity is revoked.
//                             No tokens
//   an administrator's        tokens for any identity but the role control. Revoke it, and look into the audit log for
//                             the tokens that it made
#ifndef SKUA_CONTROL_SECURITY_CERTIFICATE_ISSUER_H_
#define SKUA_CONTROL_SECURITY_CERTIFICATE_ISSUER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/certificates.h"
#include "control/security/credentials.h"
#include "control/security/identity.h"

namespace skua::control {

inline constexpr WallSeconds kCertificateLifeS = 30 * 86'400;

/// Thread: any.
class CertificateIssuer {
 public:
  /// `own`: the control plane's credentials. FAILED_PRECONDITION, INVALID_ARGUMENT: in one line, what is wrong with the
  /// authority, or why nobody would believe what it signs, and what to do.
  /// `replaced`: certificates of the authorities that this one replaces, PEM; empty: none.
  static absl::StatusOr<std::shared_ptr<const CertificateIssuer>> make(CertificateAndKey authority, WallSeconds life_s,
                                                                       const Credentials& own, WallSeconds now,
                                                                       std::string_view replaced = {});

  CertificateIssuer(CertificateAndKey authority, const CertificateInfo& info, WallSeconds life_s,
                    std::string_view replaced = {});
  /// Wipes the key.
  ~CertificateIssuer();
  CertificateIssuer(const CertificateIssuer&) = delete;
  CertificateIssuer& operator=(const CertificateIssuer&) = delete;

  /// A certificate for the key of `request` (certificates.h), as PEM text. It ends with the authority, if that is
  /// earlier. `hosts`: names and addresses that stand in it. `life_s_min`: it is valid for so long, if that is longer than
  /// others. INVALID_ARGUMENT: the request is none, the identity is of
  /// another cluster, or a host is none. FAILED_PRECONDITION: the authority has expired.
  [[nodiscard]] absl::StatusOr<std::string> issue(std::string_view request, const Identity& identity, WallSeconds now,
                                                  const std::vector<std::string>& hosts = {},
                                                  WallSeconds life_s_min = 0) const;

  /// OK: the certificate that a caller showed (`chain`, PEM; TLS has believed it) is of this authority or of one that
  /// this one replaces. Otherwise PERMISSION_DENIED: it says nothing of who may have a certificate of this authority.
  [[nodiscard]] absl::Status check_own(std::string_view chain, WallSeconds now) const;

  /// For people: the authority has expired, or expires before a certificate that is issued now would; else empty.
  [[nodiscard]] std::string trouble(WallSeconds now) const;

  /// The authority's certificate alone, as PEM text.
  [[nodiscard]] const std::string& certificate() const { return authority_.certificate; }
  /// Its SHA-256, as it stands in tokens.
  [[nodiscard]] const std::string& hash() const { return hash_; }

 private:
  CertificateAndKey authority_;
  const std::string hash_;
  const WallSeconds ends_s_;  // the authority
  const WallSeconds life_s_;
  const std::string signers_;  // certificates of this authority and of those that it replaces, PEM
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_CERTIFICATE_ISSUER_H_
