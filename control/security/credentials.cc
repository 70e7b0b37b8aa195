#include "control/security/credentials.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <ctime>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/security/access.h"
#include "control/security/auditor.h"
#include "control/security/certificate_files.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

constexpr unsigned int kWatchIntervalS = 1;
constexpr WallSeconds kLookIntervalS = 10;
constexpr size_t kFileBytesMax = 1 << 20;
constexpr const char* kPeerUri = "peer_uri";
constexpr const char* kPeerCertificate = "x509_pem_cert";
constexpr const char* kPeerCertificateChain = "x509_pem_cert_chain";
constexpr const char* kPath = ":path";

absl::StatusOr<std::string> read(const char* what, const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the ", what, " is not given: --cert, --key and --ca go together"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kFileBytesMax, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.gcount() == 0) {
    return absl::FailedPreconditionError(absl::StrCat("the ", what, " ", path, " cannot be read or is empty"));
  }
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

/// Signatures and times were verified by TLS before. What is left: is the peer one of our cluster, and of a role that
/// is expected there?
class PeerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  PeerVerifier(std::string cluster_id, Roles expected, std::shared_ptr<const DenyList> denied,
               std::shared_ptr<Auditor> auditor)
      : cluster_id_(std::move(cluster_id)),
        expected_(expected),
        denied_(std::move(denied)),
        auditor_(std::move(auditor)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* status) override {
    const std::vector<grpc::string_ref> uris = request->uri_names();
    absl::Status judged = absl::PermissionDeniedError("the peer's certificate is not one of Skua's");
    if (uris.size() == 1) judged = judge(std::string(uris[0].data(), uris[0].size()));
    if (!judged.ok() && auditor_ != nullptr) auditor_->certificate_refused(joined(uris), std_view(judged.message()));
    *status =
        judged.ok() ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(judged.message()));
    return true;  // the verdict is here already
  }

  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  static std::string joined(const std::vector<grpc::string_ref>& uris) {
    return absl::StrJoin(uris, " ",
                         [](std::string* out, const grpc::string_ref& uri) { out->append(uri.data(), uri.size()); });
  }

  [[nodiscard]] absl::Status judge(const std::string& uri) const {
    const absl::StatusOr<Identity> peer = check_member(uri, cluster_id_, expected_);
    if (!peer.ok()) return peer.status();
    // A caller hears it with each call instead, as an error that names the reason.
    return denied_ == nullptr ? absl::OkStatus() : denied_->check(*peer);
  }

  const std::string cluster_id_;
  const Roles expected_;                          // empty: any
  const std::shared_ptr<const DenyList> denied_;  // null: not asked
  const std::shared_ptr<Auditor> auditor_;        // null: nobody hears
};

/// Lets calls pass that access.h allows, of callers that are not revoked. Asked for each call, so a connection that
/// stands is no way around it.
class Doorkeeper final : public grpc::AuthMetadataProcessor {
 public:
  Doorkeeper(std::shared_ptr<const DenyList> denied, std::shared_ptr<Auditor> auditor)
      : denied_(std::move(denied)), auditor_(std::move(auditor)) {}

  [[nodiscard]] bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata* /*consumed*/,
                       OutputMetadata* /*response*/) override {
    const std::optional<Identity> caller = peer_identity(*context);
    const auto path = metadata.find(kPath);
    if (!caller || path == metadata.end()) {
      return {grpc::StatusCode::UNAUTHENTICATED, "the caller's certificate does not say who it is for"};
    }
    const std::string_view method(path->second.data(), path->second.size());
    absl::Status allowed = denied_->check(*caller);
    if (allowed.ok()) allowed = check_access(*caller, method);
    if (allowed.ok()) return grpc::Status::OK;
    if (auditor_ != nullptr) {
      auditor_->call_ended(
          {.caller = caller, .method = method, .code = allowed.code(), .message = std_view(allowed.message())});
    }
    return {grpc::StatusCode::PERMISSION_DENIED, std::string(allowed.message())};
  }

 private:
  const std::shared_ptr<const DenyList> denied_;
  const std::shared_ptr<Auditor> auditor_;
};

}  // namespace

absl::StatusOr<CredentialsPtr> Credentials::load(const CredentialFiles& files, Roles roles, SecurityChoice choice) {
  if (files.empty()) return CredentialsPtr();
  const absl::StatusOr<std::string> certificate = read("certificate", files.certificate);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<std::string> key = read("private key", files.key);
  if (!key.ok()) return key.status();
  if (absl::Status kept = check_key_is_kept(files.key); !kept.ok()) return kept;
  const absl::StatusOr<std::string> authorities = read("authorities' file", files.authorities);
  if (!authorities.ok()) return authorities.status();
  absl::Status usable = check_credentials({*certificate, *key}, *authorities, std::time(nullptr));
  if (!usable.ok()) return absl::Status(usable.code(), absl::StrCat(files.certificate, ": ", usable.message()));
  absl::StatusOr<CertificateInfo> own = inspect_certificate(*certificate);
  if (!own.ok()) return own.status();
  if (!roles.empty() && !roles.contains(own->identity->role)) {
    return absl::FailedPreconditionError(absl::StrCat(
        files.certificate, " is the certificate of ", own->identity->describe(), ", and this program needs ",
        "one of the role ", roles_text(roles), ": skuactl cert issue ROLE NAME"));
  }
  return std::make_shared<const Credentials>(files, *std::move(own), choice);
}

