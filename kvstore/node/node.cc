#include "kvstore/node/node.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "kvstore/node/admin.grpc.pb.h"
#include "kvstore/storage/shard_files.h"
#include "kvstore/types/features.h"
#include "rpc/base/entropy.h"
#include "rpc/transport/sealed/seal.h"

namespace skua::kv {
namespace {

/// Replaces the host of "host:port".
std::string with_host(const std::string& address, const std::string& host) {
  if (host.empty()) return address;
  const std::string port = address.substr(address.rfind(':'));
  return host.find(':') == std::string::npos ? host + port : absl::StrCat("[", host, "]", port);
}

/// Bytes under way on one link to another node's worker. They are ahead of the next heartbeat on that link, so more of
/// them would delay the heartbeat too much.
constexpr size_t kPeerBytesMax = size_t{8} << 20;

/// Admin (admin.proto). Thread: gRPC's, several at once.
class AdminService final : public node::v1::Admin::Service {
 public:
  explicit AdminService(Node& node) : node_(node) {}

  grpc::Status GetMetrics(grpc::ServerContext*, const node::v1::GetMetricsRequest*,
                          node::v1::GetMetricsReply* reply) override {
    reply->set_text(node_.metrics());
    return grpc::Status::OK;
  }

 private:
  Node& node_;
};

}  // namespace

// --- Starting

absl::StatusOr<std::unique_ptr<Node>> Node::start(NodeOptions options) {
  std::unique_ptr<Node> node(new Node(std::move(options)));
  if (absl::Status status = node->start_parts(); !status.ok()) return status;
  return node;
}

absl::Status Node::start_parts() {
  if (absl::Status status = recovery_.prepare(); !status.ok()) return status;
  incarnation_ = recovery_.state().incarnation;
  {
    const std::lock_guard lock(mutex_);
    description_.node_uuid = options_.node_uuid;
    description_.incarnation = incarnation_;
    description_.features = kNodeFeatures;
  }
  engine_ = make_rocksdb_engine(options_.storage);
  copies_ = std::make_unique<NodeCopies>(
      options_, *engine_, clock_, [this](ShardId id, const std::string& path) { return export_snapshot(id, path); });
  if (options_.memory_budget) memory_watch_ = std::make_unique<MemoryWatch>(*options_.memory_budget, *engine_);
  if (options_.cluster_id.empty()) {
    // The cluster is unknown, so the workers start later. Errors with the addresses must show now.
    if (options_.probe_transports) {
      if (absl::Status probed = make_transports(""); !probed.ok()) return probed;
      transports_.clear();
    }
  } else {
    if (absl::Status made = make_transports(options_.cluster_id); !made.ok()) return made;
    auto recovered = recovery_.recover(options_.cluster_id, *engine_, *copies_);
    if (absl::IsResourceExhausted(recovered.status())) {
      note_no_room(recovered.status());  // registered() tries again
    } else if (!recovered.ok()) {
      return recovered.status();
    } else if (absl::Status status = start_workers(options_.cluster_id, *std::move(recovered)); !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = start_grpc(); !status.ok()) return status;
  start_agent();
  return absl::OkStatus();
}

/// Repeats recover() every kReopenPauseNs until the disk has room. CANCELLED: stop() was called.
absl::StatusOr<Recovered> Node::recover_when_there_is_room(const std::string& cluster_id) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto pause = std::chrono::nanoseconds(no_room_.empty() ? 0 : kReopenPauseNs);
      if (stop_.wait_for(lock, pause, [this] { return stopping_; }))
        return absl::CancelledError("the node is stopping");
    }
    auto recovered = recovery_.recover(cluster_id, *engine_, *copies_);
    if (!absl::IsResourceExhausted(recovered.status())) return recovered;
    note_no_room(recovered.status());
    tell_no_room();
  }
}

void Node::note_no_room(const absl::Status& why) {
  std::string trouble =
      absl::StrCat("the disk is full, and the node serves nothing: ", why.message(),
                   "; free space on the file system of ", options_.data_dir,
                   ": it is tried again every 5 s, and the node goes on by itself. What was acknowledged is kept");
  {
    const std::lock_guard lock(mutex_);
    if (no_room_ == trouble) return;
    no_room_ = trouble;
  }
  log(LogSeverity::kError, trouble);
}

absl::Status Node::make_transports(const std::string& cluster_id) {
  for (uint32_t i = 0; i < options_.workers; ++i) {
    const auto identity = worker_identity(options_.node_uuid, incarnation_, cluster_id, i);
    if (!identity.ok()) return identity.status();
    auto transport = options_.make_transport(i, *identity);
    if (!transport.ok()) return transport.status();
    if (options_.packets == rpc::PacketProtection::kOff) {
      transports_.push_back(*std::move(transport));
      continue;
    }
    // A peer without a certificate cannot be given keys.
    const auto keyless =
        options_.credentials->takes_plaintext() ? rpc::KeylessPeers::kAdmitted : rpc::KeylessPeers::kRefused;
    transports_.push_back(rpc::seal(*std::move(transport), clock_,
                                    {.protection = options_.packets,
                                     .peers_max = options_.endpoint.sessions_max,
                                     .keyless = keyless,
                                     .key_lifetime_ns = options_.packet_key_lifetime_ns}));
  }
  return absl::OkStatus();
}

