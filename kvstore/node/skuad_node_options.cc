#include "kvstore/node/skuad_node_options.h"

#include <sys/utsname.h>

#include <algorithm>
#include <string>
#include <thread>

#include "app/uuid.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/codec/size_limits.h"
#include "rpc/memory/buffer_pool.h"
#include "rpc/protocol/traffic_settings.h"

namespace skua::kv {
namespace {

/// Window that a node offers. A session takes the smaller window of its two ends.
constexpr uint16_t kSessionWindow = 256;
/// Smallest limit of memory for answers: enough for scans of a few clients at the same time.
constexpr size_t kAnswersMin = size_t{64} << 20;

/// Default of --copy-rate, in proportion to the number of processors. So copies on a small machine leave processor and
/// disk time to requests.
size_t copy_bytes_per_s() {
  constexpr size_t kBytesPerProcessor = size_t{8} << 20;
  return kBytesPerProcessor * std::max(1U, std::thread::hardware_concurrency());
}

rpc::EndpointOptions endpoint_options(const SkuadOptions& config, const MemoryBudget& memory) {
  rpc::EndpointOptions endpoint;
  config.traffic.apply(endpoint.protocol);
  endpoint.protocol.window = kSessionWindow;
  endpoint.protocol.message_max_bytes = kMessageBytesMax;
  endpoint.answers_limit_bytes = std::max(memory.messages, kAnswersMin);
  endpoint.sessions_max = config.sessions_max;
  endpoint.sessions_reserved = config.sessions_max / 4;
  endpoint.handlers_reserved = endpoint.handlers_max / 8;
  endpoint.sessions_per_peer_max = std::min(config.sessions_max, kSessionsPerPeerMax);
  endpoint.sessions_per_host_max = std::max(config.sessions_max / 2, 1u);
  endpoint.memory_limit_bytes = memory.messages;
  endpoint.keeps_memory_reserve = true;
  endpoint.spin_ns = config.polling == Polling::kBusy ? kTimeNever : config.spin;
  return endpoint;
}

std::string host_name() {
  utsname name{};
  return ::uname(&name) == 0 ? name.nodename : "unknown";
}

void size_disk(const SkuadOptions& config, const MemoryBudget& memory, uint64_t disk_bytes, NodeOptions& options) {
  const DiskSizes sizes = disk_sizes(config, disk_bytes);
  options.log_files.segment_bytes = sizes.log_segment_bytes;
  options.log_files.group_bytes_max = std::min<size_t>(memory.log_group, options.log_files.segment_bytes / 2);
  options.disk_reserve_bytes = sizes.reserve_bytes;
}

}  // namespace

absl::StatusOr<MemoryBudget> memory_budget(const SkuadOptions& config) {
  MemoryWishes wishes = config.memory;
  wishes.workers = config.workers;
  return split_memory(wishes);
}

DiskSizes disk_sizes(const SkuadOptions& config, uint64_t disk_bytes) {
  DiskSizes sizes = sizes_for_disk(disk_bytes, config.workers);
  if (config.log_segment != 0) sizes.log_segment_bytes = config.log_segment;
  if (config.disk_reserve != 0) sizes.reserve_bytes = config.disk_reserve;
  return sizes;
}

size_t threads_of(const SkuadOptions& config) {
  constexpr size_t kAlways = 24;
  constexpr size_t kSpare = 16;
  constexpr size_t kPerWorker = 3;   // the worker's own thread, its log thread and its applier
  constexpr size_t kForGateway = 4;  // beside its serving threads: for its start, its files and its passwords
  // Each serving thread, of its own or a worker's, has a client of the cluster, whose shard map has a thread.
  const size_t of_gateway = 2 * size_t{config.gateway.threads};
  const size_t gateway = config.gateway.speaks() ? kForGateway + (of_gateway > 0 ? of_gateway : config.workers) : 0;
  return kAlways + kSpare + kPerWorker * config.workers + static_cast<size_t>(config.reader_threads) +
         static_cast<size_t>(config.background_threads) + gateway;
}

NodeOptions node_options(const SkuadOptions& config, const MemoryBudget& memory, uint64_t disk_bytes) {
  NodeOptions options;
  static_cast<NodeSettings&>(options) = static_cast<const NodeSettings&>(config);
  options.instance = app::random_uuid();
  options.host = host_name();
  options.probe_transports = false;  // open_network() has probed the addresses
  options.endpoint = endpoint_options(config, memory);
  options.storage.cache_bytes = memory.cache;
  options.storage.write_buffer_bytes = memory.memtables;
  options.storage.background_threads = config.background_threads;
  options.memory_bytes = memory.tier;
  options.memory_budget = memory;
  size_disk(config, memory, disk_bytes, options);
  options.copy_bytes_per_s = config.copy_rate != 0 ? config.copy_rate : copy_bytes_per_s();
  auto& engine = options.server.engine;
  engine.unfinished_bytes_max = std::min(engine.unfinished_bytes_max, memory.messages / 2);
  // A write that this node takes must find memory at the other nodes, which have as much.
  engine.replicated_payload_bytes_max =
      rpc::BufferPool::message_bytes_max(memory.messages, kMessageBytesMax) - kEntryMessageHeadBytesMax;
  engine.durability = config.sync_writes ? Durability::kSync : Durability::kFlush;
  return options;
}

}  // namespace skua::kv
