#include "kvstore/server/node.h"

#include <grpcpp/impl/codegen/service_type.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/client/node_agent.h"
#include "control/client/shard_map_cache.h"
#include "control/core/protocol_version.h"
#include "control/core/uuid.h"
#include "control/server/bootstrap_server.h"
#include "kvstore/engine/recovery.h"
#include "kvstore/engine/shard_copy.h"
#include "kvstore/engine/shard_files.h"
#include "kvstore/engine/shard_snapshot.h"
#include "kvstore/log/posix_device.h"
#include "kvstore/server/admin_service.h"
#include "kvstore/server/disk_thread.h"
#include "kvstore/server/memory_watch.h"
#include "kvstore/server/node_state.h"
#include "kvstore/server/replica_findings.h"
#include "kvstore/server/shard_manager.h"
#include "kvstore/server/snapshot_copy.h"
#include "kvstore/server/snapshot_source.h"
#include "kvstore/server/storage_watch.h"
#include "kvstore/server/view_file.h"
#include "kvstore/server/worker.h"

namespace skua::kv {
namespace {

absl::StatusOr<rpc::Uuid> parse_uuid(const std::string& text) {
  if (!control::is_uuid(text)) return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a uuid"));
  rpc::Uuid uuid;
  size_t digit = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const int value = c <= '9' ? c - '0' : c - 'a' + 10;
    uint8_t& byte = uuid.bytes[digit / 2];
    byte = static_cast<uint8_t>(byte << 4 | value);
    ++digit;
  }
  return uuid;
}

/// "host:port" with another host.
std::string with_host(const std::string& address, const std::string& host) {
  if (host.empty()) return address;
  const std::string port = address.substr(address.rfind(':'));
  return host.find(':') == std::string::npos ? host + port : absl::StrCat("[", host, "]", port);
}

/// Of one link to another node's worker, under way: they stand before the next heartbeat, which must not come late.
constexpr size_t kPeerBytesMax = size_t{8} << 20;

class NodeImpl final : public Node, private control::SessionAcceptor {
 public:
  explicit NodeImpl(NodeOptions options)
      : options_(std::move(options)), readers_({.threads = options_.reader_threads}) {}

  ~NodeImpl() override { stop(); }

  absl::Status start();
  void stop() override;
  const std::string& grpc_address() const override { return advertised_address_; }
  uint64_t incarnation() const override { return state_.incarnation; }
  uint64_t applied_revision() const override { return applied_revision_.load(); }
  absl::StatusOr<std::string> metrics() override;

 private:
  // SessionAcceptor, on gRPC's threads.
  control::NodeDescription describe() override;
  std::optional<bool> is_instance(const std::string& instance) override { return instance == options_.instance; }
  absl::StatusOr<std::string> open_session(uint32_t worker, const control::TransportDescriptor& caller,
                                           const std::string& offer) override;

  absl::Status prepare_data_dir();
  absl::StatusOr<std::vector<std::unique_ptr<rpc::Transport>>> make_transports(const std::string& cluster_id);
  absl::StatusOr<std::vector<OpenLog>> recover_logs(const std::string& cluster_id,
                                                    std::map<ShardId, absl::Status>& refused);
  absl::StatusOr<OpenLog> recover_one(const std::string& directory, uint32_t number, const std::string& cluster_id,
                                      std::map<ShardId, absl::Status>& refused);
  absl::Status read_unsynced(const ShardViews& views);
  absl::Status disown_damaged(const ShardViews& views, const std::map<ShardId, absl::Status>& damaged);
  absl::Status start_copying(const std::string& cluster_id, std::map<ShardId, absl::Status>& refused);
  absl::Status finish_copies(std::map<ShardId, absl::Status>& refused);
  [[nodiscard]] absl::StatusOr<SnapshotSource::Exported> export_snapshot(ShardId id, const std::string& path);
  [[nodiscard]] absl::Status take_copy(ShardId id, const std::string& path);
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ShardCopy>> build_copy(ShardId id, const std::string& path,
                                                                      const std::string& directory);
  [[nodiscard]] CopyMeans copy_means();
  [[nodiscard]] std::string copies_dir() const { return options_.data_dir + "/copies"; }
  absl::Status start_workers(const std::string& cluster_id);
  [[nodiscard]] ReplicationEvents replication_events(uint32_t worker);
  void make_map_cache(const std::string& cluster_id);
  absl::Status start_grpc();
  void start_agent();
  void registered(const control::Registration& registration);
  absl::Status join(const control::Registration& registration);
  void follow_map();
  void tell_copies(uint32_t worker, const std::vector<CopyProgress>& copies);
  void fatal(const absl::Status& status);
  void log(LogSeverity severity, const std::string& line) const {
    if (options_.log) options_.log(severity, line);
  }

