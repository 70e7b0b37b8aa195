#include "kvstore/client/certificate_keeper.h"

#include <utility>

#include "control/client/certificate_renewer.h"
#include "control/security/certificate_files.h"
#include "control/security/credentials.h"

namespace skua::kv {

class CertificateKeeper::Impl final : public control::CertificateRenewer {
  using CertificateRenewer::CertificateRenewer;
};

CertificateKeeper::CertificateKeeper(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CertificateKeeper::~CertificateKeeper() = default;

absl::StatusOr<std::unique_ptr<CertificateKeeper>> CertificateKeeper::start(const std::string& control_address,
                                                                            const control::CredentialFiles& files,
                                                                            LogFn log) {
  if (files.empty()) {
    return absl::InvalidArgumentError("there is no certificate to renew: give a certificate, its key and authorities");
  }
  absl::StatusOr<control::CredentialsPtr> credentials = control::Credentials::load(files);
  if (!credentials.ok()) return credentials.status();
  // Else nothing is renewed, which shows only at half time.
  if (absl::Status apart = control::check_holds_no_key(files.certificate, files.key); !apart.ok()) return apart;
  if (absl::Status can = control::check_can_be_replaced(files.certificate); !can.ok()) return can;
  auto impl = std::make_unique<Impl>(control::CertificateRenewerOptions{.control_address = control_address,
                                                                        .files = files,
                                                                        .credentials = *std::move(credentials),
                                                                        .log = std::move(log)});
  return std::unique_ptr<CertificateKeeper>(new CertificateKeeper(std::move(impl)));
}

}  // namespace skua::kv
