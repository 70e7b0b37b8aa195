#include "control/store/etcd_tls.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

constexpr unsigned int kWatchIntervalS = 1;

absl::Status check_readable(const char* option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (file && file.peek() != std::ifstream::traits_type::eof()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(option, " ", path, " cannot be read or is empty; give a PEM file that this user may read"));
}

}  // namespace

absl::Status check_etcd_tls(const EtcdTlsFiles& files) {
  if (files.authorities.empty()) {
    return absl::InvalidArgumentError(
        "etcds:// needs --etcd-ca FILE, the authority of etcd's certificate; and, if etcd asks for one, --etcd-cert "
        "and --etcd-key");
  }
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError("--etcd-cert and --etcd-key go together: give both, or neither");
  }
  if (absl::Status status = check_readable("--etcd-ca", files.authorities); !status.ok()) return status;
  if (files.certificate.empty()) return absl::OkStatus();
  if (absl::Status status = check_readable("--etcd-cert", files.certificate); !status.ok()) return status;
  return check_readable("--etcd-key", files.key);
}

std::shared_ptr<grpc::ChannelCredentials> etcd_credentials(const EtcdTlsFiles& files) {
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (files.certificate.empty()) {
    options.set_certificate_provider(
        std::make_shared<FileWatcherCertificateProvider>(files.authorities, kWatchIntervalS));
  } else {
    options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
        files.key, files.certificate, files.authorities, kWatchIntervalS));
    options.watch_identity_key_cert_pairs();
  }
  options.watch_root_certs();
  return grpc::experimental::TlsCredentials(options);
}

std::string explain_etcd_tls(const std::string& why, bool has_certificate) {
  if (absl::StrContains(why, "CERTIFICATE_VERIFY_FAILED") || absl::StrContains(why, "certificate verify failed")) {
    return absl::StrCat(why, ". No authority in --etcd-ca has signed etcd's certificate: give the one that has");
  }
  if (absl::StrContains(why, "Hostname Verification") || absl::StrContains(why, "hostname")) {
    return absl::StrCat(why,
                        ". etcd's certificate does not name the host in --metadata: write a host that it names, or "
                        "issue one that names this");
  }
  if (absl::StrContains(why, "WRONG_VERSION_NUMBER") || absl::StrContains(why, "wrong version number")) {
    return absl::StrCat(why,
                        ". etcd speaks without TLS there: write etcd:// in --metadata, or give etcd a certificate");
  }
  return absl::StrCat(why, has_certificate
                               ? ". If etcd refuses this program's certificate: its --trusted-ca-file must have the "
                                 "authority of --etcd-cert, which must be valid now and for TLS clients"
                               : ". If etcd wants a certificate (--client-cert-auth): give --etcd-cert and --etcd-key");
}

}  // namespace skua::control
