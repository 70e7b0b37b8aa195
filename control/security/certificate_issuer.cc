#include "control/security/certificate_issuer.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

absl::Status expired(WallSeconds at) {
  return absl::FailedPreconditionError(
      absl::StrCat("the authority expired at ", wall_time_text(at), ": make another one (docs/security.md)"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CertificateIssuer>> CertificateIssuer::make(CertificateAndKey authority,
                                                                                 WallSeconds life_s,
                                                                                 const Credentials& own,
                                                                                 WallSeconds now,
                                                                                 std::string_view replaced) {
  absl::StatusOr<std::string> alone = first_certificate(authority.certificate);
  if (!alone.ok()) return alone.status();
  const absl::StatusOr<CertificateInfo> info = inspect_certificate(*alone);
  if (!info.ok()) return info.status();
  if (now >= info->valid.until) return expired(info->valid.until);
  authority.certificate = *std::move(alone);
  auto made = std::make_shared<const CertificateIssuer>(std::move(authority), *info, life_s, replaced);
  // Those who join believe what this authority has signed, and those who are there what is in --ca.
  if (absl::Status signed_by = own.check_signed_by(made->certificate(), now); !signed_by.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the control plane's own certificate is not of this authority (", signed_by.message(),
                     "): issue one for it, skuactl cert issue control NAME --authority DIR"));
  }
  const absl::StatusOr<std::string> believed = own.authorities();
  if (!believed.ok()) return believed.status();
  const absl::StatusOr<std::string> key = make_private_key();
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> request = make_certificate_request(*key);
  if (!request.ok()) return request.status();
  const absl::StatusOr<std::string> sample = made->issue(*request, own.self(), now);
  if (!sample.ok()) return sample.status();
  if (!check_credentials({*sample, *key}, *believed, now).ok()) {
    return absl::FailedPreconditionError(
        "the authority is not among those of --ca, so nobody would believe its certificates: add its ca.pem there");
  }
  return made;
}

CertificateIssuer::CertificateIssuer(CertificateAndKey authority, const CertificateInfo& info, WallSeconds life_s,
                                     std::string_view replaced)
    : authority_(std::move(authority)),
      hash_(absl::HexStringToBytes(info.fingerprint)),
      ends_s_(info.valid.until),
      life_s_(life_s),
      signers_(absl::StrCat(authority_.certificate, absl_view(replaced))) {}

CertificateIssuer::~CertificateIssuer() {
  OPENSSL_cleanse(authority_.key.data(), authority_.key.size());
}

absl::StatusOr<std::string> CertificateIssuer::issue(std::string_view request, const Identity& identity,
                                                     WallSeconds now, const std::vector<std::string>& hosts,
                                                     WallSeconds life_s_min) const {
  if (now >= ends_s_) return expired(ends_s_);
  return sign_certificate_request(authority_, request, identity, {now, now + std::max(life_s_, life_s_min)}, hosts);
}

absl::Status CertificateIssuer::check_own(std::string_view chain, WallSeconds now) const {
  if (check_signed_by(chain, signers_, now).ok()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "the caller's certificate has expired, or is of another authority than that of --authority, which gives nothing "
      "for it: join by a token (skuactl cert join-token), or, while that authority is replaced and its key was not "
      "stolen, start skua-control with --replaced-authority");
}

std::string CertificateIssuer::trouble(WallSeconds now) const {
  if (now >= ends_s_) {
    return absl::StrCat("the authority expired at ", wall_time_text(ends_s_),
                        ": nobody joins or renews a certificate. Make another one (docs/security.md)");
  }
  if (now + life_s_ <= ends_s_) return {};
  return absl::StrCat("the authority expires at ", wall_time_text(ends_s_),
                      ", and all certificates with it. Replace it before (docs/security.md)");
}

}  // namespace skua::control