Credentials::Credentials(CredentialFiles files, CertificateInfo own, SecurityChoice choice)
    : files_(std::move(files)),
      own_(std::move(own)),
      choice_(choice),
      provider_(std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files_.key, files_.certificate, files_.authorities, kWatchIntervalS)),
      deny_list_(std::make_shared<DenyList>()) {}

Credentials::~Credentials() = default;

Credentials::Look Credentials::look(WallSeconds now) const {
  const std::lock_guard lock(mutex_);
  if (now >= look_.at_s && now < look_.at_s + kLookIntervalS) return look_;
  const absl::StatusOr<std::string> text = read("certificate", files_.certificate);
  const absl::StatusOr<CertificateInfo> info = text.ok() ? inspect_certificate(*text) : text.status();
  look_ = {.at_s = now, .expires_s = std::nullopt, .trouble = {}};
  if (info.ok()) look_.expires_s = info->valid.until;
  const std::string trouble = info.ok() ? expiry_trouble(*info, now) : std::string(info.status().message());
  if (!trouble.empty()) look_.trouble = absl::StrCat("its certificate, ", files_.certificate, ": ", trouble);
  return look_;
}

std::string Credentials::trouble(WallSeconds now) const {
  return look(now).trouble;
}

std::optional<WallSeconds> Credentials::expires_s(WallSeconds now) const {
  return look(now).expires_s;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::for_channel(Roles servers) const {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  // Addresses say nothing: nodes are looked for where the map says, and their identity stands in the certificate.
  options.set_check_call_host(false);
  options.set_certificate_verifier(grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(
      self().cluster_id, servers, deny_list_, nullptr));
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> Credentials::for_server(std::shared_ptr<Auditor> auditor) const {
  grpc::experimental::TlsServerCredentialsOptions options(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(
      self().cluster_id, Roles(), nullptr, auditor));
  std::shared_ptr<grpc::ServerCredentials> made = grpc::experimental::TlsServerCredentials(options);
  made->SetAuthMetadataProcessor(std::make_shared<Doorkeeper>(deny_list_, std::move(auditor)));
  return made;
}

std::shared_ptr<grpc::ServerCredentials> Credentials::for_joining() const {
  grpc::experimental::TlsServerCredentialsOptions options(provider_);
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<std::string> Credentials::authorities() const {
  return read("authorities' file", files_.authorities);
}

absl::Status Credentials::check_signed_by(std::string_view authority, WallSeconds now) const {
  const absl::StatusOr<std::string> certificate = read("certificate", files_.certificate);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<std::string> key = read("private key", files_.key);
  if (!key.ok()) return key.status();
  return check_credentials({*certificate, *key}, authority, now);
}

std::shared_ptr<grpc::ChannelCredentials> joining_channel_credentials(const std::string& authority,
                                                                      const std::string& cluster_id) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_check_call_host(false);
  if (authority.empty()) {
    options.set_verify_server_certs(false);
    options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
    return grpc::experimental::TlsCredentials(options);
  }
  options.set_certificate_provider(std::make_shared<grpc::experimental::StaticDataCertificateProvider>(authority));
  options.watch_root_certs();
  options.set_verify_server_certs(true);
  options.set_certificate_verifier(grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(
      cluster_id, Roles(Role::kControl), nullptr, nullptr));
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const CredentialsPtr& credentials, Roles servers) {
  return credentials == nullptr ? grpc::InsecureChannelCredentials() : credentials->for_channel(servers);
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const CredentialsPtr& credentials,
                                                            std::shared_ptr<Auditor> auditor) {
  return credentials == nullptr ? grpc::InsecureServerCredentials() : credentials->for_server(std::move(auditor));
}

bool takes_plaintext(const CredentialsPtr& credentials) {
  return credentials != nullptr && credentials->takes_plaintext();
}

std::optional<Identity> peer_identity(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> uris = context.FindPropertyValues(kPeerUri);
  if (uris.size() != 1) return std::nullopt;
  absl::StatusOr<Identity> identity = parse_identity_uri(std::string_view(uris[0].data(), uris[0].size()));
  return identity.ok() ? std::optional(*std::move(identity)) : std::nullopt;
}

absl::StatusOr<CertificateInfo> peer_certificate(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> shown = context.FindPropertyValues(kPeerCertificate);
  if (shown.size() != 1) return absl::UnauthenticatedError("the caller showed no certificate");
  return inspect_certificate(std::string_view(shown[0].data(), shown[0].size()));
}

std::string peer_chain(const grpc::AuthContext& context) {
  std::string chain;
  for (const char* property : {kPeerCertificate, kPeerCertificateChain}) {
    for (const grpc::string_ref& text : context.FindPropertyValues(property)) chain.append(text.data(), text.size());
  }
  return chain;
}

std::string peer_principal(const grpc::AuthContext& context) {
  const std::optional<Identity> peer = peer_identity(context);
  return peer ? peer->principal() : "";
}

absl::Status check_named(const CredentialsPtr& credentials, const grpc::AuthContext& context, std::string_view method) {
  if (!takes_plaintext(credentials) || peer_identity(context)) return absl::OkStatus();
  return check_anonymous(method);
}

absl::Status check_node_is(const grpc::AuthContext& context, const std::string& uuid) {
  const std::optional<Identity> peer = peer_identity(context);
  return peer ? check_speaks_for(*peer, uuid) : absl::OkStatus();
}

}  // namespace skua::control
