// skuad: the storage node's main(). It handles options, the data directory, signals and the log; Node does the rest.
#include <malloc.h>
#include <sys/utsname.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "app/config.h"
#include "app/data_dir.h"
#include "app/exit.h"
#include "app/lock_file.h"
#include "app/log.h"
#include "app/process.h"
#include "app/signals.h"
#include "app/transport_options.h"
#include "app/uuid.h"
#include "app/version.h"
#include "control/client/certificate_renewer.h"
#include "control/proto/grpc_log.h"
#include "control/security/credentials.h"
#include "control/security/exposure.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/node/data_dir_checks.h"
#include "kvstore/node/disk_sizes.h"
#include "kvstore/node/listening.h"
#include "kvstore/node/machine_memory.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/node/node.h"
#include "kvstore/node/node_certificate.h"
#include "kvstore/node/node_identity.h"
#include "kvstore/node/node_limits.h"
#include "kvstore/node/node_state.h"
#include "kvstore/node/process_limits.h"
#include "kvstore/node/skuad_options.h"
#include "kvstore/node/storage_watch.h"
#include "rpc/base/status.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/sealed/seal.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::kv {
namespace {

constexpr const char* kProgram = "skuad";
/// Of the certificate that the node needs.
constexpr const char* kRole = "node";
constexpr DurationNs kUnsafeReminderNs = 3600 * kSecond;
constexpr int64_t kFormatVersion = 1;
/// Window that a node offers. A session takes the smaller window of its two ends.
constexpr uint16_t kSessionWindow = 256;

/// Default of --copy-rate, in proportion to the number of processors. So copies on a small machine leave processor and
/// disk time to requests.
size_t copy_bytes_per_s() {
  constexpr size_t kBytesPerProcessor = size_t{8} << 20;
  return kBytesPerProcessor * std::max(1U, std::thread::hardware_concurrency());
}

/// Connections that a worker accepts. All workers together may take half of the files that may be open. Logs, databases
/// and gRPC need the others.
uint32_t callers_of_worker(uint32_t workers) {
  constexpr uint64_t kFew = 64;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(app::open_files_max() / 2 / workers, kFew, rpc::TcpOptions().callers_max));
}

TransportFactory tcp_factory(const SkuadOptions& config, const std::string& advertise_ip) {
  return [base = listening_of(config), advertise_ip](
             uint32_t worker, const rpc::EndpointIdentity& self) -> absl::StatusOr<std::unique_ptr<rpc::Transport>> {
    rpc::TcpOptions tcp;
    tcp.listen_ip = base.data_host;
    tcp.listen_port = base.data_port == 0 ? uint16_t{0} : static_cast<uint16_t>(base.data_port + worker);
    tcp.advertise_ip = advertise_ip;
    tcp.self = self;
    tcp.callers_max = callers_of_worker(base.workers);
    tcp.callers_per_host_max = tcp.callers_max / 2;
    auto transport = rpc::TcpTransport::create(std::move(tcp));
    if (!transport.ok()) return transport.status();
    return *std::move(transport);
  };
}

TransportFactory dpdk_factory(rpc::DpdkFabric& fabric) {
  return [&fabric](uint32_t worker, const rpc::EndpointIdentity& self) {
    return fabric.make_transport(static_cast<uint16_t>(worker), self);
  };
}

TransportFactory verbs_factory(rpc::VerbsFabric& fabric) {
  return [&fabric](uint32_t /*worker*/, const rpc::EndpointIdentity& self) { return fabric.make_transport(self); };
}

/// How packets are protected. A node that takes peers without certificates has sessions with them, which have no keys,
/// and all sessions of an endpoint are alike.
absl::StatusOr<rpc::PacketProtection> protection_of(const SkuadOptions& config, bool has_certificates) {
  if (config.security != control::SecurityChoice::kAccept) {
    return rpc::choose_protection(config.packets, has_certificates);
  }
  if (config.packets == rpc::PacketProtection::kDefault || config.packets == rpc::PacketProtection::kOff) {
    return rpc::PacketProtection::kOff;
  }
  return absl::InvalidArgumentError(
      "--security accept takes peers without certificates, whose packets cannot be protected: leave --packets away");
}