absl::Status Node::start_workers(const std::string& cluster_id, Recovered recovered) {
  bootstrap_ = make_grpc_peer_bootstrap(options_.credentials);
  make_map_cache(cluster_id);  // before the workers, because they call hurry()
  std::vector<Worker*> watched;
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < options_.workers; ++i) {
    WorkerOptions worker;
    worker.index = i;
    worker.endpoint = options_.endpoint;
    // If there are certificates, a peer has to show one, by gRPC, before it gets a session.
    worker.endpoint.accept_by_packet = options_.credentials == nullptr || options_.credentials->takes_plaintext();
    worker.server = options_.server;
    worker.server.engine.memory.budget_bytes = options_.memory_bytes / options_.workers;
    worker.server.engine.hash_seed = draw_entropy();
    worker.self = {node_id_of(options_.node_uuid), recovery_.state().storage_incarnation};
    worker.links.cluster_id = cluster_id;
    worker.links.node_uuid = options_.node_uuid;
    worker.links.seed = mix64(incarnation_ << 8 | i);  // randomizes pauses only
    worker.links.bytes_max = kPeerBytesMax;
    worker.links.append_bytes_max = worker.server.engine.replicated_payload_bytes_max;
    worker.replication = replication_events(i);
    worker.copying = copies_->resources();
    worker.server.replica.hold_bytes = std::min(worker.server.replica.hold_bytes, options_.memory_bytes / 8);
    worker.bootstrap = bootstrap_.get();
    auto made = Worker::create(worker, std::move(transports_[i]), clock_, readers_, std::move(recovered.logs[i]));
    if (!made.ok()) return made.status();
    workers_.push_back(*std::move(made));
    workers_.back()->post([this](ShardServer& server) { server.on_newer_map([this] { map_cache_->hurry(); }); });
    watched.push_back(workers_.back().get());
    const rpc::Descriptor& descriptor = workers_.back()->descriptor();
    description_.workers.push_back({i, {{descriptor.transport, descriptor.encode()}}});
    log(LogSeverity::kInfo, absl::StrCat("worker listening worker=", i, " transport=", descriptor.transport));
  }
  description_.cluster_id = cluster_id;
  joined_ = true;
  ShardManager::Options shards;
  shards.lifecycle = {.node_uuid = options_.node_uuid,
                      .cluster_id = cluster_id,
                      .shards_dir = files::shards_dir(options_.data_dir),
                      .files = &files_,
                      .state = recovery_.state(),
                      .refused = std::move(recovered.refused),
                      .views = std::move(recovered.views),
                      .unsynced = &recovery_.unsynced(),
                      .log = options_.log};
  shards.on_applied = [this](uint64_t revision) {
    applied_revision_.store(revision);
    agent_->set_applied_revision(revision);
  };
  shards.ingest = [this](ShardId id, const std::string& path) { return copies_->take(id, path); };
  manager_ = std::make_unique<ShardManager>(std::move(shards), *engine_,
                                            std::vector<WorkerCommands*>(watched.begin(), watched.end()));
  watch_storage(std::move(watched));
  return absl::OkStatus();
}

void Node::watch_storage(std::vector<Worker*> workers) {
  StorageWatch::Options watch{
      .data_dir = options_.data_dir, .reserve_bytes = options_.disk_reserve_bytes, .log = options_.log};
  watch.unserved = [this] { return manager_->unserved(); };
  watch.others.emplace_back([this] { return copies_->slow_exports(); });
  if (options_.credentials != nullptr) {
    watch.others.emplace_back([this] { return options_.credentials->trouble(std::time(nullptr)); });
  }
  watch.on_look = [this](const std::string& trouble, const std::map<ShardId, UnservedShard>& unserved) {
    tell_storage(trouble, unserved);
  };
  watch_ = std::make_unique<StorageWatch>(std::move(watch), std::move(workers));
}

/// The callbacks of a worker's replicas. They run on the worker's thread.
ReplicationEvents Node::replication_events(uint32_t worker) {
  ReplicationEvents events;
  events.persist_view = [this](ShardId id, const View& view) {
    manager_->tell([&](ShardNews& news) { news.adopted[id] = view; });
  };
  events.allow_unsynced = [this](ShardId id) {
    manager_->tell([&](ShardNews& news) { news.unsynced.allowed.insert(id); });
  };
  events.put_in_doubt = [this](ShardId id) {
    manager_->tell([&](ShardNews& news) { news.unsynced.doubted.insert(id); });
  };
  events.restored = [this](ShardId id) {
    findings_.restored(id);
    manager_->tell([&](ShardNews& news) { news.unsynced.restored.insert(id); });
  };
  events.report = [this](ShardId id, const ReplicaReport& report) { findings_.report(id, report, clock_.now_ns()); };
  events.tick = [this] { findings_.sweep(clock_.now_ns()); };
  events.fetch_map = [this] { map_cache_->hurry(); };
  events.copies = [this, worker](const std::vector<CopyProgress>& copies) { tell_copies(worker, copies); };
  events.install_copy = [this](ShardId id, const std::string& path) {
    manager_->tell([&](ShardNews& news) { news.copies[id] = path; });
  };
  events.build_copy = [this](ShardId id, const std::string& path, const std::string& directory) {
    return copies_->build(id, path, directory);
  };
  events.log = options_.log;
  events.failed = [this, worker](ShardId id, const absl::Status& why) {
    log(LogSeverity::kError,
        absl::StrCat("replica failed worker=", worker, " shard=", id.table_id, "-", id.shard, ": ", why.ToString()));
  };
  return events;
}

