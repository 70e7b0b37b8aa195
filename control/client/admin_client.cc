#include "control/client/admin_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/channel.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"

namespace skua::control {
namespace {

TableSummary summary_of(const v1::TableInfo& info) {
  return {{info.id(), info.name(), info.shard_count()}, info.available_shard_count()};
}

ClusterStatus::Node node_of(const v1::NodeStatus& status) {
  return {from_proto(status.node()),
          from_proto(status.liveness()),
          static_cast<DurationNs>(status.silent_ms()) * kMillisecond,
          status.applied_revision(),
          status.owned_shard_count(),
          status.trouble()};
}

}  // namespace

class AdminClient::Impl {
 public:
  Impl(const std::string& address, DurationNs timeout_ns)
      : what_(absl::StrCat("control plane at ", address)),
        timeout_ns_(timeout_ns),
        channel_(make_channel(address)),
        tables(v1::Tables::NewStub(channel_)),
        cluster(v1::Cluster::NewStub(channel_)),
        maps(v1::ShardMap::NewStub(channel_)),
        membership(v1::Membership::NewStub(channel_)) {}

  /// One call of `method` on `stub`.
  template <typename Stub, typename Request, typename Reply>
  absl::Status call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply& reply, DurationNs extra_ns = 0) {
    grpc::ClientContext context;
    set_timeout(context, timeout_ns_ + extra_ns);
    return from_grpc((stub.*method)(&context, request, &reply), what_);
  }

 private:
  const std::string what_;
  const DurationNs timeout_ns_;
  const std::shared_ptr<grpc::Channel> channel_;

 public:
  const std::unique_ptr<v1::Tables::Stub> tables;
  const std::unique_ptr<v1::Cluster::Stub> cluster;
  const std::unique_ptr<v1::ShardMap::Stub> maps;
  const std::unique_ptr<v1::Membership::Stub> membership;
};

AdminClient::AdminClient(const std::string& control_address, DurationNs timeout_ns)
    : impl_(std::make_unique<Impl>(control_address, timeout_ns)) {}

AdminClient::~AdminClient() = default;

absl::StatusOr<CreatedTable> AdminClient::create_table(const CreateTableOptions& options) {
  v1::CreateTableRequest request;
  request.set_name(options.name);
  request.set_shard_count(options.shard_count);
  request.set_if_not_exists(options.if_not_exists);
  request.set_wait_ready_ms(options.wait_ready_ms);
  v1::CreateTableReply reply;
  const auto status =
      impl_->call(*impl_->tables, &v1::Tables::Stub::CreateTable, request, reply, options.wait_ready_ms * kMillisecond);
  if (!status.ok()) return status;
  return CreatedTable{summary_of(reply.table()),
                      reply.created(),
                      reply.map_revision(),
                      reply.ready(),
                      {reply.waiting_for().begin(), reply.waiting_for().end()}};
}

absl::StatusOr<std::vector<TableSummary>> AdminClient::list_tables() {
  v1::ListTablesReply reply;
  const auto status = impl_->call(*impl_->tables, &v1::Tables::Stub::ListTables, v1::ListTablesRequest(), reply);
  if (!status.ok()) return status;
  std::vector<TableSummary> tables;
  for (const v1::TableInfo& table : reply.tables()) tables.push_back(summary_of(table));
  return tables;
}

absl::StatusOr<uint64_t> AdminClient::drop_table(const std::string& name) {
  v1::DropTableRequest request;
  request.set_name(name);
  v1::DropTableReply reply;
  const auto status = impl_->call(*impl_->tables, &v1::Tables::Stub::DropTable, request, reply);
  if (!status.ok()) return status;
  return reply.map_revision();
}

absl::StatusOr<ClusterStatus> AdminClient::status() {
  v1::GetStatusReply reply;
  const auto status = impl_->call(*impl_->cluster, &v1::Cluster::Stub::GetStatus, v1::GetStatusRequest(), reply);
  if (!status.ok()) return status;
  ClusterStatus result;
  result.cluster_id = reply.cluster_id();
  result.cluster_name = reply.cluster_name();
  result.map_revision = reply.map_revision();
  for (const v1::NodeStatus& node : reply.nodes()) result.nodes.push_back(node_of(node));
  for (const v1::TableInfo& table : reply.tables()) result.tables.push_back(summary_of(table));
  result.versions = from_proto(reply.versions());
  result.uptime_ns = static_cast<DurationNs>(reply.uptime_ms()) * kMillisecond;
  result.watcher_count = reply.watcher_count();
  return result;
}

absl::StatusOr<ShardMap> AdminClient::shard_map() {
  v1::GetShardMapRequest request;
  *request.mutable_versions() = to_proto(kProtocolVersions);
  v1::GetShardMapReply reply;
  const auto status = impl_->call(*impl_->maps, &v1::ShardMap::Stub::GetShardMap, request, reply);
  if (!status.ok()) return status;
  return from_proto(reply.map());
}

absl::Status AdminClient::remove_node(const std::string& uuid, bool force) {
  v1::LeaveRequest request;
  request.set_uuid(uuid);
  request.set_force(force);
  v1::LeaveReply reply;
  return impl_->call(*impl_->membership, &v1::Membership::Stub::Leave, request, reply);
}

}  // namespace skua::control