absl::StatusOr<MemoryBudget> memory_budget(const SkuadOptions& config) {
  return split_memory({.node = config.memory,
                       .workers = config.workers,
                       .cache = config.block_cache,
                       .memtables = config.write_buffer,
                       .messages = config.message_memory});
}

/// Limits the memory that malloc retains. Arenas keep memory that threads freed, and fragment when large blocks lie
/// among small ones. So there are few arenas, and blocks of 256 KiB or more (such as those of memtables) come from the
/// system and return to it directly. Call it before threads exist.
void tame_malloc() {
#ifdef __GLIBC__
  constexpr int kArenasMax = 4;
  constexpr int kMmapThreshold = 256 << 10;
  static_cast<void>(::mallopt(M_ARENA_MAX, kArenasMax));           // NOLINT(concurrency-mt-unsafe): one thread yet
  static_cast<void>(::mallopt(M_MMAP_THRESHOLD, kMmapThreshold));  // NOLINT(concurrency-mt-unsafe)
#endif
}

/// Smallest limit of memory for answers: enough for scans of a few clients at the same time.
constexpr size_t kAnswersMin = size_t{64} << 20;

rpc::EndpointOptions endpoint_options(const SkuadOptions& config, const MemoryBudget& memory) {
  rpc::EndpointOptions endpoint;
  config.traffic.apply(endpoint.protocol);
  endpoint.protocol.window = kSessionWindow;
  endpoint.protocol.message_max_bytes = kMessageBytesMax;
  endpoint.answers_limit_bytes = std::max(memory.messages, kAnswersMin);
  endpoint.sessions_max = config.sessions_max;
  endpoint.sessions_reserved = config.sessions_max / 4;
  endpoint.sessions_per_peer_max = std::min(config.sessions_max, kSessionsPerPeerMax);
  endpoint.sessions_per_host_max = std::max(config.sessions_max / 2, 1u);
  endpoint.memory_limit_bytes = memory.messages;
  endpoint.spin_ns = config.polling == Polling::kBusy ? kTimeNever : config.spin;
  return endpoint;
}

NodeLog node_log(const app::Logger& logger) {
  return [logger](LogSeverity severity, const std::string& line) {
    switch (severity) {
      case LogSeverity::kInfo: return logger.info(line);
      case LogSeverity::kWarning: return logger.warning(line);
      case LogSeverity::kError: return logger.error(line);
    }
  };
}

std::string host_name() {
  utsname name{};
  return ::uname(&name) == 0 ? name.nodename : "unknown";
}

/// True for errors that another start cannot cure unless somebody changes something.
bool is_usage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable: return true;
    default: return false;
  }
}

[[noreturn]] void fail(const absl::Status& status) {
  if (is_usage(status)) app::fail_usage(kProgram, std_view(status.message()));
  app::fail(kProgram, std_view(status.message()));
}

template <typename T>
T value_or_fail(absl::StatusOr<T> result) {
  if (!result.ok()) fail(result.status());
  return *std::move(result);
}

/// The value, for an operation on a data directory that no node has used yet. Such a node does not wait for room on a
/// full disk but fails.
template <typename T>
T room_or_fail(absl::StatusOr<T> result) {
  if (!absl::IsResourceExhausted(result.status())) return value_or_fail(std::move(result));
  app::fail(kProgram,
            absl::StrCat(result.status().message(),
                         ": free space on the file system of the data directory, or give another --data-dir"));
}

void ok_or_fail(const absl::Status& status) {
  if (!status.ok()) fail(status);
}

/// Logs that the disk is full, unless `told` is the same error already. Then waits kReopenPauseNs. False: the node must
/// stop.
bool pause_for_room(const app::Logger& logger, app::StopSignal& stop, const absl::Status& why, absl::Status& told) {
  if (std::exchange(told, why) != why) {
    logger.error("the disk is full, and the node cannot start: it tries again every 5 s; free space there",
                 {{"why", std_view(why.message())}});
  }
  return !stop.wait_for(kReopenPauseNs).has_value();
}