/// Runs on a reader's thread. The hold keeps the log's entries behind the snapshot as long as the snapshot exists.
absl::StatusOr<SnapshotSource::Exported> Node::export_snapshot(ShardId id, const std::string& path) {
  SnapshotSource::Exported exported;
  const auto make = [&](ShardDb& db, uint32_t index) -> absl::Status {
    Worker* const worker = workers_[index].get();
    const auto hold = worker->hold_entries(id);
    if (!hold.ok()) return hold.status();
    exported.hold = std::shared_ptr<void>(nullptr, [worker, id, hold = *hold](void*) {
      worker->post([id, hold](ShardServer& server) { server.shards().release_entries(id, hold); });
    });
    auto manifest = export_shard(db, copies_->cluster(), path);
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

absl::Status Node::start_grpc() {
  admin_ = std::make_unique<AdminService>(*this);
  auto server = control::BootstrapServer::start(options_.grpc_address, *this, {admin_.get()}, options_.credentials,
                                                [this](const std::string& line) { log(LogSeverity::kWarning, line); });
  if (!server.ok()) return server.status();
  grpc_ = *std::move(server);
  advertised_address_ = with_host(grpc_->address(), options_.advertise_host);
  log(LogSeverity::kInfo, absl::StrCat("gRPC listening address=", grpc_->address()));
  return absl::OkStatus();
}

void Node::fatal(const absl::Status& status) {
  if (fatal_told_.exchange(true)) return;
  if (options_.on_fatal) options_.on_fatal(status);
}

// --- Serving

control::NodeDescription Node::describe() {
  const std::lock_guard lock(mutex_);
  return description_;
}

absl::StatusOr<std::string> Node::open_session(uint32_t worker, const control::TransportDescriptor&,
                                               const std::string& offer, const control::SessionCaller& who) {
  const std::vector<Worker*> all = workers();
  if (worker >= all.size()) return absl::NotFoundError(absl::StrCat("no worker ", worker, " (yet)"));
  return all[worker]->accept_offer(
      offer,
      {.source = absl::HashOf(who.host), .principal = who.principal, .is_node = who.principal.starts_with("node/")});
}

absl::StatusOr<std::future<void>> Node::host(uint32_t worker, HostedLoop& loop) {
  const std::vector<Worker*> all = workers();
  if (worker >= all.size()) return absl::UnavailableError(absl::StrCat("the node has no worker ", worker, " yet"));
  return all[worker]->host(loop);
}

/// They live as long as the node.
std::vector<Worker*> Node::workers() {
  const std::lock_guard lock(mutex_);
  std::vector<Worker*> all;
  all.reserve(workers_.size());
  for (const auto& worker : workers_) all.push_back(worker.get());
  return all;
}

// --- Stopping: node.h describes the order.

void Node::stop() {
  if (std::exchange(stopped_, true)) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (grpc_ != nullptr) grpc_->shutdown();
  // The agent's thread may be starting workers right now. After the agent has stopped, no thread starts workers.
  if (agent_ != nullptr) agent_->stop();
  if (map_cache_ != nullptr) map_cache_->stop();
  if (manager_ != nullptr) manager_->stop();
  watch_.reset();
  for (const auto& worker : workers_) worker->drain();
  const bool had_workers = !workers_.empty();
  bool log_failed = false;
  for (const auto& worker : workers_) log_failed = !worker->stop_engine() || log_failed;
  readers_.stop();
  if (copies_ != nullptr) copies_->stop_threads();
  for (const auto& worker : workers_) worker->stop();
  {
    const std::lock_guard lock(mutex_);
    workers_.clear();
  }
  manager_.reset();
  if (!had_workers || !recovery_.has_recovered()) return;
  UnsyncedShards& unsynced = recovery_.unsynced();
  if (absl::Status ended = log_failed ? unsynced.end_in_doubt() : unsynced.end_in_order(); !ended.ok()) {
    log(log_failed ? LogSeverity::kError : LogSeverity::kWarning,
        absl::StrCat(log_failed ? "a log failed, and it cannot be written down that replicas here are in doubt: "
                                : "should the machine be started anew, replicas here will be in doubt: ",
                     ended.message()));
  }
}

}  // namespace skua::kv