  const NodeOptions options_;
  const SteadyClock clock_;
  NodeState state_;
  std::optional<UnsyncedShards> unsynced_;
  std::string advertised_address_;
  std::atomic<uint64_t> applied_revision_{0};
  std::atomic<bool> fatal_told_{false};

  // Declared so that what is used outlives its users: destruction goes upwards.
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<MemoryWatch> memory_watch_;
  std::unique_ptr<ShardManager> manager_;  // holds the stores, which workers use until they stop
  ReaderPool readers_;
  ReplicaFindings findings_{[this](control::ReplicaReport findings) {
    const std::lock_guard lock(mutex_);
    if (agent_ != nullptr) agent_->set_findings(std::move(findings));
  }};
  std::unique_ptr<PeerBootstrap> bootstrap_;
  ClusterId cluster_{};
  std::unique_ptr<SnapshotSource> snapshots_;
  CopySlots copy_slots_{kCopiesMax};
  std::unique_ptr<DiskThread> disk_;
  std::unique_ptr<DiskThread> builder_;

  /// Guards workers_ and description_ against gRPC's threads while the node joins its first cluster,
  /// and joined_. Workers come once and stay until stop().
  std::mutex mutex_;
  bool joined_ = false;
  bool stopped_ = false;
  control::NodeDescription description_;
  std::map<uint32_t, std::vector<control::CopyReport>> copies_;  // by worker
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<StorageWatch> watch_;