absl::StatusOr<rpc::DpdkOptions> dpdk_options(const SkuadOptions& config) {
  return config.dpdk.to_options(static_cast<uint16_t>(config.workers));
}

/// Starts DPDK's EAL and ports. Null unless sessions run over DPDK. An error exits the process as a usage error,
/// because a person must correct it.
std::unique_ptr<rpc::DpdkFabric> start_dpdk(const SkuadOptions& config) {
  if (config.transport != TransportKind::kDpdk) return nullptr;
  absl::StatusOr<std::unique_ptr<rpc::DpdkFabric>> fabric = rpc::DpdkFabric::start(value_or_fail(dpdk_options(config)));
  if (!fabric.ok()) app::fail_usage(kProgram, std_view(fabric.status().message()));
  return *std::move(fabric);
}

/// Opens the RDMA device. Null unless sessions run over verbs. An error exits the process as a usage error, because a
/// person must correct it.
std::unique_ptr<rpc::VerbsFabric> start_verbs(const SkuadOptions& config) {
  if (config.transport != TransportKind::kVerbs) return nullptr;
  absl::StatusOr<std::unique_ptr<rpc::VerbsFabric>> fabric =
      rpc::VerbsFabric::start(value_or_fail(config.verbs.to_options()));
  if (!fabric.ok()) app::fail_usage(kProgram, std_view(fabric.status().message()));
  return *std::move(fabric);
}

/// Carries the reason why the node must end from one of its threads to main().
class Ending {
 public:
  explicit Ending(app::StopSignal& stop) : stop_(stop) {}

