#include "kvstore/node/skuad_security.h"

#include <array>
#include <string>
#include <utility>

#include "kvstore/node/node_certificate.h"
#include "kvstore/node/skuad_exit.h"
#include "rpc/base/status.h"
#include "rpc/transport/sealed/seal.h"

namespace skua::kv {
namespace {

/// Of the certificate that the node needs.
constexpr const char* kRole = "node";

absl::StatusOr<control::CredentialsPtr> given_credentials(const SkuadOptions& config) {
  return control::Credentials::load(config.credentials, control::Role::kNode, config.security);
}

void must_be_of(const app::DataDirIdentity& identity, const SkuadOptions& config,
                const control::CredentialsPtr& credentials) {
  if (credentials == nullptr) return;
  ok_or_fail(check_node_identity(config.data_dir, identity.node_uuid, identity.cluster_id, credentials->self()));
}

}  // namespace

NodeLog node_log(const app::Logger& logger) {
  return [logger](LogSeverity severity, const std::string& line) {
    constexpr std::array kLevels = {app::LogLevel::kInfo, app::LogLevel::kWarning, app::LogLevel::kError};
    static_assert(kLevels.size() == static_cast<size_t>(LogSeverity::kError) + 1);
    logger.log(kLevels[static_cast<size_t>(severity)], line);
  };
}

absl::Status check_security(const SkuadOptions& config) {
  if (absl::Status token = check_join_token(config.join_token, config.credentials); !token.ok()) return token;
  const absl::StatusOr<control::CredentialsPtr> given = given_credentials(config);
  if (!given.ok()) return given.status();
  const bool has_certificates = *given != nullptr || !config.join_token.empty() || has_joined(config.data_dir);
  if (auto packets = rpc::choose_protection(config.packets, has_certificates); !packets.ok()) return packets.status();
  return control::judge_exposure(config.security, has_certificates, entrances_of(config), kRole).status();
}

control::CredentialsPtr known_credentials(const SkuadOptions& config, const app::DataDirIdentity& identity,
                                          const app::Logger& logger) {
  control::CredentialsPtr known = value_or_fail(given_credentials(config));
  if (known == nullptr) {
    known = value_or_fail(load_joined(config.data_dir, !config.join_token.empty(), node_log(logger), config.security));
  }
  must_be_of(identity, config, known);
  return known;
}

control::CredentialsPtr join_cluster(const SkuadOptions& config, const app::DataDirIdentity& identity,
                                     const app::Logger& logger, app::StopSignal& stop) {
  const NodeLog log = node_log(logger);
  const JoinByToken joining{.data_dir = config.data_dir,
                            .control_address = config.control_address,
                            .token = config.join_token,
                            .node_uuid = identity.node_uuid,
                            .security = config.security,
                            .log = log,
                            .pause = [&](DurationNs time) { return !stop.wait_for(time).has_value(); }};
  auto joined = value_or_fail(join_by_token(joining));
  must_be_of(identity, config, joined);
  return joined;
}

NodeSecurity security_with(const SkuadOptions& config, control::CredentialsPtr credentials) {
  const bool has_certificates = credentials != nullptr;
  return {.credentials = std::move(credentials),
          .admission =
              value_or_fail(control::judge_exposure(config.security, has_certificates, entrances_of(config), kRole)),
          .packets = value_or_fail(rpc::choose_protection(config.packets, has_certificates))};
}

std::unique_ptr<control::CertificateRenewer> renewer_of(const SkuadOptions& config,
                                                        const control::CredentialsPtr& credentials,
                                                        const app::Logger& logger) {
  if (credentials == nullptr || !config.credentials.empty()) return nullptr;
  return std::make_unique<control::CertificateRenewer>(
      control::CertificateRenewerOptions{.control_address = config.control_address,
                                         .files = joined_files(config.data_dir),
                                         .credentials = credentials,
                                         .log = [logger](bool warning, const std::string& line) {
                                           logger.log(warning ? app::LogLevel::kWarning : app::LogLevel::kInfo, line);
                                         }});
}

void warn_if_unsafe(const SkuadOptions& config, control::Admission admission, const app::Logger& logger) {
  const std::string warning = control::unsafe_warning(admission, entrances_of(config), kRole);
  if (!warning.empty()) logger.warning(warning);
}

}  // namespace skua::kv