  std::unique_ptr<grpc::Service> admin_;
  std::unique_ptr<control::BootstrapServer> grpc_;
  std::unique_ptr<control::ShardMapCache> map_cache_;
  std::unique_ptr<control::NodeAgent> agent_;
};

// --- Starting

absl::Status NodeImpl::start() {
  if (absl::Status status = prepare_data_dir(); !status.ok()) return status;
  engine_ = make_rocksdb_engine(options_.storage);
  if (options_.memory_budget) memory_watch_ = std::make_unique<MemoryWatch>(*options_.memory_budget, *engine_);
  if (options_.cluster_id.empty()) {
    // Which cluster is not known yet; that the addresses can be listened on is made sure of now.
    if (options_.probe_transports) {
      if (auto probes = make_transports(""); !probes.ok()) return probes.status();
    }
  } else if (absl::Status status = start_workers(options_.cluster_id); !status.ok()) {
    return status;
  }
  if (absl::Status status = start_grpc(); !status.ok()) return status;
  start_agent();
  return absl::OkStatus();
}

absl::Status NodeImpl::prepare_data_dir() {
  auto state = read_state(options_.data_dir);
  if (!state.ok()) return state.status();
  state_ = *state;
  ++state_.incarnation;
  if (absl::Status status = write_state(options_.data_dir, state_); !status.ok()) return status;
  std::error_code error;
  std::filesystem::create_directories(ShardManager::shards_dir(options_.data_dir), error);
  if (error) {
    return absl::InternalError(
        absl::StrCat("creating ", ShardManager::shards_dir(options_.data_dir), ": ", error.message()));
  }
  if (absl::Status status = files::remove_leftovers(ShardManager::shards_dir(options_.data_dir)); !status.ok()) {
    return status;
  }
  const std::lock_guard lock(mutex_);
  description_.node_uuid = options_.node_uuid;
  description_.incarnation = state_.incarnation;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<rpc::Transport>>> NodeImpl::make_transports(const std::string& cluster_id) {
  std::vector<std::unique_ptr<rpc::Transport>> transports;
  for (uint32_t i = 0; i < options_.workers; ++i) {
    const auto identity = worker_identity(options_.node_uuid, state_.incarnation, cluster_id, i);
    if (!identity.ok()) return identity.status();
    auto transport = options_.make_transport(i, *identity);
    if (!transport.ok()) return transport.status();
    transports.push_back(*std::move(transport));
  }
  return transports;
}

/// Brings what the logs hold into the databases. Logs of workers that this start has not are emptied too.
absl::StatusOr<std::vector<OpenLog>> NodeImpl::recover_logs(const std::string& cluster_id,
                                                            std::map<ShardId, absl::Status>& refused) {
  const std::string parent = options_.data_dir + "/log";
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error) return absl::InternalError(absl::StrCat("creating ", parent, ": ", error.message()));
  std::vector<OpenLog> logs;
  for (uint32_t i = 0;; ++i) {
    const std::string directory = absl::StrCat(parent, "/", i);
    if (i >= options_.workers && !std::filesystem::exists(directory, error)) return logs;
    auto log = recover_one(directory, i, cluster_id, refused);
    if (!log.ok()) return log.status();
    if (i < options_.workers) {
      logs.push_back(*std::move(log));
    } else if (absl::Status closed = log->log->close(); !closed.ok()) {
      return closed;
    }
  }
}

absl::StatusOr<OpenLog> NodeImpl::recover_one(const std::string& directory, uint32_t number,
                                              const std::string& cluster_id, std::map<ShardId, absl::Status>& refused) {
  const auto node = parse_uuid(options_.node_uuid);
  if (!node.ok()) return node.status();
  const auto cluster = parse_uuid(cluster_id);
  if (!cluster.ok()) return cluster.status();
  auto device = open_posix_device(directory, {.io = options_.log_io});
  if (!device.ok()) return device.status();
  RecoveryOptions recovery{.log = options_.log_files, .shards_dir = ShardManager::shards_dir(options_.data_dir)};
  // The workers' memory is not taken yet; half of it, because the segments behind the chunk are read meanwhile.
  recovery.chunk_bytes = std::min(recovery.chunk_bytes, options_.memory_bytes / 2);
  recovery.log.identity.log_number = number;
  std::memcpy(recovery.log.identity.node_id.data(), node->bytes.data(), recovery.log.identity.node_id.size());
  std::memcpy(recovery.log.identity.cluster_id.data(), cluster->bytes.data(), recovery.log.identity.cluster_id.size());
  recovery.tell = [this, number](const std::string& line) {
    log(LogSeverity::kInfo, absl::StrCat("worker=", number, " ", line));
  };
  const TimeNs started = clock_.now_ns();
  auto recovered = recover_log(**device, recovery, *engine_);
  if (!recovered.ok()) return recovered.status();
  log(LogSeverity::kInfo,
      absl::StrCat("log recovered worker=", number, " records=", recovered->records_replayed,
                   " refused_shards=", recovered->refused.size(), " ms=", (clock_.now_ns() - started) / kMillisecond));
  for (const auto& [id, why] : recovered->refused) {
    log(LogSeverity::kError, absl::StrCat("shard is refused shard=", id.table_id, "-", id.shard, ": ", why.ToString()));
    refused[id] = why;
  }
  return OpenLog{*std::move(device), std::move(recovered->log)};
}

absl::Status NodeImpl::start_workers(const std::string& cluster_id) {
  auto transports = make_transports(cluster_id);
  if (!transports.ok()) return transports.status();
  std::map<ShardId, absl::Status> refused;
  if (absl::Status started = start_copying(cluster_id, refused); !started.ok()) return started;
  std::map<ShardId, absl::Status> damaged;
  auto logs = recover_logs(cluster_id, damaged);
  if (!logs.ok()) return logs.status();
  auto views = read_views(options_.data_dir);
  if (!views.ok()) return views.status();
  if (absl::Status read = read_unsynced(*views); !read.ok()) return read;
  if (absl::Status disowned = disown_damaged(*views, damaged); !disowned.ok()) return disowned;
  refused.merge(damaged);
  bootstrap_ = make_grpc_peer_bootstrap();
  make_map_cache(cluster_id);  // before the workers, who may tell it to hurry
  std::vector<ShardHost*> hosts;
  std::vector<Worker*> watched;
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < options_.workers; ++i) {
    WorkerOptions worker;
    worker.index = i;
    worker.endpoint = options_.endpoint;
    worker.server = options_.server;
    worker.endpoint.seed ^= state_.incarnation << 8 | i;
    worker.server.engine.memory.budget_bytes = options_.memory_bytes / options_.workers;
    worker.self = {node_id_of(options_.node_uuid), state_.storage_incarnation};
    worker.links.cluster_id = cluster_id;
    worker.links.node_uuid = options_.node_uuid;
    worker.links.seed = worker.endpoint.seed;
    worker.links.bytes_max = kPeerBytesMax;
    worker.replication = replication_events(i);
    worker.copying = copy_means();
    worker.server.replica.hold_bytes = std::min(worker.server.replica.hold_bytes, options_.memory_bytes / 8);
    worker.bootstrap = bootstrap_.get();
    auto made = Worker::create(worker, std::move((*transports)[i]), clock_, readers_, std::move((*logs)[i]));
    if (!made.ok()) return made.status();
    workers_.push_back(*std::move(made));
    workers_.back()->on_newer_map([this] { map_cache_->hurry(); });
    hosts.push_back(workers_.back().get());
    watched.push_back(workers_.back().get());
    const rpc::Descriptor& descriptor = workers_.back()->descriptor();
    description_.workers.push_back({i, {{descriptor.transport, descriptor.encode()}}});
    log(LogSeverity::kInfo, absl::StrCat("worker listening worker=", i, " transport=", descriptor.transport));
  }
  description_.cluster_id = cluster_id;
  joined_ = true;
  watch_ = std::make_unique<StorageWatch>(
      StorageWatch::Options{.data_dir = options_.data_dir,
                            .reserve_bytes = options_.disk_reserve_bytes,
                            .log = [this](LogSeverity severity, const std::string& line) { log(severity, line); },
                            .standing_trouble = unrecovered_shards(refused),
                            .slow_copies = [this] { return snapshots_->slow_exports(clock_.now_ns()); },
                            .on_trouble =
                                [this](const std::string& trouble) {
                                  const std::lock_guard lock(mutex_);
                                  if (agent_ != nullptr) agent_->set_trouble(trouble);
                                }},
      std::move(watched));
  manager_ = std::make_unique<ShardManager>(
      ShardManager::Options{.data_dir = options_.data_dir,
                            .node_uuid = options_.node_uuid,
                            .cluster_id = cluster_id,
                            .state = state_,
                            .refused = std::move(refused),
                            .on_applied =
                                [this](uint64_t revision) {
                                  applied_revision_.store(revision);
                                  agent_->set_applied_revision(revision);
                                },
                            .views = *std::move(views),
                            .unsynced = &*unsynced_,
                            .log = options_.log,
                            .ingest = [this](ShardId id, const std::string& path) { return take_copy(id, path); }},
      *engine_, std::move(hosts));
  return absl::OkStatus();
}

