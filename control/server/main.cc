// skua-control: membership, shard map and tables of one cluster.
//
//   <data dir>/skua.lock, identity.toml   app/data_dir.h: one process, one cluster
//   <data dir>/audit.jsonl[.refused]      who changed the cluster, who was refused: control/security/audit_log.h;
//                                         elsewhere with --audit-log
//   <data dir>/metadata/                  the embedded metadata store, unless --metadata names an etcd
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "app/config.h"
#include "app/data_dir.h"
#include "app/exit.h"
#include "app/lock_file.h"
#include "app/log.h"
#include "app/notify.h"
#include "app/operator_pages.h"
#include "app/process.h"
#include "app/service_reporter.h"
#include "app/signals.h"
#include "app/uuid.h"
#include "app/version.h"
#include "control/client/what_answers.h"
#include "control/proto/grpc_log.h"
#include "control/security/audit_log.h"
#include "control/security/auditor.h"
#include "control/security/credentials.h"
#include "control/security/tls_version.h"
#include "control/server/control_exit.h"
#include "control/server/control_identity.h"
#include "control/server/control_options.h"
#include "control/server/control_server.h"
#include "control/server/grpc_listener.h"
#include "control/server/metadata_place.h"
#include "control/server/own_certificate.h"
#include "rpc/base/clock.h"

