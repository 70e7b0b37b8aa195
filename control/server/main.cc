// skua-control: membership, shard map and tables of one cluster.
//
//   <data dir>/skua.lock, identity.toml   app/data_dir.h: one process, one cluster
//   <data dir>/audit.jsonl[.refused]      who changed the cluster, who was refused: control/security/audit_log.h;
//                                         elsewhere with --audit-log
//   <data dir>/metadata/                  the embedded metadata store, unless --metadata names an etcd
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "app/config.h"
#include "app/data_dir.h"
#include "app/exit.h"
#include "app/file.h"
#include "app/lock_file.h"
#include "app/log.h"
#include "app/process.h"
#include "app/security_options.h"
#include "app/signals.h"
#include "app/uuid.h"
#include "app/version.h"
#include "control/client/what_answers.h"
#include "control/proto/grpc_log.h"
#include "control/security/audit_log.h"
#include "control/security/auditor.h"
#include "control/security/certificate_issuer.h"
#include "control/security/credentials.h"
#include "control/security/exposure.h"
#include "control/server/control_server.h"
#include "control/server/grpc_listener.h"
#include "control/store/embedded_store.h"
#include "control/store/etcd_election.h"
#include "control/store/etcd_store.h"
#include "control/store/etcd_tls.h"
#include "rpc/base/clock.h"