absl::Status NodeImpl::read_unsynced(const ShardViews& views) {
  const auto boot = boot_number();
  if (!boot.ok()) return boot.status();
  auto unsynced = UnsyncedShards::read(options_.data_dir, *boot);
  if (!unsynced.ok()) return unsynced.status();
  unsynced_ = *std::move(unsynced);
  size_t doubtful = 0;
  for (const auto& [id, view] : views) doubtful += unsynced_->doubt(id) != 0 ? 1 : 0;
  if (doubtful == 0) return absl::OkStatus();
  log(LogSeverity::kWarning,
      absl::StrCat(
          "the machine was started anew without an orderly stop of the node: ", doubtful,
          " replicas may lack writes of durability flush, and lead no shard before they have them from others"));
  return absl::OkStatus();
}

/// Replicas whose logs or databases are damaged may lack what they have acknowledged. Others have it; so this node's storage gets
/// another number, under which it is a member of no view, and learns what it lacks. The damaged data stay until somebody is
/// there to learn from (ShardManager). Where this node alone holds a shard that is whole, it keeps its number: that shard would
/// be served by nobody.
absl::Status NodeImpl::disown_damaged(const ShardViews& views, const std::map<ShardId, absl::Status>& damaged) {
  const ReplicaId self{node_id_of(options_.node_uuid), state_.storage_incarnation};
  bool lacks_some = false;
  for (const auto& [id, view] : views) {
    if (damaged.contains(id)) {
      lacks_some = lacks_some || view.mentions(self);
    } else if (view.members.size() == 1 && view.is_member(self)) {
      return absl::OkStatus();
    }
  }
  if (!lacks_some) return absl::OkStatus();
  NodeState next = state_;
  ++next.storage_incarnation;
  if (absl::Status written = write_state(options_.data_dir, next); !written.ok()) return written;
  state_ = next;
  log(LogSeverity::kWarning,
      absl::StrCat("replicas here are damaged: the node learns again what it had, storage_incarnation=",
                   state_.storage_incarnation));
  return absl::OkStatus();
}

