#include "control/server/control_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "app/data_dir.h"
#include "app/file.h"
#include "control/security/certificate_files.h"
#include "control/server/control_exit.h"
#include "control/server/grpc_listener.h"
#include "control/store/etcd_address.h"

namespace skua::control {
namespace {

/// Of the certificate that a control plane needs.
constexpr const char* kRole = "control c1";
constexpr size_t kAuthorityFileMax = 1 << 20;
constexpr const char* kAuthorityKey = "/ca.key";

/// From the port of --listen-address to that of --join-address.
constexpr int kJoinPortAfter = 5;

/// Whoever reads the authority's key can be anybody, and so can whoever writes join tokens into the metadata.
absl::Status check_authority_is_kept(const ControlOptions& options) {
  const std::string key = options.authority + kAuthorityKey;
  struct stat about {};
  const bool is_there = ::stat(key.c_str(), &about) == 0;
  if (is_there && about.st_uid != ::geteuid() && about.st_uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the key of the authority, ", key, ", belongs to another user: give it to the one who runs this"));
  }
  if (absl::Status kept = check_key_is_kept(key); !kept.ok()) return kept;
  if (options.metadata == kEmbeddedMetadata) return absl::OkStatus();
  const absl::StatusOr<EtcdAddress> etcd = parse_etcd_address(options.metadata);
  if (!etcd.ok() || etcd->tls) return etcd.status();
  for (const std::string& endpoint : etcd->endpoints) {
    const absl::StatusOr<HostPort> parts = split_address(endpoint);
    if (parts.ok() && is_loopback(parts->host)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("--authority with ", options.metadata, ": whoever reaches ", endpoint,
                     " can make join tokens for any identity. Give etcd certificates and write etcds:// "
                     "(docs/control-plane.md), or leave --authority away"));
  }
  return absl::OkStatus();
}

/// Empty: none is given. An error ends the process.
std::string read_replaced_authority(const ControlOptions& options) {
  if (options.replaced_authority.empty()) return {};
  const absl::StatusOr<std::string> text = app::read_file(options.replaced_authority, kAuthorityFileMax);
  const auto info = text.ok() ? inspect_certificate(*text) : text.status();
  if (info.ok() && info->is_authority) return *text;
  give_up(
      absl::InvalidArgumentError(absl::StrCat("--replaced-authority ", options.replaced_authority, ": ",
                                              info.ok() ? "it is no authority's certificate" : info.status().message(),
                                              ": give the ca.pem of the authority that --authority replaces")));
}

std::vector<Entrance> entrances_of(const ControlOptions& options) {
  const app::AddressRules rules{.zero_port_allowed = true, .any_host_allowed = true};
  const auto address = app::parse_address(options.listen_address, rules);
  return {{absl::StrCat("--listen-address ", options.listen_address), address.ok() && is_loopback(address->host)}};
}

}  // namespace

CredentialsPtr load_credentials(ControlOptions& options) {
  CredentialsPtr credentials =
      value_or_give_up(Credentials::load(options.credential_files, Role::kControl, options.security));
  if (credentials == nullptr) return nullptr;
  const std::string& cluster_id = credentials->self().cluster_id;
  std::string other = options.cluster_id;
  const auto known = value_or_give_up(app::read_identity(options.data_dir));
  if (known && !known->cluster_id.empty()) other = known->cluster_id;
  if (!other.empty() && other != cluster_id) {
    give_up(absl::FailedPreconditionError(absl::StrCat(
        "--cert is of cluster ", cluster_id, ", and --cluster-id or the data directory ", options.data_dir,
        " of cluster ", other, "; make an authority for that one: skuactl cert init DIR --cluster-id ", other)));
  }
  options.cluster_id = cluster_id;
  return credentials;
}

Admission admission_of(const ControlOptions& options, bool has_certificates) {
  return value_or_give_up(judge_exposure(options.security, has_certificates, entrances_of(options), kRole));
}

void warn_if_unsafe(const ControlOptions& options, Admission admission, const app::Logger& logger) {
  const std::string warning = unsafe_warning(admission, entrances_of(options), kRole);
  if (!warning.empty()) logger.warning(warning);
}

std::shared_ptr<const CertificateIssuer> load_issuer(const ControlOptions& options, const CredentialsPtr& credentials) {
  if (options.authority.empty()) {
    if (options.join_address.empty() && options.replaced_authority.empty()) return nullptr;
    give_up(absl::InvalidArgumentError(
        absl::StrCat(options.join_address.empty() ? "--replaced-authority" : "--join-address",
                     " is for a control plane that issues certificates: give --authority")));
  }
  if (credentials == nullptr) {
    give_up(absl::InvalidArgumentError(
        absl::StrCat("--authority needs a certificate for the control plane itself: skuactl cert issue control NAME "
                     "--authority ",
                     options.authority, ", then give --cert, --key and --ca")));
  }
  if (absl::Status wrong = check_authority_is_kept(options); !wrong.ok()) give_up(wrong);
  CertificateAndKey authority;
  for (const auto& [name, to] : {std::pair{"/ca.pem", &authority.certificate}, {kAuthorityKey, &authority.key}}) {
    absl::StatusOr<std::string> text = app::read_file(options.authority + name, kAuthorityFileMax);
    if (!text.ok()) {
      give_up(absl::InvalidArgumentError(absl::StrCat("--authority ", options.authority, ": ", text.status().message(),
                                                      ": give the directory that skuactl cert init made")));
    }
    *to = *std::move(text);
  }
  const std::string replaced = read_replaced_authority(options);
  auto issuer = CertificateIssuer::make(std::move(authority), options.certificate_ttl_ns / kSecond, *credentials,
                                        std::time(nullptr), replaced);
  if (!issuer.ok()) {
    give_up(absl::FailedPreconditionError(
        absl::StrCat("--authority ", options.authority, ": ", issuer.status().message())));
  }
  return *std::move(issuer);
}

std::string join_address_of(const ControlOptions& options) {
  if (!options.join_address.empty()) return options.join_address;
  const HostPort listen = value_or_give_up(split_address(options.listen_address));
  const int port = std::stoi(listen.port);
  const std::string host =
      listen.host.find(':') == std::string::npos ? listen.host : absl::StrCat("[", listen.host, "]");
  return absl::StrCat(host, ":", port == 0 ? 0 : std::min(port + kJoinPortAfter, 65'535));
}

}  // namespace skua::control
