// skuad: the storage node. Options, the data directory, signals and the log are here; the rest is Node.
#include <malloc.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "app/config.h"
#include "app/data_dir.h"
#include "app/exit.h"
#include "app/lock_file.h"
#include "app/log.h"
#include "app/signals.h"
#include "app/transport_options.h"
#include "app/uuid.h"
#include "app/value_text.h"
#include "app/version.h"
#include "control/proto/grpc_log.h"
#include "kvstore/codec/limits.h"
#include "kvstore/server/disk_sizes.h"
#include "kvstore/server/limits.h"
#include "kvstore/server/memory_budget.h"
#include "kvstore/server/node.h"
#include "kvstore/server/storage_watch.h"
#include "rpc/base/status.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::kv {
namespace {

constexpr const char* kProgram = "skuad";
constexpr int64_t kFormatVersion = 1;
/// What a node offers; a session's window is the smaller one of both ends.
constexpr uint16_t kSessionWindow = 256;

enum class Polling : uint8_t { kAdaptive, kBusy };
enum class TransportKind : uint8_t { kTcp, kDpdk, kVerbs };

struct Config {
  std::string data_dir;
  std::string control_address = "127.0.0.1:7400";
  std::string grpc_address = "127.0.0.1:7410";
  std::string data_address = "127.0.0.1:7420";
  std::string advertise_host;
  std::string zone;
  uint32_t workers = 1;
  Polling polling = Polling::kAdaptive;
  DurationNs spin = 50 * kMicrosecond;
  TransportKind transport = TransportKind::kTcp;
  rpc::DpdkSettings dpdk;
  rpc::VerbsSettings verbs;
  rpc::TrafficSettings traffic;
  int reader_threads = 2;
  uint32_t sessions_max = 4096;
  size_t memory = size_t{1} << 30;
  size_t block_cache = 0;
  size_t write_buffer = 0;
  size_t message_memory = 0;
  int background_threads = 2;
  bool sync_writes = true;
  LogOptions log_files;
  LogIo log_io = LogIo::kAuto;
  size_t log_segment = 0;   // 0: by the disk's size
  size_t disk_reserve = 0;  // likewise
  size_t copy_rate = 0;
  bool check_config = false;
  app::LogOptions log;
};

/// --copy-rate 0: small machines copy more slowly, so that requests are not kept from the processors and the disk.
size_t copy_bytes_per_s() {
  constexpr size_t kBytesPerProcessor = size_t{8} << 20;
  return kBytesPerProcessor * std::max(1U, std::thread::hardware_concurrency());
}

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

/// "host:port" or "[v6 address]:port"; nothing if it is neither.
std::optional<HostPort> split(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return std::nullopt;
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  return HostPort{std::move(host), static_cast<uint16_t>(port)};
}

std::optional<std::string> complain_about_address(const std::string& text) {
  if (split(text)) return std::nullopt;
  return "must be HOST:PORT";
}

std::optional<std::string> complain_about_segment(const std::string& text) {
  const auto bytes = app::parse_size(text);
  if (!bytes.ok() || *bytes == 0) return std::nullopt;  // what is no size is complained about elsewhere
  if (*bytes >= int64_t{kLogSegmentBytesMin} && *bytes % int64_t{kPageBytes} == 0) return std::nullopt;
  return "must be 0, or a multiple of 4KiB and at least 1MiB";
}

void declare_storage(app::Program& program, Config& config) {
  program.add_size("memory", &config.memory,
                   "Memory of the whole process, but for DPDK's. About half of it is for keys and values: what RocksDB "
                   "does not have yet, and what was used lately.");
  program.add_size("block-cache", &config.block_cache,
                   "Of --memory, for RocksDB's blocks and unflushed writes. 0: three eighths, more while others leave "
                   "theirs.");
  program.add_size("write-buffer", &config.write_buffer,
                   "Of --block-cache, at most three quarters: for unflushed writes. 0: half of it.");
  program.add_int("background-threads", &config.background_threads, "Flushes and compactions at a time.")
      .range(1, 64)
      .unit("threads");
  program.add_bool(
      "sync-writes", &config.sync_writes,
      "Sync each group of writes before it is acknowledged. Turning it off may lose the last acknowledged writes "
      "in a power failure; of replicated tables only in one that takes all members at once.");
  program
      .add_size("log-segment", &config.log_segment,
                "Size of the log's files; a multiple of 4 KiB, at least 1 MiB. A write takes at most half of one: from "
                "40 MiB on the largest values and batches fit. 0: 64 MiB, less on a disk below 2 GiB per worker.")
      .check(complain_about_segment);
  program.add_choice("log-io", &config.log_io,
                     {{"auto", LogIo::kAuto}, {"pwritev2", LogIo::kPwritev2}, {"io_uring", LogIo::kIoUring}},
                     "How the log is written. auto: past the page cache where the file system takes it, else as "
                     "pwritev2 does: through the page cache. io_uring: as auto, through a submission ring.");
  program.add_size("disk-reserve", &config.disk_reserve,
                   "Free space of the data directory's file system below which the node refuses writes other than "
                   "deletes; it needs it for its own work. 0: 512 MiB, at most a quarter of the disk.");
  program.add_size("copy-rate", &config.copy_rate,
                   "Bytes per second at which shards are copied from other nodes, together; two shards are copied at a "
                   "time, each with half of it. 0: 8 MiB for each processor, which leaves most of it to requests.");
  program
      .add_int("log-segments-max", &config.log_files.segments_max,
               "Files of one worker's log; writes are refused when all are in use.")
      .range(8, 4096)
      .unit("files");
}

void declare_transport(app::Program& program, Config& config) {
  program.add_choice(
      "transport", &config.transport,
      {{"tcp", TransportKind::kTcp}, {"dpdk", TransportKind::kDpdk}, {"verbs", TransportKind::kVerbs}},
      "What sessions run over. tcp: --data-address; dpdk: the --dpdk-* options; verbs: the --verbs-* options.");
  app::add_dpdk_options(program, &config.dpdk);
  app::add_verbs_options(program, &config.verbs);
  app::add_traffic_options(program, &config.traffic);
}

void declare(app::Program& program, Config& config) {
  program.add_string("data-dir", &config.data_dir, "Where the node keeps its identity and its data.")
      .value_name("DIR")
      .required();
  program
      .add_string("control-address", &config.control_address,
                  "The control plane; several addresses with commas between them.")
      .value_name("HOST:PORT")
      .check(complain_about_address);
  program
      .add_string("grpc-address", &config.grpc_address,
                  "Where to listen for bootstrap and admin requests; port 0 takes a free one.")
      .value_name("HOST:PORT")
      .check(complain_about_address);
  program
      .add_string("data-address", &config.data_address,
                  "Where worker 0 listens for sessions, as a numeric address; worker i listens on the i-th port "
                  "after it, or, with port 0, on a free one.")
      .value_name("IP:PORT")
      .check(complain_about_address);
  program
      .add_string("advertise-host", &config.advertise_host,
                  "What others are told to dial instead of the hosts in the addresses above, as a numeric address.")
      .value_name("IP");
  program.add_string("zone", &config.zone,
                     "What fails together, such as a rack: replicas of a shard avoid sharing one.");
  program.add_int("workers", &config.workers, "Polling threads.").range(1, 256).unit("threads");
  program.add_choice("polling", &config.polling, {{"adaptive", Polling::kAdaptive}, {"busy", Polling::kBusy}},
                     "adaptive: spin for a while, then sleep until traffic comes. busy: never sleep.");
  program.add_duration("spin", &config.spin,
                       "How long adaptive polling spins after the last work, while that mostly pays.");
  declare_transport(program, config);
  program.add_int("reader-threads", &config.reader_threads, "Reads and scans that wait for the disk at a time.")
      .range(1, 256)
      .unit("threads");
  program
      .add_int("sessions-max", &config.sessions_max,
               "Sessions of one worker. A sixteenth of them is kept for other nodes.")
      .range(1, 65536)
      .unit("sessions");
  program.add_size("message-memory", &config.message_memory,
                   "Of --memory, for messages of one worker that are under way. 0: an eighth, divided by --workers.");
  declare_storage(program, config);
  program.add_bool("check-config", &config.check_config, "Check the configuration and end.").flag_only();
  app::add_log_options(program, &config.log);
  program.example("skuad --data-dir /var/lib/skua", "a node of the cluster whose control plane is on this machine");
  program.example("skuad --data-dir n1 --grpc-address 127.0.0.1:0 --data-address 127.0.0.1:0",
                  "one of several nodes on this machine");
  program.example("skuad --data-dir n1 --transport dpdk --dpdk-devices 0000:3b:00.0 --dpdk-addresses 10.1.0.7/16",
                  "sessions over a network card that DPDK drives");
  program.example("skuad --data-dir n1 --transport verbs --verbs-device mlx5_0", "sessions over an RDMA adapter");
}

TransportFactory tcp_factory(const Config& config) {
  const HostPort base = split(config.data_address).value_or(HostPort{});
  return [base, advertise = config.advertise_host](
             uint32_t worker, const rpc::EndpointIdentity& self) -> absl::StatusOr<std::unique_ptr<rpc::Transport>> {
    if (base.port != 0 && base.port + worker > 65535) {
      return absl::InvalidArgumentError(absl::StrCat("worker ", worker, " would listen on port ", base.port + worker,
                                                     ": choose a lower port in --data-address"));
    }
    rpc::TcpOptions tcp;
    tcp.listen_ip = base.host;
    tcp.listen_port = base.port == 0 ? uint16_t{0} : static_cast<uint16_t>(base.port + worker);
    tcp.advertise_ip = advertise;
    tcp.self = self;
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

absl::StatusOr<MemoryBudget> memory_budget(const Config& config) {
  return split_memory({.node = config.memory,
                       .workers = config.workers,
                       .cache = config.block_cache,
                       .memtables = config.write_buffer,
                       .messages = config.message_memory});
}

/// Arenas of malloc keep what threads freed, and large blocks among small ones keep them apart: fewer arenas, and blocks from a
/// memtable's on straight from the system and back to it. Before there are threads.
void tame_malloc() {
#ifdef __GLIBC__
  constexpr int kArenasMax = 4;
  constexpr int kMmapThreshold = 256 << 10;
  static_cast<void>(::mallopt(M_ARENA_MAX, kArenasMax));           // NOLINT(concurrency-mt-unsafe): one thread yet
  static_cast<void>(::mallopt(M_MMAP_THRESHOLD, kMmapThreshold));  // NOLINT(concurrency-mt-unsafe)
#endif
}

rpc::EndpointOptions endpoint_options(const Config& config, const MemoryBudget& memory) {
  rpc::EndpointOptions endpoint;
  config.traffic.apply(endpoint.protocol);
  endpoint.protocol.window = kSessionWindow;
  endpoint.protocol.message_max_bytes = kMessageBytesMax;
  endpoint.sessions_max = config.sessions_max;
  endpoint.sessions_reserved = config.sessions_max / 16;
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

/// What starting again without a change cannot cure is a matter of usage.
bool is_usage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
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

absl::StatusOr<rpc::DpdkOptions> dpdk_options(const Config& config) {
  return config.dpdk.to_options(static_cast<uint16_t>(config.workers));
}

/// DPDK's EAL and ports; null unless sessions run over them. What DPDK lacks is for people to mend.
std::unique_ptr<rpc::DpdkFabric> start_dpdk(const Config& config) {
  if (config.transport != TransportKind::kDpdk) return nullptr;
  absl::StatusOr<std::unique_ptr<rpc::DpdkFabric>> fabric = rpc::DpdkFabric::start(value_or_fail(dpdk_options(config)));
  if (!fabric.ok()) app::fail_usage(kProgram, std_view(fabric.status().message()));
  return *std::move(fabric);
}

/// The RDMA device; null unless sessions run over it. What is missing is for people to mend.
std::unique_ptr<rpc::VerbsFabric> start_verbs(const Config& config) {
  if (config.transport != TransportKind::kVerbs) return nullptr;
  absl::StatusOr<std::unique_ptr<rpc::VerbsFabric>> fabric =
      rpc::VerbsFabric::start(value_or_fail(config.verbs.to_options()));
  if (!fabric.ok()) app::fail_usage(kProgram, std_view(fabric.status().message()));
  return *std::move(fabric);
}

/// Why the node must end, told by one of its threads to main.
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

void size_disk(const Config& config, const MemoryBudget& memory, NodeOptions& options) {
  const DiskSizes sizes = sizes_for_disk(value_or_fail(disk_bytes_of(config.data_dir)), config.workers);
  options.log_files = config.log_files;
  options.log_io = config.log_io;
  options.log_files.segment_bytes = config.log_segment != 0 ? config.log_segment : sizes.log_segment_bytes;
  options.log_files.group_bytes_max = std::min<size_t>(memory.log_group, options.log_files.segment_bytes / 2);
  options.disk_reserve_bytes = config.disk_reserve != 0 ? config.disk_reserve : sizes.reserve_bytes;
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

int serve(const Config& config, app::StopSignal& stop) {
  const app::Logger logger(config.log);
  const app::DirectoryLock lock = value_or_fail(app::DirectoryLock::acquire(config.data_dir, kProgram));
  app::DataDirIdentity identity = value_or_fail(app::open_identity(config.data_dir, "node", kFormatVersion));
  const MemoryBudget memory = value_or_fail(memory_budget(config));
  Ending ending(stop);
  const std::unique_ptr<rpc::DpdkFabric> dpdk = start_dpdk(config);  // outlives the node, whose workers use it
  if (dpdk != nullptr) {
    for (const std::string& port : dpdk->describe()) logger.info(port);
  }
  const std::unique_ptr<rpc::VerbsFabric> verbs = start_verbs(config);  // likewise
  if (verbs != nullptr) logger.info(verbs->describe());

  NodeOptions options;
  options.data_dir = config.data_dir;
  options.node_uuid = identity.node_uuid;
  options.cluster_id = identity.cluster_id;
  options.instance = app::random_uuid();
  options.host = host_name();
  options.zone = config.zone;
  options.control_address = config.control_address;
  options.grpc_address = config.grpc_address;
  options.advertise_host = config.advertise_host;
  options.workers = config.workers;
  options.reader_threads = config.reader_threads;
  options.make_transport = dpdk != nullptr    ? dpdk_factory(*dpdk)
                           : verbs != nullptr ? verbs_factory(*verbs)
                                              : tcp_factory(config);
  // A DPDK port that was opened is ours, and a worker's lane of it takes one transport at a time.
  options.probe_transports = dpdk == nullptr;
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
  options.server.engine.durability = config.sync_writes ? LogDurability::kSync : LogDurability::kFlush;
  options.adopt_cluster = [&](const std::string& cluster_id) {
    return app::adopt_cluster(config.data_dir, identity, cluster_id);
  };
  options.on_fatal = [&](const absl::Status& why) { ending.fatal(why); };
  options.log = node_log(logger.with_component("node"));

  const std::unique_ptr<Node> node = value_or_fail(Node::start(std::move(options)));
  log_memory(logger, memory);
  logger.info("started", {{"node", identity.node_uuid},
                          {"incarnation", node->incarnation()},
                          {"grpc_address", node->grpc_address()},
                          {"data_dir", config.data_dir},
                          {"workers", config.workers},
                          {"version", app::version()}});
  const int signal = stop.wait();
  if (signal != 0) logger.info("stopping", {{"signal", signal}});
  node->stop();
  logger.info("stopped");
  if (const absl::Status why = ending.why(); !why.ok()) fail(why);
  return app::kExitOk;
}

int run(int argc, const char* const* argv) {
  tame_malloc();
  control::silence_grpc_log();
  const auto stop = value_or_fail(app::StopSignal::install());
  Config config;
  app::Program program({.name = kProgram,
                        .summary = "Skua storage node",
                        .description = "Serves shards of tables to clients, from memory and RocksDB, as the control "
                                       "plane assigns them. Waits for a control plane that is away."});
  declare(program, config);
  program.parse_or_exit(argc, argv);
  if (config.transport == TransportKind::kDpdk) static_cast<void>(value_or_fail(dpdk_options(config)));
  if (config.transport == TransportKind::kVerbs) static_cast<void>(value_or_fail(config.verbs.to_options()));
  static_cast<void>(value_or_fail(memory_budget(config)));
  if (config.check_config) {
    std::puts("the configuration is valid");
    return app::kExitOk;
  }
  return serve(config, *stop);
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  return skua::kv::run(argc, argv);
}