// --- Copies of shards, from here and to here

absl::Status NodeImpl::start_copying(const std::string& cluster_id, std::map<ShardId, absl::Status>& refused) {
  const auto cluster = parse_uuid(cluster_id);
  if (!cluster.ok()) return cluster.status();
  std::memcpy(cluster_.data(), cluster->bytes.data(), cluster_.size());
  if (absl::Status finished = finish_copies(refused); !finished.ok()) return finished;
  SnapshotSource::Options source;
  source.directory = options_.data_dir + "/snapshots";
  source.seed = mix64(node_id_of(options_.node_uuid)) ^ mix64(state_.incarnation);
  source.clock = [this] { return clock_.now_ns(); };
  auto made =
      SnapshotSource::create(source, [this](ShardId id, const std::string& path) { return export_snapshot(id, path); });
  if (!made.ok()) return made.status();
  snapshots_ = *std::move(made);
  disk_ = std::make_unique<DiskThread>(
      DiskThread::Options{.name = "copies", .on_idle = [this] { snapshots_->sweep(clock_.now_ns()); }});
  builder_ = std::make_unique<DiskThread>(DiskThread::Options{.name = "copies-build"});
  return absl::OkStatus();
}

/// What a crash left of copies. One whose shard has data is not needed: it was taken, or is to be asked for again; one whose
/// shard has none is the shard.
absl::Status NodeImpl::finish_copies(std::map<ShardId, absl::Status>& refused) {
  std::error_code error;
  std::filesystem::create_directories(copies_dir(), error);
  if (error) return files::io_error("making", copies_dir(), error);
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator it(copies_dir(), error), end; !error && it != end; it.increment(error)) {
    found.push_back(it->path());
  }
  if (error) return files::io_error("listing", copies_dir(), error);
  const std::string shards = ShardManager::shards_dir(options_.data_dir);
  for (const auto& path : found) {
    const std::string name = path.filename().string();
    const auto id = files::parse_shard_name(name);
    if (id && !std::filesystem::exists(absl::StrCat(shards, "/", name), error)) {
      if (absl::Status ingested = take_copy(*id, path.string()); !ingested.ok()) {
        refused[*id] = ingested;
        log(LogSeverity::kError, absl::StrCat("a copy cannot be made shard ", name, ": ", ingested.ToString()));
        continue;
      }
      log(LogSeverity::kInfo, absl::StrCat("a copy was made shard ", name, " after the node had stopped over it"));
    }
    if (absl::Status removed = files::remove_tree(path.string()); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

/// The copy at `path` becomes the shard's database. Builds before this one left the files of a snapshot there.
absl::Status NodeImpl::take_copy(ShardId id, const std::string& path) {
  const std::string shards = ShardManager::shards_dir(options_.data_dir);
  std::error_code error;
  if (std::filesystem::exists(absl::StrCat(path, "/", kSnapshotManifestName), error)) {
    return ingest_shard(path, cluster_, shards, id);
  }
  return files::rename_and_sync(path, absl::StrCat(shards, "/", files::shard_name(id)), shards);
}

absl::StatusOr<std::unique_ptr<ShardCopy>> NodeImpl::build_copy(ShardId id, const std::string& path,
                                                                const std::string& directory) {
  if (absl::Status ingested = ingest_shard(path, cluster_, directory, id); !ingested.ok()) return ingested;
  return open_shard_copy(*engine_, directory, id);
}

CopyMeans NodeImpl::copy_means() {
  CopyMeans means;
  means.source = snapshots_.get();
  means.disk = disk_.get();
  means.builder = builder_.get();
  means.slots = &copy_slots_;
  means.copies.directory = copies_dir();
  means.copies.pull.bytes_per_s = std::max<uint64_t>(options_.copy_bytes_per_s / kCopiesMax, 1);
  return means;
}

/// On a reader's thread. Entries that the copy will not have are kept for as long as it is there.
absl::StatusOr<SnapshotSource::Exported> NodeImpl::export_snapshot(ShardId id, const std::string& path) {
  SnapshotSource::Exported exported;
  const auto make = [&](ShardDb& db, uint32_t index) -> absl::Status {
    Worker* const worker = workers_[index].get();
    const auto hold = worker->hold_entries(id);
    if (!hold.ok()) return hold.status();
    exported.hold =
        std::shared_ptr<void>(nullptr, [worker, id, hold = *hold](void*) { worker->release_entries(id, hold); });
    auto manifest = export_shard(db, cluster_, path);
    if (!manifest.ok()) return manifest.status();
    exported.end = {manifest->index, worker->epoch_of(id, manifest->index)};
    exported.files.push_back(kSnapshotManifestName);
    for (SnapshotFile& file : manifest->files) exported.files.push_back(std::move(file.name));
    log(LogSeverity::kInfo, absl::StrCat("snapshot made shard=", files::shard_name(id), " index=", manifest->index,
                                         " files=", exported.files.size()));
    return absl::OkStatus();
  };
  absl::Status made = manager_->with_db(id, make);
  if (!made.ok()) return made;
  return exported;
}

/// On the worker's thread.
void NodeImpl::tell_copies(uint32_t worker, const std::vector<CopyProgress>& copies) {
  const auto mib = [](uint64_t bytes) { return (bytes + (1 << 19)) >> 20; };
  const std::lock_guard lock(mutex_);
  copies_[worker].clear();
  for (const CopyProgress& copy : copies) {
    std::string text = absl::StrCat(copy.doing, ", ", mib(copy.bytes));
    if (copy.bytes_total != 0) absl::StrAppend(&text, " of ", mib(copy.bytes_total));
    absl::StrAppend(&text, " MiB and ", mib(copy.tail_bytes), " MiB written since, ", mib(copy.bytes_per_s), " MiB/s");
    if (copy.started_over != 0) absl::StrAppend(&text, ", started over ", copy.started_over, " times");
    copies_[worker].push_back({{copy.shard.table_id, copy.shard.shard}, std::move(text)});
  }
  std::vector<control::CopyReport> all;
  for (const auto& [index, reports] : copies_) all.insert(all.end(), reports.begin(), reports.end());
  if (agent_ != nullptr) agent_->set_copies(std::move(all));
}

/// Of a worker's replicas, on its thread.
ReplicationEvents NodeImpl::replication_events(uint32_t worker) {
  const auto name = [](ShardId id) { return absl::StrCat("shard=", id.table_id, "-", id.shard); };
  ReplicationEvents events;
  events.persist_view = [this](ShardId id, const View& view) { manager_->persist_view(id, view); };
  events.allow_unsynced = [this](ShardId id) { manager_->allow_unsynced(id); };
  events.put_in_doubt = [this](ShardId id) { manager_->put_in_doubt(id); };
  events.restored = [this](ShardId id) {
    findings_.restored(id);
    manager_->restored(id);
  };
  events.report = [this](ShardId id, const ReplicaReport& report) { findings_.report(id, report, clock_.now_ns()); };
  events.tick = [this] { findings_.sweep(clock_.now_ns()); };
  events.fetch_map = [this] { map_cache_->hurry(); };
  events.copies = [this, worker](const std::vector<CopyProgress>& copies) { tell_copies(worker, copies); };
  events.install_copy = [this](ShardId id, const std::string& path) { manager_->replace(id, path); };
  events.build_copy = [this](ShardId id, const std::string& path, const std::string& directory) {
    return build_copy(id, path, directory);
  };
  events.log = [this](LogSeverity severity, const std::string& line) { log(severity, line); };
  events.failed = [this, worker, name](ShardId id, const absl::Status& why) {
    log(LogSeverity::kError, absl::StrCat("replica failed worker=", worker, " ", name(id), ": ", why.ToString()));
  };
  return events;
}

void NodeImpl::make_map_cache(const std::string& cluster_id) {
  map_cache_ = std::make_unique<control::ShardMapCache>(
      control::ShardMapCacheOptions{.control_address = options_.control_address,
                                    .cluster_id = cluster_id,
                                    .on_change =
                                        [this](std::shared_ptr<const control::ShardMap> map) {
                                          std::map<NodeId, std::string> uuids;
                                          for (const control::MapNode& node : map->nodes)
                                            uuids[node_id_of(node.uuid)] = node.uuid;
                                          findings_.set_nodes(std::move(uuids));
                                          manager_->set_map(std::move(map));
                                        },
                                    .on_trouble =
                                        [this](const absl::Status& status) {
                                          if (!status.ok())
                                            log(LogSeverity::kWarning, absl::StrCat("shard map: ", status.message()));
                                        }});
}

absl::Status NodeImpl::start_grpc() {
  admin_ = make_admin_service([this] { return metrics(); });
  auto server = control::BootstrapServer::start(options_.grpc_address, *this, {admin_.get()});
  if (!server.ok()) return server.status();
  grpc_ = *std::move(server);
  advertised_address_ = with_host(grpc_->address(), options_.advertise_host);
  log(LogSeverity::kInfo, absl::StrCat("gRPC listening address=", grpc_->address()));
  return absl::OkStatus();
}

void NodeImpl::start_agent() {
  control::NodeAgentOptions agent;
  agent.control_address = options_.control_address;
  agent.cluster_id = options_.cluster_id;
  agent.node = {.uuid = options_.node_uuid,
                .incarnation = state_.incarnation,
                .instance = options_.instance,
                .grpc_address = advertised_address_,
                .host = options_.host,
                .worker_count = options_.workers,
                .versions = control::kProtocolVersions,
                .zone = options_.zone,
                .storage_incarnation = state_.storage_incarnation,
                .replication_version = control::kReplicationVersion};
  agent.on_registered = [this](const control::Registration& registration) { registered(registration); };
  agent.on_refused = [this](const absl::Status& status) { fatal(status); };
  agent.on_trouble = [this](const absl::Status& status) {
    if (status.ok()) {
      log(LogSeverity::kInfo, absl::StrCat("control plane is there again address=", options_.control_address));
    } else {
      log(LogSeverity::kWarning,
          absl::StrCat("waiting for the control plane address=", options_.control_address, ": ", status.message()));
    }
  };
  agent.on_map_revision = [this](uint64_t revision) { map_cache_->expect(revision); };
  agent.on_clock = [this](const std::string& trouble) {
    if (trouble.empty()) log(LogSeverity::kInfo, "the clocks of this node and of the control plane agree again");
    if (!trouble.empty()) log(LogSeverity::kWarning, trouble);
  };
  {
    const std::lock_guard lock(mutex_);  // the storage watch may run already
    agent_ = std::make_unique<control::NodeAgent>(std::move(agent));
  }
  if (joined_) follow_map();
  agent_->start();
}

/// On the agent's thread, at the first registration and at later ones.
void NodeImpl::registered(const control::Registration& registration) {
  log(LogSeverity::kInfo, absl::StrCat("registered cluster=", registration.cluster_id, " (", registration.cluster_name,
                                       ") incarnation=", state_.incarnation));
  {
    const std::lock_guard lock(mutex_);
    if (joined_) return;
  }
  if (absl::Status status = join(registration); !status.ok()) return fatal(status);
  follow_map();
}

absl::Status NodeImpl::join(const control::Registration& registration) {
  if (options_.adopt_cluster) {
    if (absl::Status status = options_.adopt_cluster(registration.cluster_id); !status.ok()) return status;
  }
  return start_workers(registration.cluster_id);
}

void NodeImpl::follow_map() {
  manager_->start();
  map_cache_->start();
}

void NodeImpl::fatal(const absl::Status& status) {
  if (fatal_told_.exchange(true)) return;
  if (options_.on_fatal) options_.on_fatal(status);
}

// --- Serving

control::NodeDescription NodeImpl::describe() {
  const std::lock_guard lock(mutex_);
  return description_;
}

absl::StatusOr<std::string> NodeImpl::open_session(uint32_t worker, const control::TransportDescriptor&,
                                                   const std::string& offer) {
  Worker* target = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (worker < workers_.size()) target = workers_[worker].get();
  }
  if (target == nullptr) return absl::NotFoundError(absl::StrCat("no worker ", worker, " (yet)"));
  return target->accept_offer(offer);
}

absl::StatusOr<std::string> NodeImpl::metrics() {
  std::vector<Worker*> workers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& worker : workers_) workers.push_back(worker.get());
  }
  std::vector<WorkerStats> stats;
  for (Worker* worker : workers) {
    auto figures = worker->stats();
    if (!figures.ok()) return figures.status();
    stats.push_back(*figures);
  }
  return format_metrics(stats);
}

