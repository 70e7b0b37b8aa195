#include "control/server/metadata_codec.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/core/cluster_limits.h"
#include "control/core/grants.h"
#include "control/core/join_tokens.h"
#include "control/core/quotas.h"
#include "control/core/view_rules.h"
#include "control/proto/metadata.pb.h"

namespace skua::control::metadata {
namespace {

constexpr const char* kGrants = "skua/grants/";
constexpr const char* kNodes = "skua/nodes/";
constexpr const char* kTables = "skua/tables/";
constexpr const char* kShards = "skua/shards/";

v1::ReplicaRecord record_of(const Replica& replica) {
  v1::ReplicaRecord record;
  record.set_node_uuid(replica.node_uuid);
  record.set_worker(replica.worker);
  record.set_storage_incarnation(replica.storage_incarnation);
  return record;
}

Replica replica_of(const v1::ReplicaRecord& record) {
  return {record.node_uuid(), record.worker(), record.storage_incarnation()};
}

std::string map_record(uint64_t map_revision, TableId next_table_id) {
  v1::MapRecord record;
  record.set_map_revision(map_revision);
  record.set_next_table_id(next_table_id);
  return record.SerializeAsString();
}

std::string denied_record(const std::set<std::string>& denied) {
  v1::DeniedRecord record;
  for (const std::string& principal : denied) record.add_principals(principal);
  return record.SerializeAsString();
}

std::string join_tokens_record(const JoinTokens& tokens) {
  v1::JoinTokensRecord record;
  for (const auto& [hash, token] : tokens) {
    v1::JoinTokenRecord& added = *record.add_tokens();
    added.set_secret_hash(hash);
    added.set_principal(token.principal);
    added.set_expires_s(token.expires_s);
    added.set_used_key(token.used_key);
  }
  return record.SerializeAsString();
}

std::string grants_record(TableId id, const TableGrants& grants) {
  v1::GrantsRecord record;
  record.set_table_id(id);
  for (const auto& [principal, rights] : grants) {
    v1::GrantRecord& added = *record.add_grants();
    added.set_principal(principal);
    added.set_rights(rights);
  }
  return record.SerializeAsString();
}

std::string quotas_record(const Quotas& quotas) {
  v1::QuotasRecord record;
  for (const auto& [principal, quota] : quotas) {
    v1::QuotaRecord& added = *record.add_quotas();
    added.set_principal(principal);
    added.set_operations_per_s(quota.operations_per_s);
    added.set_bytes_per_s(quota.bytes_per_s);
    added.set_sessions(quota.sessions);
    added.set_client_ids(quota.client_ids);
  }
  return record.SerializeAsString();
}

std::string node_record(const NodeInfo& node) {
  v1::NodeRecord record;
  record.set_uuid(node.uuid);
  record.set_incarnation(node.incarnation);
  record.set_instance(node.instance);
  record.set_grpc_address(node.grpc_address);
  record.set_host(node.host);
  record.set_worker_count(node.worker_count);
  record.set_version_min(node.versions.min);
  record.set_version_max(node.versions.max);
  record.set_zone(node.zone);
  record.set_storage_incarnation(node.storage_incarnation);
  record.set_draining(node.draining);
  record.set_replication_version(node.replication_version);
  record.set_secret(node.secret);
  return record.SerializeAsString();
}

std::string table_record(const Table& table) {
  v1::TableRecord record;
  record.set_id(table.id);
  record.set_name(table.name);
  if (table.hash_tags) {
    record.set_hash_tag_shard_count(table.shard_count);
  } else {
    record.set_shard_count(table.shard_count);
  }
  record.set_replicas(table.replicas);
  record.set_min_insync(table.min_insync);
  record.set_read_anywhere(table.read_anywhere);
  return record.SerializeAsString();
}

std::string shard_record(const ShardRecord& shard) {
  v1::ShardRecord record;
  record.set_table_id(shard.table_id);
  record.set_shard(shard.shard);
  record.set_epoch(shard.epoch);
  if (shard.primary) *record.mutable_primary() = record_of(*shard.primary);
  for (const Replica& backup : shard.backups) *record.add_backups() = record_of(backup);
  for (const Learner& learner : shard.learners) {
    v1::LearnerRecord& added = *record.add_learners();
    *added.mutable_replica() = record_of(learner.replica);
    added.set_join(learner.join);
  }
  for (const std::string& uuid : shard.leaving) record.add_leaving(uuid);
  for (const std::string& uuid : shard.former) record.add_former(uuid);
  record.set_change(shard.change);
  record.set_next_join(shard.next_join);
  record.set_fork(shard.fork);
  record.set_primary_incarnation(shard.primary_incarnation);
  return record.SerializeAsString();
}

absl::Status damaged(const std::string& key, const char* how) {
  return absl::DataLossError(
      absl::StrCat("metadata key ", key, " ", how, ". Restore the control plane's data from a backup"));
}

/// Reads one record into the state. False if the bytes are not a record that belongs under this
/// key.
bool decode_cluster(const std::string& bytes, ClusterState& state) {
  v1::ClusterRecord record;
  if (!record.ParseFromString(bytes) || record.id().empty()) return false;
  state.cluster_id = record.id();
  state.cluster_name = record.name();
  return true;
}

bool decode_map(const std::string& bytes, ClusterState& state) {
  v1::MapRecord record;
  if (!record.ParseFromString(bytes) || record.map_revision() == 0) return false;
  state.map_revision = record.map_revision();
  state.next_table_id = record.next_table_id();
  return true;
}

bool decode_denied(const std::string& bytes, ClusterState& state) {
  v1::DeniedRecord record;
  if (!record.ParseFromString(bytes) || record.principals_size() > static_cast<int>(kDeniedMax)) return false;
  state.denied = {record.principals().begin(), record.principals().end()};
  return true;
}

bool decode_join_tokens(const std::string& bytes, ClusterState& state) {
  v1::JoinTokensRecord record;
  if (!record.ParseFromString(bytes) || record.tokens_size() > static_cast<int>(kJoinTokensMax)) return false;
  for (const v1::JoinTokenRecord& token : record.tokens()) {
    const JoinTokenRecord read{token.principal(), token.expires_s(), token.used_key()};
    if (!is_join_token(token.secret_hash(), read)) return false;
    if (!state.join_tokens.emplace(token.secret_hash(), read).second) return false;
  }
  return !state.join_tokens.empty();
}

/// A right that is not known here is refused, not left out: the next change would lose it.
bool decode_grants(const KeyValue& kv, ClusterState& state) {
  v1::GrantsRecord record;
  if (!record.ParseFromString(kv.value) || grants_key(record.table_id()) != kv.key) return false;
  TableGrants& grants = state.grants[record.table_id()];
  for (const v1::GrantRecord& grant : record.grants()) {
    if (!check_grant(grant.principal(), grant.rights()).ok()) return false;
    if (!grants.emplace(grant.principal(), grant.rights()).second) return false;
  }
  return !grants.empty();
}

bool decode_quotas(const std::string& bytes, ClusterState& state) {
  v1::QuotasRecord record;
  if (!record.ParseFromString(bytes) || record.quotas_size() > static_cast<int>(kQuotasMax)) return false;
  for (const v1::QuotaRecord& quota : record.quotas()) {
    const Quota read{quota.operations_per_s(), quota.bytes_per_s(), quota.sessions(), quota.client_ids()};
    if (!check_quota(quota.principal(), read).ok()) return false;
    if (!state.quotas.emplace(quota.principal(), read).second) return false;
  }
  return !state.quotas.empty();
}

bool decode_node(const KeyValue& kv, ClusterState& state) {
  v1::NodeRecord record;
  if (!record.ParseFromString(kv.value) || node_key(record.uuid()) != kv.key) return false;
  state.nodes[record.uuid()] = {record.uuid(),
                                record.incarnation(),
                                record.instance(),
                                record.grpc_address(),
                                record.host(),
                                record.worker_count(),
                                {record.version_min(), record.version_max()},
                                record.zone(),
                                record.storage_incarnation(),
                                record.draining(),
                                record.replication_version(),
                                record.secret()};
  return true;
}

bool decode_table(const KeyValue& kv, ClusterState& state) {
  v1::TableRecord record;
  if (!record.ParseFromString(kv.value) || table_key(record.id()) != kv.key) return false;
  const bool hash_tags = record.hash_tag_shard_count() > 0;
  const uint32_t shard_count = hash_tags ? record.hash_tag_shard_count() : record.shard_count();
  state.tables[record.id()] = {record.id(),
                               record.name(),
                               shard_count,
                               std::max(record.replicas(), 1u),
                               std::max(record.min_insync(), 1u),
                               record.read_anywhere(),
                               hash_tags};
  const bool has_shards = shard_count > 0 && shard_count <= kShardsPerTableMax;
  return has_shards && record.replicas() <= kReplicasMax;
}

bool decode_shard(const KeyValue& kv, ClusterState& state) {
  v1::ShardRecord record;
  if (!record.ParseFromString(kv.value)) return false;
  if (shard_key(record.table_id(), record.shard()) != kv.key) return false;
  ShardRecord& shard = state.shards[{record.table_id(), record.shard()}];
  shard = {record.table_id(), record.shard(), record.epoch(), std::nullopt};
  if (record.has_primary()) shard.primary = replica_of(record.primary());
  for (const v1::ReplicaRecord& backup : record.backups()) {
    shard.backups.push_back(replica_of(backup));
  }
  for (const v1::LearnerRecord& learner : record.learners()) {
    shard.learners.push_back({replica_of(learner.replica()), learner.join()});
  }
  shard.leaving = {record.leaving().begin(), record.leaving().end()};
  shard.former = {record.former().begin(), record.former().end()};
  shard.change = record.change();
  shard.next_join = std::max<uint64_t>(record.next_join(), 1);
  shard.fork = record.fork();
  shard.primary_incarnation = record.primary_incarnation();
  return is_well_formed(shard);
}

/// Every table with grants exists.
absl::Status check_grants(const ClusterState& state) {
  for (const auto& [id, grants] : state.grants) {
    if (!state.tables.contains(id)) return damaged(grants_key(id), "belongs to no table");
  }
  if (grant_count(state) > kGrantsMax) return damaged(grants_key(state.grants.begin()->first), "is one too many");
  return absl::OkStatus();
}

/// Every table has exactly its shards, and every owner exists.
absl::Status check_complete(const ClusterState& state) {
  if (state.cluster_id.empty()) return damaged(kClusterKey, "is missing");
  if (state.map_revision == 0) return damaged(kMapKey, "is missing");
  for (const auto& [id, table] : state.tables) {
    if (id >= state.next_table_id) return damaged(kMapKey, "is older than a table");
    for (uint32_t shard = 0; shard < table.shard_count; ++shard) {
      if (!state.shards.contains({id, shard})) return damaged(shard_key(id, shard), "is missing");
    }
  }
  for (const auto& [key, shard] : state.shards) {
    const auto table = state.tables.find(key.first);
    if (table == state.tables.end() || key.second >= table->second.shard_count) {
      return damaged(shard_key(key.first, key.second), "belongs to no table");
    }
    const auto known = [&](const Replica& replica) {
      const auto node = state.nodes.find(replica.node_uuid);
      return node != state.nodes.end() && replica.worker < node->second.worker_count;
    };
    if (shard.primary && !known(*shard.primary)) {
      return damaged(shard_key(key.first, key.second), "names an owner that is not a node, or a worker that it lacks");
    }
    if (!std::all_of(shard.backups.begin(), shard.backups.end(), known) ||
        !std::all_of(shard.learners.begin(), shard.learners.end(),
                     [&](const Learner& learner) { return known(learner.replica); })) {
      return damaged(shard_key(key.first, key.second), "names a replica that is not on a worker of a node");
    }
  }
  return check_grants(state);
}

}  // namespace

std::string node_key(const std::string& uuid) {
  return absl::StrCat(kNodes, uuid);
}

std::string table_key(TableId id) {
  return absl::StrFormat("%s%016x", kTables, id);
}

std::string grants_key(TableId id) {
  return absl::StrFormat("%s%016x", kGrants, id);
}

std::string shards_prefix(TableId id) {
  return absl::StrFormat("%s%016x/", kShards, id);
}

std::string shard_key(TableId id, uint32_t shard) {
  return absl::StrFormat("%s%08x", shards_prefix(id), shard);
}

std::vector<Operation> encode_new_cluster(const ClusterState& state) {
  v1::ClusterRecord record;
  record.set_id(state.cluster_id);
  record.set_name(state.cluster_name);
  return {Operation::put(kClusterKey, record.SerializeAsString()),
          Operation::put(kMapKey, map_record(state.map_revision, state.next_table_id))};
}

std::vector<Operation> encode_changes(const Changes& changes) {
  std::vector<Operation> operations;
  operations.reserve(changes.put_nodes.size());
  for (const NodeInfo& node : changes.put_nodes) {
    operations.push_back(Operation::put(node_key(node.uuid), node_record(node)));
  }
  for (const std::string& uuid : changes.delete_nodes) {
    operations.push_back(Operation::erase(node_key(uuid)));
  }
  for (const Table& table : changes.put_tables) {
    operations.push_back(Operation::put(table_key(table.id), table_record(table)));
  }
  for (const TableId id : changes.delete_tables) {
    operations.push_back(Operation::erase(table_key(id)));
    operations.push_back(Operation::erase_prefix(shards_prefix(id)));
  }
  for (const ShardRecord& shard : changes.put_shards) {
    operations.push_back(Operation::put(shard_key(shard.table_id, shard.shard), shard_record(shard)));
  }
  if (changes.put_denied) {
    operations.push_back(changes.put_denied->empty() ? Operation::erase(kDeniedKey)
                                                     : Operation::put(kDeniedKey, denied_record(*changes.put_denied)));
  }
  if (changes.put_join_tokens) {
    const JoinTokens& tokens = *changes.put_join_tokens;
    operations.push_back(tokens.empty() ? Operation::erase(kJoinTokensKey)
                                        : Operation::put(kJoinTokensKey, join_tokens_record(tokens)));
  }
  if (changes.put_quotas) {
    operations.push_back(changes.put_quotas->empty() ? Operation::erase(kQuotasKey)
                                                     : Operation::put(kQuotasKey, quotas_record(*changes.put_quotas)));
  }
  for (const auto& [id, grants] : changes.put_grants) {
    operations.push_back(grants.empty() ? Operation::erase(grants_key(id))
                                        : Operation::put(grants_key(id), grants_record(id, grants)));
  }
  operations.push_back(Operation::put(kMapKey, map_record(changes.map_revision, changes.next_table_id)));
  return operations;
}

absl::StatusOr<ClusterState> decode_state(const std::vector<KeyValue>& kvs) {
  ClusterState state;
  for (const KeyValue& kv : kvs) {
    bool good = false;
    if (kv.key == kClusterKey) {
      good = decode_cluster(kv.value, state);
    } else if (kv.key == kMapKey) {
      good = decode_map(kv.value, state);
    } else if (kv.key == kDeniedKey) {
      good = decode_denied(kv.value, state);
    } else if (kv.key == kJoinTokensKey) {
      good = decode_join_tokens(kv.value, state);
    } else if (kv.key == kQuotasKey) {
      good = decode_quotas(kv.value, state);
    } else if (kv.key.starts_with(kGrants)) {
      good = decode_grants(kv, state);
    } else if (kv.key.starts_with(kNodes)) {
      good = decode_node(kv, state);
    } else if (kv.key.starts_with(kTables)) {
      good = decode_table(kv, state);
    } else if (kv.key.starts_with(kShards)) {
      good = decode_shard(kv, state);
    }
    if (!good) return damaged(kv.key, "cannot be decoded");
  }
  if (auto status = check_complete(state); !status.ok()) return status;
  return state;
}

}  // namespace skua::control::metadata