namespace skua::control {
namespace {

constexpr const char* kProgram = "skua-control";
constexpr int64_t kDataFormat = 1;
constexpr const char* kEmbedded = "embedded";
constexpr const char* kNoAuditLog = "off";
/// Of the certificate that a control plane needs.
constexpr const char* kRole = "control c1";
constexpr DurationNs kUnsafeReminderNs = 3600 * kSecond;

struct Settings {
  std::string data_dir;
  std::string metadata = kEmbedded;
  std::string listen_address = "127.0.0.1:7400";
  std::string advertise_address;
  std::string cluster_name;
  std::string cluster_id;
  CredentialFiles credential_files;
  EtcdTlsFiles etcd_tls;
  SecurityChoice security = SecurityChoice::kAuto;
  std::string authority;
  std::string join_address;
  DurationNs certificate_ttl_ns = kCertificateLifeS * kSecond;
  std::string audit_log;
  DurationNs heartbeat_interval_ns = 500 * kMillisecond;
  DurationNs suspect_after_ns = 3 * kSecond;
  DurationNs replace_after_ns = 30 * kSecond;
  size_t watches_per_host = kWatchersPerSourceMax;
  app::LogOptions log;
  bool check_config = false;
};

void declare_examples(app::Program& program) {
  program.example("skua-control --data-dir /var/lib/skua/control", "a control plane for nodes on this machine");
  program.example(
      "skua-control --data-dir /var/lib/skua/control --listen-address 10.0.0.1:7400 --cert c1.pem --key c1.key --ca "
      "ca.pem --authority ca",
      "a control plane for nodes on other machines, which issues certificates to those that have a join token");
  program.example(
      "skua-control --data-dir /var/lib/skua/control --listen-address 10.0.0.1:7400 --cert c1.pem --key c1.key --ca "
      "ca.pem --metadata etcds://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/skua --etcd-ca etcd-ca.pem --etcd-cert "
      "etcd-c1.pem --etcd-key etcd-c1.key",
      "one of several control planes on one etcd");
}

void add_certificate_options(app::Program& program, Settings& settings) {
  program
      .add_string(
          "authority", &settings.authority,
          "The directory that skuactl cert init made: with its key this control plane issues certificates, to who "
          "has a join token or a certificate that is to be renewed. Of several control processes each needs it.")
      .value_name("DIR");
  program
      .add_string(
          "join-address", &settings.join_address,
          "With --authority: where those are served who have a join token and no certificate yet. By default the "
          "fifth port after that of --listen-address.")
      .value_name("HOST:PORT")
      .address({.zero_port_allowed = true, .any_host_allowed = true});
  program
      .add_duration("certificate-ttl", &settings.certificate_ttl_ns,
                    "How long certificates are good that this control plane issues; nodes renew theirs at half of it.")
      .range(10 * kSecond, int64_t{365} * 24 * 3600 * kSecond);
}

void parse_settings(int argc, char** argv, Settings& settings) {
  app::Program program(
      {.name = kProgram,
       .summary = "Skua control plane: which nodes there are and who serves which shard.",
       .description = "Storage nodes register here and send heartbeats; clients fetch the shard map and follow its "
                      "changes; operators create and drop tables. Reads and writes of data never pass through it: "
                      "while it is down, running clients and nodes go on with the map they have."});
  program.add_string("data-dir", &settings.data_dir, "This process's own directory: lock, identity, embedded metadata.")
      .value_name("DIR")
      .required();
  program
      .add_string("metadata", &settings.metadata,
                  "Where the cluster's metadata is kept: \"embedded\" (in the data directory; one control process) or "
                  "etcd://HOST:PORT,.../PREFIX (several control processes with the same value; one leads); etcds:// "
                  "for an etcd "
                  "with TLS.")
      .value_name("WHERE");
  program
      .add_string(
          "etcd-ca", &settings.etcd_tls.authorities,
          "With etcds://: certificates of the authorities whose etcd is believed. Read again when it changes, as "
          "the next two.")
      .value_name("FILE");
  program
      .add_string("etcd-cert", &settings.etcd_tls.certificate,
                  "With etcds://: the certificate that this program shows etcd, if it asks for one.")
      .value_name("FILE");
  program.add_string("etcd-key", &settings.etcd_tls.key, "The private key of --etcd-cert.").value_name("FILE");
  program
      .add_string("listen-address", &settings.listen_address,
                  "Where nodes, clients and skuactl reach it; port 0 takes a free one.")
      .value_name("HOST:PORT")
      .address({.zero_port_allowed = true, .any_host_allowed = true});
  program
      .add_string("advertise-address", &settings.advertise_address,
                  "With etcd: what others say who is asked and does not lead; the listen address by default.")
      .value_name("HOST:PORT")
      .address();
  program.add_string("cluster-name", &settings.cluster_name,
                     "The cluster's name: kept when it is created (\"skua\" by default), checked later.");
  program
      .add_string("cluster-id", &settings.cluster_id,
                  "The cluster's id, a UUID: kept when it is created (a fresh one by default), checked later.")
      .value_name("UUID");
  app::add_security_options(program, &settings.credential_files);
  app::add_security_choice(program, &settings.security);
  add_certificate_options(program, settings);
  program
      .add_string("audit-log", &settings.audit_log,
                  "Where it is written who changed the cluster, and, with .refused behind its name, who was refused; "
                  "audit.jsonl in the data directory by default, \"off\": nowhere.")
      .value_name("FILE");
  program.add_duration("heartbeat-interval", &settings.heartbeat_interval_ns, "How often nodes report.")
      .range(10 * kMillisecond, 60 * kSecond);
  program
      .add_duration("suspect-after", &settings.suspect_after_ns,
                    "Silence after which a node counts as gone; at least twice the heartbeat interval.")
      .range(20 * kMillisecond, 3600 * kSecond);
  program
      .add_duration("replace-after", &settings.replace_after_ns,
                    "How long a shard that lost a replica waits for its node before another one gets a copy.")
      .range(0, 24 * 3600 * kSecond);
  program
      .add_int("watches-per-host", &settings.watches_per_host,
               "How many clients and nodes of one host may follow the shard map. Many machines behind one address need "
               "more.")
      .range(1, static_cast<int64_t>(kWatchersMax));
  app::add_log_options(program, &settings.log);
  program.add_bool("check-config", &settings.check_config, "Check the configuration and end.").flag_only();
  declare_examples(program);
  program.parse_or_exit(argc, argv);
}

/// Ends the program: 2 for what the user must change, 1 for what went wrong.
[[noreturn]] void give_up(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied: app::fail_usage(kProgram, message);
    default: app::fail(kProgram, message);
  }
}

/// The value, or the end.
template <typename T>
T value_or_give_up(absl::StatusOr<T> result) {
  if (!result.ok()) give_up(result.status());
  return *std::move(result);
}

/// False also for what cannot be looked at: opening it says why.
bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// The cluster that the options name.
ClusterIdentity named_cluster(const Settings& settings) {
  ClusterIdentity named;
  named.id = settings.cluster_id;
  named.name = settings.cluster_name;
  return named;
}

/// The cluster that this directory and the options name between them.
ClusterIdentity wanted_cluster(const Settings& settings, const app::DataDirIdentity& identity) {
  if (!identity.cluster_id.empty()) {
    if (!settings.cluster_id.empty() && settings.cluster_id != identity.cluster_id) {
      give_up(absl::FailedPreconditionError(absl::StrCat(
          "the data directory ", settings.data_dir, " belongs to cluster ", identity.cluster_id, ", not to ",
          settings.cluster_id, "; give the --data-dir of that cluster, or leave --cluster-id away")));
    }
    if (settings.metadata == kEmbedded && !is_there(settings.data_dir + "/metadata")) {
      give_up(absl::FailedPreconditionError(absl::StrCat(
          "the data directory ", settings.data_dir, " belongs to cluster ", identity.cluster_id,
          ", but its metadata is missing; restore it from a backup, or give an empty --data-dir for a new cluster")));
    }
  }
  ClusterIdentity wanted;
  wanted.id = settings.cluster_id.empty() ? identity.cluster_id : settings.cluster_id;
  wanted.name = settings.cluster_name;
  if (settings.metadata != kEmbedded) {
    wanted.must_exist = !identity.cluster_id.empty();
    wanted.place = settings.metadata;
    wanted.other_place =
        "each cluster has a prefix of its own: give --metadata that cluster's, or an empty --data-dir to join this one";
  }
  return wanted;
}

absl::StatusOr<EtcdAddress> etcd_address(const Settings& settings) {
  auto address = parse_etcd_address(settings.metadata);
  if (!address.ok()) return address;
  for (const std::string& endpoint : address->endpoints) {
    if (auto status = app::check_address(endpoint); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata address \"", settings.metadata, "\": ", endpoint, " ", status.message()));
    }
  }
  return address;
}