// --- Stopping: the order is the head of node.h.

void NodeImpl::stop() {
  if (std::exchange(stopped_, true)) return;
  if (grpc_ != nullptr) grpc_->shutdown();
  // The agent may be about to start workers: once it has stopped, nobody else does.
  if (agent_ != nullptr) agent_->stop();
  if (map_cache_ != nullptr) map_cache_->stop();
  if (manager_ != nullptr) manager_->stop();
  watch_.reset();
  for (const auto& worker : workers_) worker->drain();
  bool synced = !workers_.empty();
  for (const auto& worker : workers_) synced = worker->stop_engine() && synced;
  readers_.stop();
  if (disk_ != nullptr) disk_->stop();
  if (builder_ != nullptr) builder_->stop();
  snapshots_.reset();
  for (const auto& worker : workers_) worker->stop();
  {
    const std::lock_guard lock(mutex_);
    workers_.clear();
  }
  manager_.reset();
  if (!synced || !unsynced_) return;
  if (absl::Status ended = unsynced_->end_in_order(); !ended.ok()) {
    log(LogSeverity::kWarning,
        absl::StrCat("should the machine be started anew, replicas here will be in doubt: ", ended.message()));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Node>> Node::start(NodeOptions options) {
  auto node = std::make_unique<NodeImpl>(std::move(options));
  if (absl::Status status = node->start(); !status.ok()) return status;
  return node;
}

absl::StatusOr<rpc::EndpointIdentity> worker_identity(const std::string& node_uuid, uint64_t incarnation,
                                                      const std::string& cluster_id, uint32_t worker) {
  const auto uuid = parse_uuid(node_uuid);
  if (!uuid.ok()) return uuid.status();
  rpc::EndpointIdentity identity;
  identity.uuid = *uuid;
  identity.incarnation = incarnation;
  identity.uuid.bytes[14] = static_cast<uint8_t>(identity.uuid.bytes[14] ^ worker >> 8);
  identity.uuid.bytes[15] = static_cast<uint8_t>(identity.uuid.bytes[15] ^ worker);
  if (!cluster_id.empty()) {
    const auto cluster = parse_uuid(cluster_id);
    if (!cluster.ok()) return cluster.status();
    identity.cluster_id = *cluster;
  }
  return identity;
}

}  // namespace skua::kv
