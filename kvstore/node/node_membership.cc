// The node's part in the cluster: it registers, joins its first cluster, follows the shard maps, and tells the control
// plane of troubles and copies.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/core/protocol_version.h"
#include "kvstore/node/node.h"
#include "kvstore/storage/shard_files.h"

namespace skua::kv {
namespace {

/// By rpc::PacketProtection. kDefault: unknown.
constexpr std::array kSafety = {control::PacketSafety::kUnknown, control::PacketSafety::kOff,
                                control::PacketSafety::kAuthenticate, control::PacketSafety::kEncrypt};
static_assert(kSafety[static_cast<size_t>(rpc::PacketProtection::kEncrypt)] == control::PacketSafety::kEncrypt);

}  // namespace

// --- Registration

void Node::start_agent() {
  control::NodeAgentOptions agent;
  agent.control_address = options_.control_address;
  agent.credentials = options_.credentials;
  agent.cluster_id = options_.cluster_id;
  agent.node = {.uuid = options_.node_uuid,
                .incarnation = incarnation_,
                .instance = options_.instance,
                .grpc_address = advertised_address_,
                .host = options_.host,
                .worker_count = options_.workers,
                .versions = control::kProtocolVersions,
                .zone = options_.zone,
                .storage_incarnation = recovery_.state().storage_incarnation,
                .replication_version = control::kReplicationVersion,
                .secret = options_.secret};
  agent.security = {options_.admission, kSafety[static_cast<size_t>(options_.packets)]};
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
  agent.on_map_revision = [this](uint64_t revision) {
    if (map_cache_ != nullptr) map_cache_->expect(revision);  // null if registered() has failed
  };
  agent.on_clock = [this](const std::string& trouble) {
    if (trouble.empty()) log(LogSeverity::kInfo, "the clocks of this node and of the control plane agree again");
    if (!trouble.empty()) log(LogSeverity::kWarning, trouble);
  };
  {
    const std::lock_guard lock(mutex_);  // the storage watch may be running already
    agent_ = std::make_unique<control::NodeAgent>(std::move(agent));
  }
  if (joined_) {
    follow_map();
  } else if (!options_.cluster_id.empty()) {
    tell_no_room();
  }
  agent_->start();
}

/// Runs after the first and each later registration, on a thread that the agent has for it. Heartbeats continue
/// meanwhile.
void Node::registered(const control::Registration& registration) {
  log(LogSeverity::kInfo, absl::StrCat("registered cluster=", registration.cluster_id, " (", registration.cluster_name,
                                       ") incarnation=", incarnation_));
  has_registered_.store(true);
  {
    const std::lock_guard lock(mutex_);
    if (joined_ || fatal_told_) return;
  }
  const uint64_t registered_storage = recovery_.state().storage_incarnation;
  if (options_.cluster_id.empty()) {  // joins the first cluster: records it in the data directory
    absl::Status joined = options_.adopt_cluster ? options_.adopt_cluster(registration.cluster_id) : absl::OkStatus();
    if (joined.ok()) joined = make_transports(registration.cluster_id);
    if (!joined.ok()) return fatal(joined);
  }
  auto recovered = recover_when_there_is_room(registration.cluster_id);
  if (absl::IsCancelled(recovered.status())) return;
  if (!recovered.ok()) return fatal(recovered.status());
  if (recovery_.state().storage_incarnation != registered_storage) {
    return fatal(absl::InternalError(
        "replicas here are damaged, which was found after the node had registered: start it again"));
  }
  absl::Status started = start_workers(registration.cluster_id, *std::move(recovered));
  if (!started.ok()) return fatal(started);
  follow_map();
}

void Node::follow_map() {
  manager_->start();
  map_cache_->start();
}

// --- Shard maps

void Node::make_map_cache(const std::string& cluster_id) {
  control::ShardMapCacheOptions cache;
  cache.control_address = options_.control_address;
  cache.credentials = options_.credentials;
  cache.cluster_id = cluster_id;
  cache.on_change = [this](std::shared_ptr<const control::ShardMap> map) { take_map(std::move(map)); };
  cache.on_trouble = [this](const absl::Status& status) {
    if (!status.ok()) log(LogSeverity::kWarning, absl::StrCat("shard map: ", status.message()));
  };
  map_cache_ = std::make_unique<control::ShardMapCache>(std::move(cache));
}

/// Thread: the map cache's.
void Node::take_map(std::shared_ptr<const control::ShardMap> map) {
  follow_rules(*map);
  std::map<NodeId, std::string> uuids;
  for (const control::MapNode& node : map->nodes) uuids[node_id_of(node.uuid)] = node.uuid;
  findings_.set_nodes(std::move(uuids));
  note_map(*map);
  manager_->set_map(std::move(map));
}

/// Here and not with what the shard manager does, for two reasons. That may be busy with disks, and sessions of revoked
/// identities shall end at once. And workers must know the grants before they serve the shards of this map, so that no
/// table with grants is open for a moment.
void Node::follow_rules(const control::ShardMap& map) {
  const ClientRules::Change change = client_rules_.follow(map);
  for (const std::string& line : change.news) log(LogSeverity::kInfo, line);
  // Not under the lock: a worker whose mailbox is full may wait for the lock itself.
  // All workers hear of revocations before one hears of grants.
  const std::vector<Worker*> all = workers();
  for (Worker* const worker : all) {
    if (change.denied) worker->set_denied(*change.denied);
  }
  for (Worker* const worker : all) {
    if (change.grants) worker->post([grants = change.grants](ShardServer& server) { server.set_grants(grants); });
    if (change.quotas) worker->post([quotas = change.quotas](ShardServer& server) { server.set_quotas(quotas); });
  }
}

// --- What the control plane is told

/// Thread: the storage watch's; before the watch exists, registered()'s or start()'s.
void Node::tell_storage(const std::string& trouble, const std::map<ShardId, UnservedShard>& unserved) {
  std::vector<control::ShardRef> refs;
  refs.reserve(unserved.size());
  for (const auto& [id, shard] : unserved) refs.push_back({{id.table_id, id.shard}, std::string(shard.why.message())});
  const std::lock_guard lock(mutex_);
  if (agent_ == nullptr) return;
  agent_->set_trouble(trouble);
  agent_->set_unserved(std::move(refs));
}

/// Tells the control plane that no shard of this node is served, and why.
void Node::tell_no_room() {
  std::map<ShardId, UnservedShard> unserved;
  const absl::Status why = absl::ResourceExhaustedError("the disk is full");
  if (const auto shards = engine_->list_shards(files::shards_dir(options_.data_dir)); shards.ok()) {
    for (const ShardId id : *shards) unserved[id] = {why, true};
  }
  if (const auto views = read_views(files_); views.ok()) {
    for (const auto& [id, view] : *views) unserved[id] = {why, true};
  }
  std::string trouble;
  {
    const std::lock_guard lock(mutex_);
    trouble = no_room_;
  }
  tell_storage(trouble, unserved);
}

/// Runs on the worker's thread.
void Node::tell_copies(uint32_t worker, const std::vector<CopyProgress>& copies) {
  const std::lock_guard lock(mutex_);
  std::vector<control::CopyReport> all = copies_->report(worker, copies);
  if (agent_ != nullptr) agent_->set_copies(std::move(all));
}

}  // namespace skua::kv
