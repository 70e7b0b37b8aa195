// skua-control: membership, shard map and tables of one cluster.
//
//   <data dir>/skua.lock, identity.toml   app/data_dir.h: one process, one cluster
//   <data dir>/metadata/                  the embedded metadata store, unless --metadata names an etcd
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "app/config.h"
#include "app/data_dir.h"
#include "app/exit.h"
#include "app/lock_file.h"
#include "app/log.h"
#include "app/signals.h"
#include "app/uuid.h"
#include "app/version.h"
#include "control/proto/grpc_log.h"
#include "control/server/control_server.h"
#include "control/store/embedded_store.h"
#include "control/store/etcd_election.h"
#include "control/store/etcd_store.h"

namespace skua::control {
namespace {

constexpr const char* kProgram = "skua-control";
constexpr int64_t kDataFormat = 1;
constexpr const char* kEmbedded = "embedded";

struct Settings {
  std::string data_dir;
  std::string metadata = kEmbedded;
  std::string listen_address = "127.0.0.1:7400";
  std::string advertise_address;
  std::string cluster_name;
  std::string cluster_id;
  DurationNs heartbeat_interval_ns = 500 * kMillisecond;
  DurationNs suspect_after_ns = 3 * kSecond;
  DurationNs replace_after_ns = 30 * kSecond;
  size_t watches_per_host = kWatchersPerSourceMax;
  app::LogOptions log;
};

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
                  "etcd://HOST:PORT,.../PREFIX (several control processes with the same value; one leads).")
      .value_name("WHERE");
  program.add_string("listen-address", &settings.listen_address, "Where nodes, clients and skuactl reach it.")
      .value_name("HOST:PORT");
  program
      .add_string("advertise-address", &settings.advertise_address,
                  "With etcd: what others say who is asked and does not lead; the listen address by default.")
      .value_name("HOST:PORT");
  program.add_string("cluster-name", &settings.cluster_name,
                     "The cluster's name: kept when it is created (\"skua\" by default), checked later.");
  program
      .add_string("cluster-id", &settings.cluster_id,
                  "The cluster's id, a UUID: kept when it is created (a fresh one by default), checked later.")
      .value_name("UUID");
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
  program.example("skua-control --data-dir /var/lib/skua/control", "a control plane for nodes on this machine");
  program.example("skua-control --data-dir /var/lib/skua/control --listen-address 10.0.0.1:7400",
                  "a control plane for nodes on other machines");
  program.example(
      "skua-control --data-dir /var/lib/skua/control --listen-address 10.0.0.1:7400 --metadata "
      "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/skua",
      "one of several control planes on one etcd");
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

/// The cluster that this directory and the options name between them.
ClusterIdentity wanted_cluster(const Settings& settings, const app::DataDirIdentity& identity) {
  if (!identity.cluster_id.empty()) {
    if (!settings.cluster_id.empty() && settings.cluster_id != identity.cluster_id) {
      give_up(absl::FailedPreconditionError(absl::StrCat(
          "the data directory ", settings.data_dir, " belongs to cluster ", identity.cluster_id, ", not to ",
          settings.cluster_id, "; give the --data-dir of that cluster, or leave --cluster-id away")));
    }
    if (settings.metadata == kEmbedded && !std::filesystem::exists(settings.data_dir + "/metadata")) {
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

struct Metadata {
  std::unique_ptr<MetadataStore> store;
  std::unique_ptr<Election> election;
};

Metadata open_metadata(const Settings& settings) {
  if (settings.metadata == kEmbedded) {
    return {value_or_give_up(open_embedded_store({.directory = settings.data_dir + "/metadata"})), nullptr};
  }
  if (std::filesystem::exists(settings.data_dir + "/metadata")) {
    give_up(absl::FailedPreconditionError(absl::StrCat(
        "the data directory ", settings.data_dir, " has embedded metadata of a cluster, but --metadata is ",
        settings.metadata, "; give an empty --data-dir, or leave --metadata away")));
  }
  auto store = value_or_give_up(EtcdStore::open({.address = value_or_give_up(parse_etcd_address(settings.metadata))}));
  auto election = make_etcd_election(*store);
  return {std::move(store), std::move(election)};
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

int run(int argc, char** argv) {
  silence_grpc_log();
  const auto stop = value_or_give_up(app::StopSignal::install());
  Settings settings;
  parse_settings(argc, argv, settings);
  const app::Logger logger = app::Logger(settings.log).with_component("control");

  const auto lock = value_or_give_up(app::DirectoryLock::acquire(settings.data_dir, kProgram));
  auto identity = value_or_give_up(app::open_identity(settings.data_dir, "control", kDataFormat));
  ClusterIdentity cluster = wanted_cluster(settings, identity);
  Metadata metadata = open_metadata(settings);
  const auto server = value_or_give_up(ControlServer::start(server_options(settings, std::move(cluster), logger),
                                                            std::move(metadata.store), std::move(metadata.election)));
  if (auto status = app::adopt_cluster(settings.data_dir, identity, server->cluster_id()); !status.ok()) {
    give_up(status);
  }

  logger.info("serving", {{"address", server->address()},
                          {"cluster_id", server->cluster_id()},
                          {"cluster_name", server->cluster_name()},
                          {"data_dir", settings.data_dir},
                          {"metadata", settings.metadata},
                          {"version", app::version()}});
  const int signal = stop->wait();
  logger.info("stopping", {{"signal", signal}});
  server->shutdown();
  logger.info("stopped");
  return app::kExitOk;
}

}  // namespace
}  // namespace skua::control

int main(int argc, char** argv) {
  return skua::control::run(argc, argv);
}