namespace skua::control {
namespace {

constexpr int64_t kDataFormat = 1;
constexpr DurationNs kUnsafeReminderNs = 3600 * kSecond;

/// False also for what cannot be looked at: opening it says why.
bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// The cluster that the options name.
ClusterIdentity named_cluster(const ControlOptions& settings) {
  ClusterIdentity named;
  named.id = settings.cluster_id;
  named.name = settings.cluster_name;
  return named;
}

/// The cluster that this directory and the options name between them.
ClusterIdentity wanted_cluster(const ControlOptions& settings, const app::DataDirIdentity& identity) {
  if (!identity.cluster_id.empty()) {
    if (!settings.cluster_id.empty() && settings.cluster_id != identity.cluster_id) {
      give_up(absl::FailedPreconditionError(absl::StrCat(
          "the data directory ", settings.data_dir, " belongs to cluster ", identity.cluster_id, ", not to ",
          settings.cluster_id, "; give the --data-dir of that cluster, or leave --cluster-id away")));
    }
    if (settings.metadata == kEmbeddedMetadata && !is_there(settings.data_dir + "/metadata")) {
      give_up(absl::FailedPreconditionError(absl::StrCat(
          "the data directory ", settings.data_dir, " belongs to cluster ", identity.cluster_id,
          ", but its metadata is missing; restore it from a backup, or give an empty --data-dir for a new cluster")));
    }
  }
  ClusterIdentity wanted;
  wanted.id = settings.cluster_id.empty() ? identity.cluster_id : settings.cluster_id;
  wanted.name = settings.cluster_name;
  if (settings.metadata != kEmbeddedMetadata) {
    wanted.must_exist = !identity.cluster_id.empty();
    wanted.place = settings.metadata;
    wanted.other_place =
        "each cluster has a prefix of its own: give --metadata that cluster's, or an empty --data-dir to join this one";
  }
  return wanted;
}

/// Without etcd nobody is told another address.
absl::Status check_addresses(const ControlOptions& settings) {
  if (settings.metadata == kEmbeddedMetadata) {
    if (settings.advertise_address.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--advertise-address is for control planes on an etcd, where one names another; leave it away, or give "
        "--metadata etcd://HOST:PORT,.../PREFIX");
  }
  const auto listen = app::check_address(settings.listen_address, {.zero_port_allowed = true});
  if (listen.ok() || !settings.advertise_address.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--listen-address ", settings.listen_address,
                   " is every address of this machine, and the other control planes must name one: give it with "
                   "--advertise-address HOST:PORT"));
}

/// The directory, or the nearest one above it, must be one that this user can write to.
absl::Status check_data_dir(const std::string& wanted) {
  std::error_code error;
  const auto path = std::filesystem::absolute(wanted, error);
  auto there = path;
  while (!std::filesystem::exists(there, error) && !error && there.has_relative_path()) there = there.parent_path();
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("--data-dir ", wanted, " cannot be made (", error.message(),
                                                   "); give a directory that this user may write to"));
  }
  if (!std::filesystem::is_directory(there, error)) {
    return absl::InvalidArgumentError(absl::StrCat("--data-dir ", wanted, ": ", there.string(),
                                                   " is no directory; give the path of one (it is made if it is not "
                                                   "there)"));
  }
  if (access(there.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  const std::string why = std::generic_category().message(errno);
  const bool is_made = there == path;
  return absl::PermissionDeniedError(
      absl::StrCat("--data-dir ", wanted, is_made ? " cannot be written to" : " cannot be made", " (", there.string(),
                   ": ", why, "); give a directory that this user may write to"));
}

/// Before anything is made: a start that must fail leaves no half of a cluster behind.
void check_before_start(const ControlOptions& settings) {
  const std::string metadata = settings.data_dir + "/metadata";
  std::error_code ignored;
  if (is_there(metadata) && !std::filesystem::is_directory(metadata, ignored)) {
    give_up(absl::FailedPreconditionError(absl::StrCat(
        metadata, " is no directory, and the metadata would be kept there; move it away, or give another --data-dir")));
  }
  if (settings.metadata != kEmbeddedMetadata && is_there(metadata)) {
    give_up(absl::FailedPreconditionError(absl::StrCat(
        "the data directory ", settings.data_dir, " has embedded metadata of a cluster, but --metadata is ",
        settings.metadata, "; give an empty --data-dir, or leave --metadata away")));
  }
  std::vector<std::string> addresses = {settings.listen_address};
  if (!settings.authority.empty()) addresses.push_back(join_address_of(settings));
  if (!settings.http.address.empty()) addresses.push_back(settings.http.address);
  for (const std::string& address : addresses) {
    absl::Status status = check_listen(address);
    if (status.ok()) continue;
    if (status.code() == absl::StatusCode::kAlreadyExists) {
      const std::string who = describe(what_answers(address));
      if (!who.empty()) status = absl::AlreadyExistsError(absl::StrCat(status.message(), ". It is ", who));
    }
    give_up(status);
  }
}

/// Kept elsewhere, such lines show later whether the audit log was cut or written anew.
void log_audit_head(const std::shared_ptr<Auditor>& auditor, const app::Logger& logger) {
  if (auditor == nullptr) return;
  for (const AuditChain chain : {AuditChain::kChanges, AuditChain::kOthers}) {
    const AuditHead head = auditor->log().head(chain);
    logger.info("audit log", {{"file", auditor->log().path(chain)}, {"seq", head.sequence}, {"hash", head.hash}});
  }
}

/// Null: off.
std::shared_ptr<Auditor> open_audit_log(const ControlOptions& settings, const Clock& clock) {
  if (settings.audit_log == kNoAuditLog) return nullptr;
  const std::string path = settings.audit_log.empty() ? settings.data_dir + "/audit.jsonl" : settings.audit_log;
  auto auditor = std::make_shared<Auditor>(value_or_give_up(AuditLog::open({.path = path})), clock);
  auditor->started(app::version());
  return auditor;
}

ControlServerOptions server_options(const ControlOptions& settings, ClusterIdentity cluster,
                                    const app::Logger& logger) {
  ControlServerOptions options;
  options.listen_address = settings.listen_address;
  options.advertise_address = settings.advertise_address;
  options.cluster = std::move(cluster);
  options.fresh_cluster_id = app::random_uuid();
  options.heartbeat_interval_ms = static_cast<uint32_t>(settings.heartbeat_interval_ns / kMillisecond);
  options.suspect_after_ms = static_cast<uint32_t>(settings.suspect_after_ns / kMillisecond);
  options.replace_after_ms = static_cast<uint32_t>(settings.replace_after_ns / kMillisecond);
  options.watches_per_host = settings.watches_per_host;
  options.log = [logger](bool warning, const std::string& line) {
    logger.log(warning ? app::LogLevel::kWarning : app::LogLevel::kInfo, line);
  };
  return options;
}

/// What it shows its operator. The server must outlive the pages.
app::OperatorPages pages_of(ControlServer& server) {
  return {.is_alive = [&server] { return server.is_alive(); },
          .readiness = [&server] { return server.readiness(); },
          .metrics = [&server] { return server.metrics(); }};
}

/// Until a stop is asked for.
void serve(ControlServer& server, const ControlOptions& settings, Admission admission,
           const std::shared_ptr<Auditor>& auditor, const app::Logger& logger, app::StopSignal& stop,
           app::ServiceReporter& reporter) {
  std::unique_ptr<app::HttpServer> http = value_or_give_up(app::serve_pages(settings.http, pages_of(server)));
  logger.info("serving", {{"address", server.address()},
                          {"http_address", http == nullptr ? "none" : http->address()},
                          {"cluster_id", server.cluster_id()},
                          {"cluster_name", server.cluster_name()},
                          {"data_dir", settings.data_dir},
                          {"metadata", settings.metadata},
                          {"join_address", server.join_address().empty() ? "none" : server.join_address()},
                          {"version", app::version()}});
  log_audit_head(auditor, logger);
  warn_if_unsafe(settings, admission, logger);
  reporter.ready(app::service_probe(pages_of(server)));
  const int signal = stop.wait(kUnsafeReminderNs, [&] { warn_if_unsafe(settings, admission, logger); });
  reporter.stopping();
  http.reset();  // its pages ask the server
  logger.info("stopping", {{"signal", signal}});
  server.shutdown();
  if (auditor != nullptr) auditor->stops();
  log_audit_head(auditor, logger);
  logger.info("stopped");
}

void parse(int argc, char** argv, ControlOptions& settings) {
  app::Program program(
      {.name = kSkuaControl,
       .summary = "Skua control plane: which nodes there are and who serves which shard.",
       .description = "Storage nodes register here and send heartbeats; clients fetch the shard map and follow its "
                      "changes; operators create and drop tables. Reads and writes of data never pass through it: "
                      "while it is down, running clients and nodes go on with the map they have.",
       .manual_section = 8});
  declare(program, settings);
  program.parse_or_exit(argc, argv);
}

int run(int argc, char** argv) {
  app::check_process(kSkuaControl, app::kFilesOfServer);
  silence_grpc_log();
  require_tls_13();
  const auto stop = value_or_give_up(app::StopSignal::install());
  ControlOptions settings;
  parse(argc, argv, settings);
  const app::Logger logger = app::Logger(settings.log).with_component("control");
  for (const absl::Status& status : {app::check_http(settings.http), check_metadata_options(settings),
                                     check_addresses(settings), check_data_dir(settings.data_dir),
                                     ControlServer::check(server_options(settings, named_cluster(settings), logger))}) {
    if (!status.ok()) give_up(status);
  }
  const CredentialsPtr credentials = load_credentials(settings);
  const Admission admission = admission_of(settings, credentials != nullptr);
  const auto issuer = load_issuer(settings, credentials);
  if (settings.check_config) {
    std::puts("the configuration is valid");
    return app::finish_output(kSkuaControl);
  }

  app::ServiceReporter reporter(app::Notifier::from_environment());
  const SteadyClock clock;
  // Its own, gRPC's and RocksDB's, and some that gRPC makes when there is much to do.
  constexpr size_t kThreads = 48;
  if (auto status = app::check_threads("a control plane", kThreads); !status.ok()) give_up(status);

  // Who started a second one on the same directory learns that, and not that the port is in use.
  const bool is_made = is_there(settings.data_dir + "/identity.toml");
  if (!is_made) check_before_start(settings);
  Metadata metadata;
  // An etcd that cannot be used leaves no directory behind.
  if (!is_made && settings.metadata != kEmbeddedMetadata) metadata = open_metadata(settings);
  const auto lock = value_or_give_up(app::DirectoryLock::acquire(settings.data_dir, kSkuaControl));
  if (is_made) check_before_start(settings);
  auto identity = value_or_give_up(app::open_identity(settings.data_dir, "control", kDataFormat));
  ClusterIdentity cluster = wanted_cluster(settings, identity);
  const bool is_new = settings.metadata == kEmbeddedMetadata && !is_there(settings.data_dir + "/metadata");
  if (metadata.store == nullptr) metadata = open_metadata(settings);
  ControlServerOptions options = server_options(settings, std::move(cluster), logger);
  options.credentials = credentials;
  options.security.admission = admission;
  options.issuer = issuer;
  options.join_address = join_address_of(settings);
  options.auditor = open_audit_log(settings, clock);
  const auto server =
      value_or_give_up(ControlServer::start(options, std::move(metadata.store), std::move(metadata.election)));
  std::unique_ptr<CertificateRenewer> renewer;
  if (issuer != nullptr) renewer = keep_own_fresh(settings.credential_files, credentials, issuer, options.log);
  if (is_new) {
    logger.info("a new cluster was made in this data directory; its nodes join when they are started",
                {{"data_dir", settings.data_dir}, {"cluster_id", server->cluster_id()}});
  }
  if (auto status = app::adopt_cluster(settings.data_dir, identity, server->cluster_id()); !status.ok()) {
    give_up(status);
  }

  serve(*server, settings, admission, options.auditor, logger, *stop, reporter);
  return app::kExitOk;
}

}  // namespace
}  // namespace skua::control

int main(int argc, char** argv) {
  return skua::control::run(argc, argv);
}
