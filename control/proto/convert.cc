#include "control/proto/convert.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"

namespace skua::control {
namespace {

/// Of a status's text.
constexpr size_t kStatusTextMax = 4096;

void fill(v1::MapReplica& to, const MapReplica& from) {
  to.set_node(from.node);
  to.set_worker(from.worker);
  to.set_storage_incarnation(from.storage_incarnation);
}

MapReplica replica_from(const v1::MapReplica& from) {
  return {from.node(), from.worker(), from.storage_incarnation()};
}

void fill(v1::MapQuota& to, const MapQuota& from) {
  to.set_principal(from.principal);
  to.set_operations_per_s(from.quota.operations_per_s);
  to.set_bytes_per_s(from.quota.bytes_per_s);
  to.set_sessions(from.quota.sessions);
  to.set_client_ids(from.quota.client_ids);
}

MapQuota quota_from(const v1::MapQuota& from) {
  return {from.principal(), {from.operations_per_s(), from.bytes_per_s(), from.sessions(), from.client_ids()}};
}

MapTable table_from(const v1::MapTable& from) {
  const bool hash_tags = !from.hash_tag_name().empty();
  MapTable table{from.id(),
                 hash_tags ? from.hash_tag_name() : from.name(),
                 {},
                 std::max(from.replicas(), 1u),
                 std::max(from.min_insync(), 1u),
                 from.read_anywhere(),
                 hash_tags};
  table.shards.reserve(static_cast<size_t>(from.shards_size()));
  for (const v1::MapShard& shard : from.shards()) {
    MapShard& to = table.shards.emplace_back();
    to.epoch = shard.epoch();
    if (shard.has_primary()) to.primary = replica_from(shard.primary());
    for (const v1::MapReplica& backup : shard.backups()) to.backups.push_back(replica_from(backup));
    for (const v1::MapLearner& learner : shard.learners()) {
      to.learners.push_back({replica_from(learner.replica()), learner.join()});
    }
    to.change = shard.change();
    to.fork = shard.fork();
    to.primary_incarnation = shard.primary_incarnation();
  }
  for (const v1::MapGrant& grant : from.grants()) {
    // A right of a later version means nothing here, but the grant closes the table all the same.
    table.grants.push_back({grant.principal(), grant.rights() & kRightsAll});
  }
  return table;
}

/// "Connection refused" of "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7400: Failed to
/// connect to remote host: Connection refused".
std::string connect_reason(const std::string& text) {
  const size_t end = text.find_last_not_of(": ");
  const size_t start = text.rfind(": ", end);
  if (start == std::string::npos || end == std::string::npos || start + 2 > end)
    return "the connection was not accepted";
  const std::string reason = text.substr(start + 2, end - start - 1);
  if (reason.ends_with("handshaker shutdown")) return "the connection was not made in time";
  // Where gRPC has no reason an address is last.
  const bool is_address = reason.starts_with("ipv4:") || reason.starts_with("ipv6:") || reason.starts_with("unix:");
  return is_address ? "the connection was ended at once" : reason;
}

absl::string_view connect_advice(const std::string& text) {
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  // What TLS says of an answer that is none of TLS.
  if (says("wrong version number")) {
    return "It has no certificate, and this program has one: give that one a certificate first, or leave --cert, --key "
           "and --ca away until it has (docs/security.md)";
  }
  if (says("Too many open files")) return "Raise the limit of open files here, with ulimit -n 65536";
  // Somebody listens there, but no TLS or HTTP/2 came about. A server's door (connection_door.h) closes so.
  if (says("losed") || says("reset by peer") || says("Broken pipe")) {
    return "Check that it runs and that the address is right. It also closes new connections while too many begin, or "
           "too many of its files are open: its log says so then";
  }
  return "Check that it runs and that the address is right";
}

}  // namespace

v1::VersionRange to_proto(VersionRange range) {
  v1::VersionRange to;
  to.set_min(range.min);
  to.set_max(range.max);
  return to;
}

VersionRange from_proto(const v1::VersionRange& range) {
  return {range.min(), range.max()};
}

v1::NodeInfo to_proto(const NodeInfo& node) {
  v1::NodeInfo to;
  to.set_uuid(node.uuid);
  to.set_incarnation(node.incarnation);
  to.set_instance(node.instance);
  to.set_grpc_address(node.grpc_address);
  to.set_host(node.host);
  to.set_worker_count(node.worker_count);
  *to.mutable_versions() = to_proto(node.versions);
  to.set_zone(node.zone);
  to.set_storage_incarnation(node.storage_incarnation);
  to.set_draining(node.draining);
  to.set_replication_version(node.replication_version);
  return to;
}

NodeInfo from_proto(const v1::NodeInfo& node) {
  return {node.uuid(),
          node.incarnation(),
          node.instance(),
          node.grpc_address(),
          node.host(),
          node.worker_count(),
          from_proto(node.versions()),
          node.zone(),
          node.storage_incarnation(),
          node.draining(),
          node.replication_version(),
          /*secret=*/{}};
}

v1::CopyProgress to_proto(const CopyReport& copy) {
  v1::CopyProgress out;
  out.set_table_id(copy.shard.first);
  out.set_shard(copy.shard.second);
  out.set_text(copy.text);
  return out;
}

CopyReport from_proto(const v1::CopyProgress& copy) {
  return {{static_cast<TableId>(copy.table_id()), copy.shard()}, copy.text()};
}

v1::ShardRef to_proto(const ShardRef& shard) {
  v1::ShardRef out;
  out.set_table_id(shard.shard.first);
  out.set_shard(shard.shard.second);
  out.set_why(shard.why);
  return out;
}

ShardRef from_proto(const v1::ShardRef& shard) {
  return {{static_cast<TableId>(shard.table_id()), shard.shard()}, shard.why()};
}

v1::Liveness to_proto(Liveness liveness) {
  switch (liveness) {
    case Liveness::kUnknown: return v1::LIVENESS_UNKNOWN;
    case Liveness::kAlive: return v1::LIVENESS_ALIVE;
    case Liveness::kSuspected: return v1::LIVENESS_SUSPECTED;
    case Liveness::kStopped: return v1::LIVENESS_STOPPED;
  }
  return v1::LIVENESS_UNKNOWN;
}

Liveness from_proto(v1::Liveness liveness) {
  switch (liveness) {
    case v1::LIVENESS_ALIVE: return Liveness::kAlive;
    case v1::LIVENESS_SUSPECTED: return Liveness::kSuspected;
    case v1::LIVENESS_STOPPED: return Liveness::kStopped;
    default: return Liveness::kUnknown;
  }
}

v1::ProgramSecurity to_proto(const ProgramSecurity& security) {
  v1::ProgramSecurity to;
  to.set_admission(static_cast<v1::Admission>(security.admission));
  to.set_packets(static_cast<v1::PacketSafety>(security.packets));
  return to;
}

ProgramSecurity from_proto(const v1::ProgramSecurity& security) {
  ProgramSecurity to;
  switch (security.admission()) {
    case v1::ADMISSION_LOOPBACK: to.admission = Admission::kLoopback; break;
    case v1::ADMISSION_UNSAFE: to.admission = Admission::kUnsafe; break;
    case v1::ADMISSION_CERTIFICATES: to.admission = Admission::kCertificates; break;
    case v1::ADMISSION_ACCEPT: to.admission = Admission::kAccept; break;
    default: break;
  }
  switch (security.packets()) {
    case v1::PACKET_SAFETY_OFF: to.packets = PacketSafety::kOff; break;
    case v1::PACKET_SAFETY_AUTHENTICATE: to.packets = PacketSafety::kAuthenticate; break;
    case v1::PACKET_SAFETY_ENCRYPT: to.packets = PacketSafety::kEncrypt; break;
    default: break;
  }
  return to;
}

v1::ShardMapSnapshot to_proto(const ShardMap& map) {
  v1::ShardMapSnapshot to;
  to.set_cluster_id(map.cluster_id);
  to.set_cluster_name(map.cluster_name);
  to.set_revision(map.revision);
  for (const std::string& principal : map.denied) to.add_denied(principal);
  for (const MapQuota& quota : map.quotas) fill(*to.add_quotas(), quota);
  for (const MapNode& node : map.nodes) {
    v1::MapNode& added = *to.add_nodes();
    added.set_uuid(node.uuid);
    added.set_incarnation(node.incarnation);
    added.set_grpc_address(node.grpc_address);
    added.set_worker_count(node.worker_count);
    added.set_zone(node.zone);
    added.set_storage_incarnation(node.storage_incarnation);
    added.set_replication_version(node.replication_version);
  }
  for (const MapTable& table : map.tables) {
    v1::MapTable& added = *to.add_tables();
    added.set_id(table.id);
    (table.hash_tags ? *added.mutable_hash_tag_name() : *added.mutable_name()) = table.name;
    added.set_replicas(table.replicas);
    added.set_min_insync(table.min_insync);
    added.set_read_anywhere(table.read_anywhere);
    for (const MapGrant& grant : table.grants) {
      v1::MapGrant& added_grant = *added.add_grants();
      added_grant.set_principal(grant.principal);
      added_grant.set_rights(grant.rights);
    }
    for (const MapShard& shard : table.shards) {
      v1::MapShard& added_shard = *added.add_shards();
      added_shard.set_epoch(shard.epoch);
      if (shard.primary) fill(*added_shard.mutable_primary(), *shard.primary);
      for (const MapReplica& backup : shard.backups) fill(*added_shard.add_backups(), backup);
      for (const MapLearner& learner : shard.learners) {
        v1::MapLearner& added_learner = *added_shard.add_learners();
        fill(*added_learner.mutable_replica(), learner.replica);
        added_learner.set_join(learner.join);
      }
      added_shard.set_change(shard.change);
      added_shard.set_fork(shard.fork);
      added_shard.set_primary_incarnation(shard.primary_incarnation);
    }
  }
  return to;
}

absl::StatusOr<ShardMap> from_proto(const v1::ShardMapSnapshot& map) {
  ShardMap to;
  to.cluster_id = map.cluster_id();
  to.cluster_name = map.cluster_name();
  to.revision = map.revision();
  to.denied = {map.denied().begin(), map.denied().end()};
  for (const v1::MapQuota& quota : map.quotas()) to.quotas.push_back(quota_from(quota));
  for (const v1::MapNode& node : map.nodes()) {
    to.nodes.push_back({node.uuid(), node.incarnation(), node.grpc_address(), node.worker_count(), node.zone(),
                        node.storage_incarnation(), node.replication_version()});
  }
  for (const v1::MapTable& table : map.tables()) to.tables.push_back(table_from(table));
  if (to.revision == 0 || !to.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard map revision ", to.revision, " of cluster ", to.cluster_id, " is malformed"));
  }
  return to;
}

v1::ReportReplicasRequest to_proto(const ReplicaReport& report) {
  v1::ReportReplicasRequest to;
  const auto fill_shard = [](v1::ShardAtEpoch& shard, const ShardAtEpoch& from) {
    shard.set_table_id(from.shard.first);
    shard.set_shard(from.shard.second);
    shard.set_epoch(from.epoch);
  };
  to.set_uuid(report.uuid);
  to.set_incarnation(report.incarnation);
  to.set_instance(report.instance);
  for (const Suspicion& suspicion : report.suspicions) {
    v1::Suspicion& added = *to.add_suspicions();
    added.set_accused(suspicion.accused);
    added.set_reason(suspicion.reason);
    for (const ShardAtEpoch& shard : suspicion.shards) fill_shard(*added.add_shards(), shard);
  }
  for (const CaughtUp& fact : report.caught_up) {
    v1::CaughtUp& added = *to.add_caught_up();
    fill_shard(*added.mutable_shard(), fact.shard);
    added.set_learner(fact.learner);
  }
  for (const JoinReady& fact : report.join_ready) {
    v1::JoinReady& added = *to.add_join_ready();
    fill_shard(*added.mutable_shard(), fact.shard);
    added.set_learner(fact.learner);
    added.set_join(fact.join);
  }
  for (const Doubt& doubt : report.doubts) {
    v1::Doubt& added = *to.add_doubts();
    fill_shard(*added.mutable_shard(), doubt.shard);
    added.set_last_epoch(doubt.last_epoch);
    added.set_last_index(doubt.last_index);
  }
  return to;
}

absl::StatusOr<ReplicaReport> from_proto(const v1::ReportReplicasRequest& report) {
  size_t shards = static_cast<size_t>(report.caught_up_size()) + static_cast<size_t>(report.join_ready_size()) +
                  static_cast<size_t>(report.suspicions_size()) + static_cast<size_t>(report.doubts_size());
  for (const v1::Suspicion& suspicion : report.suspicions()) shards += static_cast<size_t>(suspicion.shards_size());
  if (shards > kReportShardsMax) {
    return absl::InvalidArgumentError(absl::StrCat("a report of node ", report.uuid(), " names ", shards,
                                                   " shards; the limit is ", kReportShardsMax));
  }
  const auto shard_of = [](const v1::ShardAtEpoch& from) {
    return ShardAtEpoch{{from.table_id(), from.shard()}, from.epoch()};
  };
  ReplicaReport to{report.uuid(), report.incarnation(), report.instance(), {}, {}, {}};
  for (const v1::Suspicion& suspicion : report.suspicions()) {
    Suspicion& added = to.suspicions.emplace_back();
    added.accused = suspicion.accused();
    added.reason = suspicion.reason();
    for (const v1::ShardAtEpoch& shard : suspicion.shards()) added.shards.push_back(shard_of(shard));
  }
  for (const v1::CaughtUp& fact : report.caught_up()) to.caught_up.push_back({shard_of(fact.shard()), fact.learner()});
  for (const v1::JoinReady& fact : report.join_ready()) {
    to.join_ready.push_back({shard_of(fact.shard()), fact.learner(), fact.join()});
  }
  for (const v1::Doubt& doubt : report.doubts()) {
    to.doubts.push_back({shard_of(doubt.shard()), doubt.last_epoch(), doubt.last_index()});
  }
  return to;
}

v1::TransportDescriptor to_proto(const TransportDescriptor& descriptor) {
  v1::TransportDescriptor to;
  to.set_kind(descriptor.kind);
  to.set_address(descriptor.bytes);
  return to;
}

TransportDescriptor from_proto(const v1::TransportDescriptor& descriptor) {
  return {descriptor.kind(), descriptor.address()};
}

v1::DescribeReply to_proto(const NodeDescription& node) {
  v1::DescribeReply to;
  to.set_node_uuid(node.node_uuid);
  to.set_incarnation(node.incarnation);
  to.set_cluster_id(node.cluster_id);
  *to.mutable_versions() = to_proto(kProtocolVersions);
  to.set_features(node.features);
  for (const WorkerDescription& worker : node.workers) {
    v1::WorkerInfo& added = *to.add_workers();
    added.set_worker(worker.worker);
    for (const TransportDescriptor& transport : worker.transports) {
      *added.add_transports() = to_proto(transport);
    }
  }
  return to;
}

NodeDescription from_proto(const v1::DescribeReply& reply) {
  NodeDescription to{reply.node_uuid(), reply.incarnation(), reply.cluster_id(), {}, reply.features()};
  for (const v1::WorkerInfo& worker : reply.workers()) {
    WorkerDescription& added = to.workers.emplace_back();
    added.worker = worker.worker();
    for (const v1::TransportDescriptor& transport : worker.transports()) {
      added.transports.push_back(from_proto(transport));
    }
  }
  return to;
}

grpc::Status to_grpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // What is refused may be quoted, and be as long as a request.
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message().substr(0, kStatusTextMax))};
}

absl::Status from_grpc(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const std::string& text = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && text.starts_with("DNS resolution failed")) {
    return {code, absl::StrCat(what,
                               " cannot be reached: its name cannot be resolved. Check its spelling, or give an IP "
                               "address")};
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && text.starts_with("failed to connect")) {
    return {code, absl::StrCat(what, " cannot be reached (", connect_reason(text), "). ", connect_advice(text))};
  }
  const std::string reason = text.empty() ? "the call was ended without a reason" : text;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL: return {code, absl::StrCat(what, ": ", reason)};
    default: return {code, reason};
  }
}

}  // namespace skua::control
