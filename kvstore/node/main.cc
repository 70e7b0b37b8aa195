// skuad: the storage node's main(). It handles options, the data directory, signals and the log; Node does the rest.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
#include "app/transport_options.h"
#include "app/version.h"
#include "control/proto/grpc_log.h"
#include "control/security/credentials.h"
#include "control/security/tls_version.h"
#include "kvstore/node/data_dir_checks.h"
#include "kvstore/node/disk_sizes.h"
#include "kvstore/node/listening.h"
#include "kvstore/node/machine_memory.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/node/node.h"
#include "kvstore/node/node_state.h"
#include "kvstore/node/skuad_exit.h"
#include "kvstore/node/skuad_gateway.h"
#include "kvstore/node/skuad_network.h"
#include "kvstore/node/skuad_node_options.h"
#include "kvstore/node/skuad_options.h"
#include "kvstore/node/skuad_security.h"
#include "kvstore/node/storage_watch.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

constexpr DurationNs kUnsafeReminderNs = 3600 * kSecond;
constexpr int64_t kFormatVersion = 1;

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

/// Logs that the disk is full, unless `told` is the same error already. Then waits kReopenPauseNs. False: the node must
/// stop.
bool pause_for_room(const app::Logger& logger, app::StopSignal& stop, const absl::Status& why, absl::Status& told) {
  if (std::exchange(told, why) != why) {
    logger.error("the disk is full, and the node cannot start: it tries again every 5 s; free space there",
                 {{"why", std_view(why.message())}});
  }
  return !stop.wait_for(kReopenPauseNs).has_value();
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
    auto lock = app::DirectoryLock::acquire(config.data_dir, kSkuad);
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
                    : std::optional(room_or_fail(app::DirectoryLock::acquire(config.data_dir, kSkuad)));
  if (!data.lock) return false;
  if (!known) {
    ok_or_fail(check_has_no_data(config.data_dir));
    return true;
  }
  data.identity = value_or_fail(app::open_identity(config.data_dir, "node", kFormatVersion));
  static_cast<void>(value_or_fail(read_state(DirectoryFiles(config.data_dir))));
  return true;
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
  const auto mib = [](size_t bytes) { return absl::StrCat(bytes >> 20, "MiB"); };
  logger.info("memory is divided", {{"all", mib(memory.node)},
                                    {"program", mib(memory.program)},
                                    {"keys_and_values", mib(memory.tier)},
                                    {"block_cache", mib(memory.cache)},
                                    {"of_it_write_buffers", mib(memory.memtables)},
                                    {"messages_per_worker", mib(memory.messages)},
                                    {"log_group_per_worker", mib(memory.log_group)}});
  warn_if_unsafe(config, admission, logger);
  if (is_in_memory(config.data_dir)) {
    logger.warning(
        "the data directory is on a file system in memory (tmpfs): all its data are gone when the machine stops",
        {{"data_dir", config.data_dir}});
  }
}

int stopped(const app::Logger& logger, const absl::Status& why) {
  logger.info("stopped");
  if (!why.ok()) fail_start(why);
  return app::kExitOk;
}