/// What is said about TLS with etcd goes together.
absl::Status check_etcd_options(const Settings& settings) {
  const bool tls = settings.metadata != kEmbedded && absl::StartsWith(settings.metadata, std::string(kEtcdTlsScheme));
  if (tls) return check_etcd_tls(settings.etcd_tls);
  if (settings.etcd_tls.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--etcd-ca, --etcd-cert and --etcd-key are for an etcd with TLS, and --metadata is ",
                   settings.metadata, ": write etcds:// there, or leave them away"));
}

/// Without etcd nobody is told another address.
absl::Status check_addresses(const Settings& settings) {
  if (settings.metadata == kEmbedded) {
    if (settings.advertise_address.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--advertise-address is for control planes on an etcd, where one names another; leave it away, or give "
        "--metadata etcd://HOST:PORT,.../PREFIX");
  }
  if (auto address = etcd_address(settings); !address.ok()) return address.status();
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

struct Metadata {
  std::unique_ptr<MetadataStore> store;
  std::unique_ptr<Election> election;
};

/// The etcd could not be used: what stands at its addresses instead.
absl::Status explain_etcd_failure(const absl::Status& status, const EtcdAddress& address, const EtcdTlsFiles& tls) {
  for (const std::string& endpoint : address.endpoints) {
    const Answerer answerer = what_answers(endpoint);
    const std::string there = absl::StrCat("--metadata names ", endpoint, ", and there is ", describe(answerer));
    switch (answerer) {
      case Answerer::kNobody: continue;
      case Answerer::kEtcd:
        if (!address.tls) continue;
        return absl::FailedPreconditionError(
            absl::StrCat(there, " without TLS: write etcd:// in --metadata, or give etcd a certificate"));
      case Answerer::kSilent:
        return {status.code(), absl::StrCat(there,
                                            ": an etcd that hangs, or another program. Check --metadata, or start the "
                                            "etcd there again")};
      case Answerer::kTls:
        if (address.tls) {
          // An etcd that was reached, and has no leader for example, is only waited for in vain.
          if (!absl::StrContains(status.message(), "cannot be reached")) return status;
          return absl::FailedPreconditionError(
              explain_etcd_tls(std::string(status.message()), !tls.certificate.empty()));
        }
        return absl::FailedPreconditionError(
            absl::StrCat(there, ". If it is an etcd, write etcds:// in --metadata, and give --etcd-ca FILE"));
      default:
        return absl::FailedPreconditionError(absl::StrCat(
            there, ", no etcd. Give the client addresses of an etcd: --metadata etcd://HOST:2379,HOST:2379/PREFIX"));
    }
  }
  return status;
}

Metadata open_metadata(const Settings& settings) {
  if (settings.metadata == kEmbedded) {
    return {value_or_give_up(open_embedded_store({.directory = settings.data_dir + "/metadata"})), nullptr};
  }
  const auto address = value_or_give_up(etcd_address(settings));
  auto store = EtcdStore::open({.address = address, .tls = settings.etcd_tls});
  if (!store.ok()) give_up(explain_etcd_failure(store.status(), address, settings.etcd_tls));
  auto election = make_etcd_election(**store);
  return {*std::move(store), std::move(election)};
}

/// From the port of --listen-address to that of --join-address.
constexpr int kJoinPortAfter = 5;

std::string join_address_of(const Settings& settings) {
  if (!settings.join_address.empty()) return settings.join_address;
  const HostPort listen = value_or_give_up(split_address(settings.listen_address));
  const int port = std::stoi(listen.port);
  const std::string host =
      listen.host.find(':') == std::string::npos ? listen.host : absl::StrCat("[", listen.host, "]");
  return absl::StrCat(host, ":", port == 0 ? 0 : std::min(port + kJoinPortAfter, 65'535));
}

/// Before anything is made: a start that must fail leaves no half of a cluster behind.
void check_before_start(const Settings& settings) {
  const std::string metadata = settings.data_dir + "/metadata";
  std::error_code ignored;
  if (is_there(metadata) && !std::filesystem::is_directory(metadata, ignored)) {
    give_up(absl::FailedPreconditionError(absl::StrCat(
        metadata, " is no directory, and the metadata would be kept there; move it away, or give another --data-dir")));
  }
  if (settings.metadata != kEmbedded && is_there(metadata)) {
    give_up(absl::FailedPreconditionError(absl::StrCat(
        "the data directory ", settings.data_dir, " has embedded metadata of a cluster, but --metadata is ",
        settings.metadata, "; give an empty --data-dir, or leave --metadata away")));
  }
  std::vector<std::string> addresses = {settings.listen_address};
  if (!settings.authority.empty()) addresses.push_back(join_address_of(settings));
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

/// The certificate names the cluster: what the options and the data directory say must agree with it.
CredentialsPtr load_credentials(Settings& settings) {
  CredentialsPtr credentials =
      value_or_give_up(Credentials::load(settings.credential_files, Role::kControl, settings.security));
  if (credentials == nullptr) return nullptr;
  const std::string& cluster_id = credentials->self().cluster_id;
  std::string other = settings.cluster_id;
  const auto known = value_or_give_up(app::read_identity(settings.data_dir));
  if (known && !known->cluster_id.empty()) other = known->cluster_id;
  if (!other.empty() && other != cluster_id) {
    give_up(absl::FailedPreconditionError(absl::StrCat(
        "--cert is of cluster ", cluster_id, ", and --cluster-id or the data directory ", settings.data_dir,
        " of cluster ", other, "; make an authority for that one: skuactl cert init DIR --cluster-id ", other)));
  }
  settings.cluster_id = cluster_id;
  return credentials;
}

std::vector<Entrance> entrances_of(const Settings& settings) {
  const app::AddressRules rules{.zero_port_allowed = true, .any_host_allowed = true};
  const auto address = app::parse_address(settings.listen_address, rules);
  return {{absl::StrCat("--listen-address ", settings.listen_address), address.ok() && is_loopback(address->host)}};
}

/// Of a control plane that lets in whoever reaches it.
void warn_if_unsafe(const Settings& settings, Admission admission, const app::Logger& logger) {
  const std::string warning = unsafe_warning(admission, entrances_of(settings), kRole);
  if (!warning.empty()) logger.warning(warning);
}

constexpr size_t kAuthorityFileMax = 1 << 20;

/// Null: no certificates are issued.
std::shared_ptr<const CertificateIssuer> load_issuer(const Settings& settings, const CredentialsPtr& credentials) {
  if (settings.authority.empty()) {
    if (settings.join_address.empty()) return nullptr;
    give_up(
        absl::InvalidArgumentError("--join-address is for a control plane that issues certificates: give --authority"));
  }
  if (credentials == nullptr) {
    give_up(absl::InvalidArgumentError(
        absl::StrCat("--authority needs a certificate for the control plane itself: skuactl cert issue control NAME "
                     "--authority ",
                     settings.authority, ", then give --cert, --key and --ca")));
  }
  CertificateAndKey authority;
  for (const auto& [name, to] : {std::pair{"/ca.pem", &authority.certificate}, {"/ca.key", &authority.key}}) {
    absl::StatusOr<std::string> text = app::read_file(settings.authority + name, kAuthorityFileMax);
    if (!text.ok()) {
      give_up(absl::InvalidArgumentError(absl::StrCat("--authority ", settings.authority, ": ", text.status().message(),
                                                      ": give the directory that skuactl cert init made")));
    }
    *to = *std::move(text);
  }
  auto issuer = CertificateIssuer::make(std::move(authority), settings.certificate_ttl_ns / kSecond, *credentials,
                                        std::time(nullptr));
  if (!issuer.ok()) {
    give_up(absl::FailedPreconditionError(
        absl::StrCat("--authority ", settings.authority, ": ", issuer.status().message())));
  }
  return *std::move(issuer);
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
std::shared_ptr<Auditor> open_audit_log(const Settings& settings, const Clock& clock) {
  if (settings.audit_log == kNoAuditLog) return nullptr;
  const std::string path = settings.audit_log.empty() ? settings.data_dir + "/audit.jsonl" : settings.audit_log;
  auto auditor = std::make_shared<Auditor>(value_or_give_up(AuditLog::open({.path = path})), clock);
  auditor->started(app::version());
  return auditor;
}

ControlServerOptions server_options(const Settings& settings, ClusterIdentity cluster, const app::Logger& logger) {
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

/// Until a stop is asked for.
void serve(ControlServer& server, const Settings& settings, Admission admission,
           const std::shared_ptr<Auditor>& auditor, const app::Logger& logger, app::StopSignal& stop) {
  logger.info("serving", {{"address", server.address()},
                          {"cluster_id", server.cluster_id()},
                          {"cluster_name", server.cluster_name()},
                          {"data_dir", settings.data_dir},
                          {"metadata", settings.metadata},
                          {"join_address", server.join_address().empty() ? "none" : server.join_address()},
                          {"version", app::version()}});
  log_audit_head(auditor, logger);
  warn_if_unsafe(settings, admission, logger);
  const int signal = stop.wait(kUnsafeReminderNs, [&] { warn_if_unsafe(settings, admission, logger); });
  logger.info("stopping", {{"signal", signal}});
  server.shutdown();
  if (auditor != nullptr) auditor->stops();
  log_audit_head(auditor, logger);
  logger.info("stopped");
}

int run(int argc, char** argv) {
  app::check_process(kProgram, app::kFilesOfServer);
  silence_grpc_log();
  const auto stop = value_or_give_up(app::StopSignal::install());
  Settings settings;
  parse_settings(argc, argv, settings);
  const app::Logger logger = app::Logger(settings.log).with_component("control");
  for (const absl::Status& status :
       {check_addresses(settings), check_etcd_options(settings), check_data_dir(settings.data_dir),
        ControlServer::check(server_options(settings, named_cluster(settings), logger))}) {
    if (!status.ok()) give_up(status);
  }
  const CredentialsPtr credentials = load_credentials(settings);
  const Admission admission =
      value_or_give_up(judge_exposure(settings.security, credentials != nullptr, entrances_of(settings), kRole));
  const auto issuer = load_issuer(settings, credentials);
  if (settings.check_config) {
    std::puts("the configuration is valid");
    return app::finish_output(kProgram);
  }

  const SteadyClock clock;
  // Its own, gRPC's and RocksDB's, and some that gRPC makes when there is much to do.
  constexpr size_t kThreads = 48;
  if (auto status = app::check_threads("a control plane", kThreads); !status.ok()) give_up(status);

  // Who started a second one on the same directory learns that, and not that the port is in use.
  const bool is_made = is_there(settings.data_dir + "/identity.toml");
  if (!is_made) check_before_start(settings);
  Metadata metadata;
  // An etcd that cannot be used leaves no directory behind.
  if (!is_made && settings.metadata != kEmbedded) metadata = open_metadata(settings);
  const auto lock = value_or_give_up(app::DirectoryLock::acquire(settings.data_dir, kProgram));
  if (is_made) check_before_start(settings);
  auto identity = value_or_give_up(app::open_identity(settings.data_dir, "control", kDataFormat));
  ClusterIdentity cluster = wanted_cluster(settings, identity);
  const bool is_new = settings.metadata == kEmbedded && !is_there(settings.data_dir + "/metadata");
  if (metadata.store == nullptr) metadata = open_metadata(settings);
  ControlServerOptions options = server_options(settings, std::move(cluster), logger);
  options.credentials = credentials;
  options.security.admission = admission;
  options.issuer = issuer;
  options.join_address = join_address_of(settings);
  options.auditor = open_audit_log(settings, clock);
  const auto server =
      value_or_give_up(ControlServer::start(options, std::move(metadata.store), std::move(metadata.election)));
  if (is_new) {
    logger.info("a new cluster was made in this data directory; its nodes join when they are started",
                {{"data_dir", settings.data_dir}, {"cluster_id", server->cluster_id()}});
  }
  if (auto status = app::adopt_cluster(settings.data_dir, identity, server->cluster_id()); !status.ok()) {
    give_up(status);
  }

  serve(*server, settings, admission, options.auditor, logger, *stop);
  return app::kExitOk;
}

}  // namespace
}  // namespace skua::control

int main(int argc, char** argv) {
  return skua::control::run(argc, argv);
}
