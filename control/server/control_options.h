// skua-control's options: what they are called, what they mean, and their defaults.
#ifndef SKUA_CONTROL_SERVER_CONTROL_OPTIONS_H_
#define SKUA_CONTROL_SERVER_CONTROL_OPTIONS_H_

#include <cstddef>
#include <string>

#include "app/config.h"
#include "app/log.h"
#include "app/operator_pages.h"
#include "control/security/certificate_issuer.h"
#include "control/security/credential_files.h"
#include "control/security/security_choice.h"
#include "control/server/controller_limits.h"
#include "control/store/etcd_tls.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Value of --metadata: in the data directory.
inline constexpr const char* kEmbeddedMetadata = "embedded";
/// Value of --audit-log.
inline constexpr const char* kNoAuditLog = "off";

/// What the command line, the environment and the configuration file say.
struct ControlOptions {
  std::string data_dir;
  std::string metadata = kEmbeddedMetadata;
  std::string listen_address = "127.0.0.1:7400";
  std::string advertise_address;
  std::string cluster_name;
  std::string cluster_id;
  CredentialFiles credential_files;
  EtcdTlsFiles etcd_tls;
  SecurityChoice security = SecurityChoice::kAuto;
  std::string authority;
  std::string replaced_authority;
  std::string join_address;
  DurationNs certificate_ttl_ns = kCertificateLifeS * kSecond;
  std::string audit_log;
  DurationNs heartbeat_interval_ns = 500 * kMillisecond;
  DurationNs suspect_after_ns = 3 * kSecond;
  DurationNs replace_after_ns = 30 * kSecond;
  app::HttpOptions http;
  size_t watches_per_host = kWatchersPerSourceMax;
  app::LogOptions log;
  bool check_config = false;
};

/// Declares the options, with their help texts and examples. `options` outlives the program.
void declare(app::Program& program, ControlOptions& options);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROL_OPTIONS_H_