/// Why the node must end; OK: the process was asked to. `fatal`: what a thread of the node says.
absl::Status wait_for_end(const SkuadOptions& config, control::Admission admission, const app::Logger& logger,
                          app::StopSignal& stop, std::future<absl::Status> fatal) {
  const int signal = stop.wait(kUnsafeReminderNs, [&] { warn_if_unsafe(config, admission, logger); });
  const bool is_fatal = fatal.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  const absl::Status why = is_fatal ? fatal.get() : absl::OkStatus();
  if (signal != 0) {
    logger.info("stopping: the process was asked to", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  } else {
    logger.error("stopping: the node cannot go on", {{"why", std_view(why.message())}});
  }
  return why;
}

/// Other nodes lead the shards of this one before it stops, so that clients do not wait for another primary. Whatever
/// comes of it, the node stops then; a second signal ends the process at once.
void yield(Node& node, DurationNs limit_ns, const app::Logger& logger) {
  if (limit_ns == 0) return;
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<size_t> shards = node.yield(limit_ns);
  const auto took = std::chrono::steady_clock::now() - begin;
  const auto took_ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  if (!shards.ok()) {
    logger.info("shards were not handed over: another member leads when it misses this node",
                {{"after_ms", took_ms}, {"why", std_view(shards.status().message())}});
  } else if (*shards > 0) {
    logger.info("other nodes lead the shards of this one", {{"shards", *shards}, {"after_ms", took_ms}});
  } else {
    logger.info("no shard was handed over: this node leads none, or nobody else can", {{"after_ms", took_ms}});
  }
}

/// What the pages for operators ask; null: it is not there yet. Must outlive the pages.
struct Shown {
  std::atomic<Node*> node{nullptr};
  std::atomic<gateway::GatewayStarter*> gateway{nullptr};
};

/// What the node shows its operator, also while it starts.
app::OperatorPages pages_of(const Shown& shown) {
  const auto is_alive = [&shown] {
    return (shown.node == nullptr || shown.node.load()->is_alive()) &&
           (shown.gateway == nullptr || shown.gateway.load()->is_alive());
  };
  // A gateway that waits for its tables does not count: the node may have to be ready before anybody makes them.
  const auto readiness = [&shown]() -> std::vector<HealthCheck> {
    if (shown.node != nullptr) return shown.node.load()->readiness();
    return {{.name = "recovered", .passes = false, .detail = "the node is starting"}};
  };
  const auto metrics = [&shown] {
    if (shown.node == nullptr) return metrics_of_starting_node();
    return absl::StrCat(shown.node.load()->metrics(), shown.gateway == nullptr ? "" : shown.gateway.load()->metrics());
  };
  return {.is_alive = is_alive, .readiness = readiness, .metrics = metrics};
}

/// From the start of the node to its end: the exit code.
int run_node(const SkuadOptions& config, const app::Logger& logger, app::StopSignal& stop,
             app::ServiceReporter& reporter, app::DataDirIdentity& identity, NodeOptions options) {
  const auto security = static_cast<const NodeSecurity&>(options);
  std::promise<absl::Status> fatal;
  bool told_to_stop = false;
  absl::Status told;
  options.wait_for_room = [&](const absl::Status& why) {
    told_to_stop = !pause_for_room(logger, stop, why, told);
    return !told_to_stop;
  };
  options.adopt_cluster = [&](const std::string& cluster_id) {
    return app::adopt_cluster(config.data_dir, identity, cluster_id);
  };
  options.on_fatal = [&](const absl::Status& why) {
    fatal.set_value(why);
    stop.request_stop();
  };
  options.log = node_log(logger.with_component("node"));
  Shown shown;
  std::unique_ptr<app::HttpServer> http = value_or_fail(app::serve_pages(config.http, pages_of(shown)));
  auto node = Node::start(std::move(options));
  if (told_to_stop) return stopped(logger, absl::OkStatus());
  const std::unique_ptr<Node> started = value_or_fail(std::move(node));
  shown.node = started.get();
  std::unique_ptr<gateway::GatewayStarter> gateway =
      start_gateway(config, security.credentials, *started, logger.with_component("gateway"));
  shown.gateway = gateway.get();
  auto renewer = renewer_of(config, security.credentials, logger.with_component("node"));
  logger.info("started", {{"node", identity.node_uuid},
                          {"incarnation", started->incarnation()},
                          {"grpc_address", started->grpc_address()},
                          {"http_address", http == nullptr ? "none" : http->address()},
                          {"data_dir", config.data_dir},
                          {"workers", config.workers},
                          {"version", app::version()}});
  reporter.ready(app::service_probe(pages_of(shown)));
  const absl::Status why = wait_for_end(config, security.admission, logger, stop, fatal.get_future());
  reporter.stopping();
  if (why.ok()) yield(*started, config.yield_timeout, logger);
  http.reset();     // its pages ask the node and the gateway
  gateway.reset();  // its clients get the answers that the node can give yet
  renewer.reset();  // its thread uses gRPC, and stopped() may end the process
  started->stop();
  return stopped(logger, why);
}

int serve(const SkuadOptions& config, app::StopSignal& stop) {
  const app::Logger logger(config.log);
  app::ServiceReporter reporter(app::Notifier::from_environment());
  const MemoryBudget memory = value_or_fail(memory_budget(config));
  ok_or_fail(check_file_size_limit());
  ok_or_fail(app::check_threads("a node like this", threads_of(config), ", or give fewer --workers"));
  DataDir data;
  const bool exists = value_or_fail(data_dir_exists(config.data_dir));
  if (exists && !take_data_dir(config, logger, stop, data)) return stopped(logger, absl::OkStatus());
  control::CredentialsPtr credentials = known_credentials(config, data.identity, logger);
  const std::string disk = nearest_directory(config.data_dir);
  const uint64_t disk_bytes = value_or_fail(disk_space_of(disk)).capacity;
  ok_or_fail(check_disk(disk, disk_bytes, config.workers, disk_sizes(config, disk_bytes)));
  const Network network = open_network(config, logger);
  ok_or_fail(probe_gateway(config));
  if (!data.lock) data.lock = room_or_fail(app::DirectoryLock::acquire(config.data_dir, kSkuad));
  if (credentials == nullptr && !config.join_token.empty()) {
    credentials = join_cluster(config, data.identity, logger, stop);
    if (credentials == nullptr) return stopped(logger, absl::OkStatus());
  }
  if (data.identity.node_uuid.empty()) {
    const std::string uuid = credentials == nullptr ? std::string() : credentials->self().name;
    data.identity = room_or_fail(app::open_identity(config.data_dir, "node", kFormatVersion, uuid));
  }
  const NodeSecurity security = security_with(config, std::move(credentials));
  log_start(config, security.admission, logger, data.identity, memory);

  NodeOptions options = node_options(config, memory, disk_bytes);
  options.make_transport = transport_factory(config, network, logger);
  options.node_uuid = data.identity.node_uuid;
  options.secret = data.identity.secret;
  static_cast<NodeSecurity&>(options) = security;
  options.cluster_id = data.identity.cluster_id;
  if (security.credentials != nullptr) options.cluster_id = security.credentials->self().cluster_id;
  return run_node(config, logger, stop, reporter, data.identity, std::move(options));
}

int run(int argc, const char* const* argv) {
  app::check_process(kSkuad, app::kFilesOfServer);
  tame_malloc();
  control::silence_grpc_log();
  control::require_tls_13();
  const auto stop = value_or_fail(app::StopSignal::install());
  SkuadOptions config;
  app::Program program({.name = kSkuad,
                        .summary = "Skua storage node",
                        .description = "Serves shards of tables to clients, from memory and RocksDB, as the control "
                                       "plane assigns them. Waits for a control plane that is away.",
                        .manual_section = 8});
  declare(program, config);
  program.parse_or_exit(argc, argv);
  ok_or_fail(app::check_transport_flags(program.selected(), name_of(config.transport)));
  ok_or_fail(check_network(config));
  ok_or_fail(app::check_http(config.http));
  static_cast<void>(value_or_fail(memory_budget(config)));
  ok_or_fail(check_fits(config.memory.node, machine_memory()));
  ok_or_fail(check_listening(listening_of(config)));
  ok_or_fail(check_security(config));
  ok_or_fail(check_gateway(config));
  if (config.check_config) {
    std::puts("the configuration is valid");
    return app::finish_output(kSkuad);
  }
  return serve(config, *stop);
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  return skua::kv::run(argc, argv);
}
