#include "control/server/own_certificate.h"

#include <ctime>
#include <utility>

#include "absl/status/statusor.h"
#include "control/client/admin_client.h"
#include "control/security/certificate_files.h"
#include "control/security/certificates.h"

namespace skua::control {
namespace {

absl::StatusOr<IssuedText> issue_own(const std::string& request, const CredentialFiles& files, const Credentials& own,
                                     const CertificateIssuer& issuer) {
  const absl::StatusOr<std::string> before = read_certificate_file(files.certificate);
  if (!before.ok()) return before.status();
  const absl::StatusOr<CertificateInfo> info = inspect_certificate(*before);
  if (!info.ok()) return info.status();
  if (auto status = check_renewable(*info); !status.ok()) return status;
  absl::StatusOr<std::string> authorities = read_certificate_file(files.authorities);
  if (!authorities.ok()) return authorities.status();
  absl::StatusOr<std::string> issued =
      issuer.issue(request, own.self(), std::time(nullptr), info->hosts, info->valid.until - info->valid.from);
  if (!issued.ok()) return issued.status();
  return IssuedText{*std::move(issued), *std::move(authorities)};
}

}  // namespace

std::unique_ptr<CertificateRenewer> keep_own_fresh(const CredentialFiles& files, const CredentialsPtr& own,
                                                   std::shared_ptr<const CertificateIssuer> issuer,
                                                   std::function<void(bool, const std::string&)> log) {
  return std::make_unique<CertificateRenewer>(
      CertificateRenewerOptions{.files = files,
                                .credentials = own,
                                .log = std::move(log),
                                .source = [files, own, issuer = std::move(issuer)](const std::string& request) {
                                  return issue_own(request, files, *own, *issuer);
                                }});
}

}  // namespace skua::control