  void fatal(const absl::Status& why) {
    {
      const std::lock_guard lock(mutex_);
      why_ = why;
    }
    stop_.request_stop();
  }
  absl::Status why() {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  app::StopSignal& stop_;
  std::mutex mutex_;
  absl::Status why_;
};

DiskSizes disk_sizes(const SkuadOptions& config, uint64_t disk_bytes) {
  DiskSizes sizes = sizes_for_disk(disk_bytes, config.workers);
  if (config.log_segment != 0) sizes.log_segment_bytes = config.log_segment;
  if (config.disk_reserve != 0) sizes.reserve_bytes = config.disk_reserve;
  return sizes;
}

void size_disk(const SkuadOptions& config, const MemoryBudget& memory, NodeOptions& options) {
  const DiskSizes sizes = disk_sizes(config, value_or_fail(disk_bytes_of(config.data_dir)));
  options.log_files = config.log_files;
  options.log_io = config.log_io;
  options.log_files.segment_bytes = sizes.log_segment_bytes;
  options.log_files.group_bytes_max = std::min<size_t>(memory.log_group, options.log_files.segment_bytes / 2);
  options.disk_reserve_bytes = sizes.reserve_bytes;
}

void log_memory(const app::Logger& logger, const MemoryBudget& memory) {
  const auto mib = [](size_t bytes) { return absl::StrCat(bytes >> 20, "MiB"); };
  logger.info("memory is divided", {{"all", mib(memory.node)},
                                    {"program", mib(memory.program)},
                                    {"keys_and_values", mib(memory.tier)},
                                    {"block_cache", mib(memory.cache)},
                                    {"of_it_write_buffers", mib(memory.memtables)},
                                    {"messages_per_worker", mib(memory.messages)},
                                    {"log_group_per_worker", mib(memory.log_group)}});
}

/// The lock and the identity of the data directory. The lock is held as long as the node runs.
struct DataDir {
  std::optional<app::DirectoryLock> lock;
  app::DataDirIdentity identity;
};

/// Empty: the node was told to stop meanwhile.
std::optional<app::DirectoryLock> lock_when_there_is_room(const SkuadOptions& config, const app::Logger& logger,
                                                          app::StopSignal& stop) {
  absl::Status told;
  while (true) {
    auto lock = app::DirectoryLock::acquire(config.data_dir, kProgram);
    if (!absl::IsResourceExhausted(lock.status())) return value_or_fail(std::move(lock));
    if (!pause_for_room(logger, stop, lock.status(), told)) return std::nullopt;
  }
}

/// Locks an existing data directory. This happens before the addresses are probed: if a node is started twice, the lock
/// says so, whereas the addresses would only say that a port is in use. A directory with an identity waits for room on
/// a full disk. False: the node was told to stop meanwhile.
bool take_data_dir(const SkuadOptions& config, const app::Logger& logger, app::StopSignal& stop, DataDir& data) {
  const bool known = value_or_fail(app::read_identity(config.data_dir)).has_value();
  data.lock = known ? lock_when_there_is_room(config, logger, stop)
                    : std::optional(room_or_fail(app::DirectoryLock::acquire(config.data_dir, kProgram)));
  if (!data.lock) return false;
  if (!known) {
    ok_or_fail(check_has_no_data(config.data_dir));
    return true;
  }
  data.identity = value_or_fail(app::open_identity(config.data_dir, "node", kFormatVersion));
  static_cast<void>(value_or_fail(read_state(DirectoryFiles(config.data_dir))));
  return true;
}

/// The network that sessions run over. open_network() checks that ports or devices are usable before the node creates
/// or registers anything.
struct Network {
  std::unique_ptr<rpc::DpdkFabric> dpdk;
  std::unique_ptr<rpc::VerbsFabric> verbs;
  std::string advertise_ip;
};

Network open_network(const SkuadOptions& config, const app::Logger& logger) {
  const Listening listening = listening_of(config);
  Network network;
  network.advertise_ip = value_or_fail(resolve_advertise_host(listening));
  const std::string warning = loopback_warning(listening, network.advertise_ip);
  if (!warning.empty()) logger.warning(warning);
  ok_or_fail(probe_listening(listening));
  network.dpdk = start_dpdk(config);
  if (network.dpdk != nullptr) {
    for (const std::string& port : network.dpdk->describe()) logger.info(port);
  }
  network.verbs = start_verbs(config);
  if (network.verbs != nullptr) logger.info(network.verbs->describe());
  return network;
}

NodeOptions node_options(const SkuadOptions& config, const MemoryBudget& memory, const Network& network) {
  NodeOptions options;
  options.data_dir = config.data_dir;
  options.instance = app::random_uuid();
  options.host = host_name();
  options.zone = config.zone;
  options.control_address = config.control_address;
  options.grpc_address = config.grpc_address;
  options.advertise_host = config.advertise_host;
  options.workers = config.workers;
  options.reader_threads = config.reader_threads;
  options.make_transport = network.dpdk != nullptr    ? dpdk_factory(*network.dpdk)
                           : network.verbs != nullptr ? verbs_factory(*network.verbs)
                                                      : tcp_factory(config, network.advertise_ip);
  options.probe_transports = false;  // open_network() has probed the addresses
  options.endpoint = endpoint_options(config, memory);
  options.storage.cache_bytes = memory.cache;
  options.storage.write_buffer_bytes = memory.memtables;
  options.storage.background_threads = config.background_threads;
  options.memory_bytes = memory.tier;
  options.memory_budget = memory;
  size_disk(config, memory, options);
  options.copy_bytes_per_s = config.copy_rate != 0 ? config.copy_rate : copy_bytes_per_s();
  auto& engine = options.server.engine;
  engine.unfinished_bytes_max = std::min(engine.unfinished_bytes_max, memory.messages / 2);
  engine.durability = config.sync_writes ? Durability::kSync : Durability::kFlush;
  return options;
}

/// Of a node that lets in whoever reaches it.
void warn_if_unsafe(const SkuadOptions& config, control::Admission admission, const app::Logger& logger) {
  const std::string warning = control::unsafe_warning(admission, entrances_of(config), kRole);
  if (!warning.empty()) logger.warning(warning);
}

/// Writes the first lines of the log: addresses, data directory, cluster and memory of the node.
void log_start(const SkuadOptions& config, control::Admission admission, const app::Logger& logger,
               const app::DataDirIdentity& identity, const MemoryBudget& memory) {
  logger.info("starting",
              {{"version", app::version()},
               {"node", identity.node_uuid},
               {"cluster", identity.cluster_id.empty() ? "the first that it joins" : identity.cluster_id},
               {"control_address", config.control_address},
               {"grpc_address", config.grpc_address},
               {"data_address", config.transport == TransportKind::kTcp ? config.data_address : "none: not over TCP"},
               {"advertise_host", config.advertise_host.empty() ? "-" : config.advertise_host},
               {"data_dir", config.data_dir},
               {"workers", config.workers}});
  log_memory(logger, memory);
  warn_if_unsafe(config, admission, logger);
  if (is_in_memory(config.data_dir)) {
    logger.warning(
        "the data directory is on a file system in memory (tmpfs): all its data are gone when the machine stops",
        {{"data_dir", config.data_dir}});
  }
}

int stopped(const app::Logger& logger, const absl::Status& why) {
  logger.info("stopped");
  if (!why.ok()) fail(why);
  return app::kExitOk;
}

int run_until_stopped(Node& node, const SkuadOptions& config, control::Admission admission, const app::Logger& logger,
                      app::StopSignal& stop, Ending& ending) {
  const int signal = stop.wait(kUnsafeReminderNs, [&] { warn_if_unsafe(config, admission, logger); });
  const absl::Status why = ending.why();
  if (signal != 0) {
    logger.info("stopping: the process was asked to", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  } else {
    logger.error("stopping: the node cannot go on", {{"why", std_view(why.message())}});
  }
  node.stop();
  return stopped(logger, why);
}

/// Threads that the node needs: those that always exist, and spare ones for libraries that create more under load.
size_t threads_of(const SkuadOptions& config) {
  constexpr size_t kAlways = 24;
  constexpr size_t kSpare = 16;
  constexpr size_t kPerWorker = 3;  // the worker's own thread, its log thread and its applier
  return kAlways + kSpare + kPerWorker * config.workers + static_cast<size_t>(config.reader_threads) +
         static_cast<size_t>(config.background_threads);
}

/// Null: the node was told to stop meanwhile.
control::CredentialsPtr join_cluster(const SkuadOptions& config, const app::DataDirIdentity& identity,
                                     const app::Logger& logger, app::StopSignal& stop) {
  return value_or_fail(join_by_token({.data_dir = config.data_dir,
                                      .control_address = config.control_address,
                                      .token = config.join_token,
                                      .node_uuid = identity.node_uuid,
                                      .security = config.security,
                                      .log = node_log(logger),
                                      .pause = [&](DurationNs time) { return !stop.wait_for(time).has_value(); }}));
}

/// `credentials`: those that options name; null: none.
int serve(const SkuadOptions& config, control::CredentialsPtr credentials, app::StopSignal& stop) {
  const app::Logger logger(config.log);
  const MemoryBudget memory = value_or_fail(memory_budget(config));
  ok_or_fail(check_file_size_limit());
  ok_or_fail(app::check_threads("a node like this", threads_of(config), ", or give fewer --workers"));
  DataDir data;
  const bool exists = value_or_fail(data_dir_exists(config.data_dir));
  if (exists && !take_data_dir(config, logger, stop, data)) return stopped(logger, absl::OkStatus());
  if (credentials == nullptr) {
    credentials =
        value_or_fail(load_joined(config.data_dir, !config.join_token.empty(), node_log(logger), config.security));
  }
  if (credentials != nullptr) {
    ok_or_fail(
        check_node_identity(config.data_dir, data.identity.node_uuid, data.identity.cluster_id, credentials->self()));
  }
  const std::string disk = nearest_directory(config.data_dir);
  const uint64_t disk_bytes = value_or_fail(disk_bytes_of(disk));
  ok_or_fail(check_disk(disk, disk_bytes, config.workers, disk_sizes(config, disk_bytes)));
  const Network network = open_network(config, logger);  // outlives the node, whose workers use it
  if (!data.lock) data.lock = room_or_fail(app::DirectoryLock::acquire(config.data_dir, kProgram));
  if (credentials == nullptr && !config.join_token.empty()) {
    credentials = join_cluster(config, data.identity, logger, stop);
    if (credentials == nullptr) return stopped(logger, absl::OkStatus());
    ok_or_fail(
        check_node_identity(config.data_dir, data.identity.node_uuid, data.identity.cluster_id, credentials->self()));
  }
  if (data.identity.node_uuid.empty()) {
    const std::string uuid = credentials == nullptr ? std::string() : credentials->self().name;
    data.identity = room_or_fail(app::open_identity(config.data_dir, "node", kFormatVersion, uuid));
  }
  const control::Admission admission =
      value_or_fail(control::judge_exposure(config.security, credentials != nullptr, entrances_of(config), kRole));
  log_start(config, admission, logger, data.identity, memory);

  Ending ending(stop);
  bool told_to_stop = false;
  NodeOptions options = node_options(config, memory, network);
  options.node_uuid = data.identity.node_uuid;
  options.secret = data.identity.secret;
  options.credentials = credentials;
  options.packets = value_or_fail(protection_of(config, credentials != nullptr));
  options.admission = admission;
  options.cluster_id = data.identity.cluster_id;
  if (credentials != nullptr) options.cluster_id = credentials->self().cluster_id;
  absl::Status told;
  options.wait_for_room = [&](const absl::Status& why) {
    told_to_stop = !pause_for_room(logger, stop, why, told);
    return !told_to_stop;
  };
  options.adopt_cluster = [&](const std::string& cluster_id) {
    return app::adopt_cluster(config.data_dir, data.identity, cluster_id);
  };
  options.on_fatal = [&](const absl::Status& why) { ending.fatal(why); };
  options.log = node_log(logger.with_component("node"));
  auto node = Node::start(std::move(options));
  if (told_to_stop) return stopped(logger, absl::OkStatus());
  const std::unique_ptr<Node> started = value_or_fail(std::move(node));
  std::unique_ptr<control::CertificateRenewer> renewer;
  if (credentials != nullptr && config.credentials.empty()) {
    renewer = keep_fresh(config.data_dir, config.control_address, credentials, node_log(logger.with_component("node")));
  }
  logger.info("started", {{"node", data.identity.node_uuid},
                          {"incarnation", started->incarnation()},
                          {"grpc_address", started->grpc_address()},
                          {"data_dir", config.data_dir},
                          {"workers", config.workers},
                          {"version", app::version()}});
  return run_until_stopped(*started, config, admission, logger, stop, ending);
}

int run(int argc, const char* const* argv) {
  app::check_process(kProgram, app::kFilesOfServer);
  tame_malloc();
  control::silence_grpc_log();
  const auto stop = value_or_fail(app::StopSignal::install());
  SkuadOptions config;
  app::Program program({.name = kProgram,
                        .summary = "Skua storage node",
                        .description = "Serves shards of tables to clients, from memory and RocksDB, as the control "
                                       "plane assigns them. Waits for a control plane that is away."});
  declare(program, config);
  program.parse_or_exit(argc, argv);
  ok_or_fail(app::check_transport_flags(program.selected(), name_of(config.transport)));
  if (config.transport == TransportKind::kDpdk) static_cast<void>(value_or_fail(dpdk_options(config)));
  if (config.transport == TransportKind::kVerbs) static_cast<void>(value_or_fail(config.verbs.to_options()));
  static_cast<void>(value_or_fail(memory_budget(config)));
  ok_or_fail(check_fits(config.memory, machine_memory()));
  ok_or_fail(check_listening(listening_of(config)));
  ok_or_fail(check_join_token(config.join_token, config.credentials));
  const auto credentials =
      value_or_fail(control::Credentials::load(config.credentials, control::Role::kNode, config.security));
  const bool secure = credentials != nullptr || !config.join_token.empty() || has_joined(config.data_dir);
  static_cast<void>(value_or_fail(protection_of(config, secure)));
  static_cast<void>(value_or_fail(control::judge_exposure(config.security, secure, entrances_of(config), kRole)));
  if (config.check_config) {
    std::puts("the configuration is valid");
    return app::finish_output(kProgram);
  }
  return serve(config, credentials, *stop);
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  return skua::kv::run(argc, argv);
}
