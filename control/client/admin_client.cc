#include "control/client/admin_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/channel.h"
#include "control/client/what_answers.h"
#include "control/proto/certificates.grpc.pb.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"

namespace skua::control {
namespace {

TableSummary summary_of(const v1::TableInfo& info) {
  return {{info.id(), info.name(), info.shard_count(), std::max(info.replicas(), 1u), std::max(info.min_insync(), 1u),
           info.read_anywhere(), info.hash_tags()},
          info.available_shard_count(),
          info.settled_shard_count()};
}

template <typename Request>
void fill_grant(Request& request, const std::string& principal, const std::string& table, Rights rights) {
  request.set_principal(principal);
  request.set_table(table);
  request.set_read((rights & kRightRead) != 0);
  request.set_write((rights & kRightWrite) != 0);
  request.set_scan((rights & kRightScan) != 0);
}

ClusterStatus::Node node_of(const v1::NodeStatus& status) {
  std::vector<CopyReport> copies;
  for (const v1::CopyProgress& copy : status.copies()) copies.push_back(from_proto(copy));
  std::vector<ShardRef> unserved;
  for (const v1::ShardRef& shard : status.unserved()) unserved.push_back(from_proto(shard));
  return {from_proto(status.node()),
          from_proto(status.liveness()),
          static_cast<DurationNs>(status.silent_ms()) * kMillisecond,
          status.applied_revision(),
          status.owned_shard_count(),
          status.staying_shard_count(),
          status.replica_count(),
          status.drain_progress(),
          status.trouble(),
          std::move(copies),
          std::move(unserved),
          from_proto(status.security())};
}

}  // namespace

class AdminClient::Impl {
 public:
  Impl(const std::string& addresses, DurationNs timeout_ns, CredentialsPtr credentials, bool tls_only = false)
      : addresses_(addresses),
        what_(absl::StrCat("control plane at ", addresses)),
        timeout_ns_(timeout_ns),
        credentials_(std::move(credentials)),
        peers_(addresses, credentials_, tls_only) {}

  /// The same with TLS only; null without credentials.
  [[nodiscard]] std::unique_ptr<Impl> over_tls() const {
    return credentials_ == nullptr ? nullptr : std::make_unique<Impl>(addresses_, timeout_ns_, credentials_, true);
  }

  /// One call of `method` of a service: on the process that leads, once it is found.
  template <typename Service, typename Request, typename Reply>
  absl::Status call(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply& reply, DurationNs extra_ns = 0) {
    const TimeNs deadline = clock_.now_ns() + timeout_ns_;
    absl::Status refusal;      // by one that does not lead: it says more than that others do not answer
    size_t refused_there = 0;  // addresses one after the other where nobody listens
    while (true) {
      const ControlPeers::Peer& peer = peers_.peer();
      const DurationNs left_ns = std::max<DurationNs>(deadline - clock_.now_ns(), kMillisecond);
      auto outcome = ControlPeers::Outcome::kNobodyLeads;
      absl::Status status = absl::UnavailableError(
          absl::StrCat(what_, " cannot be reached. Check that it runs and that the address is right"));
      // With one way gRPC says better what is wrong.
      auto connected = ControlPeers::Connected::kYes;
      if (peers_.all().size() > 1) connected = peers_.connect(peer, std::min(left_ns, kConnectMax));
      if (connected != ControlPeers::Connected::kRefused) refused_there = 0;
      if (connected == ControlPeers::Connected::kRefused && !ControlPeers::is_second_way(peers_.peer()))
        ++refused_there;
      if (connected == ControlPeers::Connected::kYes) {
        grpc::ClientContext context;
        set_timeout(context, left_ns + extra_ns);
        const auto stub = Service::NewStub(peer.channel);
        const grpc::Status ended = (stub.get()->*method)(&context, request, &reply);
        outcome = peers_.learn(peer, ended, context);
        status = from_grpc(ended, what_);
        if (outcome == ControlPeers::Outcome::kNobodyLeads) refusal = status;
      }
      const bool answered = outcome == ControlPeers::Outcome::kAnswered;
      // What a leader says is UNAVAILABLE needs no explanation; of other codes nobody knows yet who said so.
      if (answered && status.code() == absl::StatusCode::kUnavailable) return status;
      // A control process has said that it does not lead, so it can be reached: a lost answer needs no guess, either.
      if (outcome == ControlPeers::Outcome::kLost && !refusal.ok()) return status;
      if (answered || outcome == ControlPeers::Outcome::kLost) {
        return explain_control_failure(status, peer.address, credentials_);
      }
      // As with one address.
      if (refused_there == peers_.addresses()) return refusal.ok() ? explained(status) : refusal;
      if (connected == ControlPeers::Connected::kRefused) continue;
      const DurationNs pause_ns = outcome == ControlPeers::Outcome::kRedirected ? kMillisecond : kPause;
      if (clock_.now_ns() + pause_ns >= deadline) {
        return refusal.ok() ? explained(status) : refusal;
      }
      std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns));
    }
  }

 private:
  /// Nobody could be asked: what stands at one of the addresses instead, if something does.
  absl::Status explained(const absl::Status& status) const {
    for (const ControlPeers::Peer& peer : peers_.all()) {
      if (absl::Status said = explain_control_failure(status, peer.address, credentials_); said != status) return said;
    }
    return status;
  }

  static constexpr DurationNs kConnectMax = kSecond;
  static constexpr DurationNs kPause = 100 * kMillisecond;

  const std::string addresses_;
  const std::string what_;
  const DurationNs timeout_ns_;
  const SteadyClock clock_;
  const CredentialsPtr credentials_;
  ControlPeers peers_;
};

AdminClient::AdminClient(const std::string& control_address, DurationNs timeout_ns, CredentialsPtr credentials)
    : impl_(std::make_unique<Impl>(control_address, timeout_ns, std::move(credentials))) {}

AdminClient::~AdminClient() = default;

absl::StatusOr<CreatedTable> AdminClient::create_table(const CreateTableOptions& options) {
  v1::CreateTableRequest request;
  request.set_name(options.name);
  request.set_shard_count(options.shard_count);
  request.set_if_not_exists(options.if_not_exists);
  request.set_wait_ready_ms(options.wait_ready_ms);
  request.set_replicas(options.replicas);
  request.set_min_insync(options.min_insync);
  request.set_read_anywhere(options.read_anywhere);
  request.set_hash_tags(options.hash_tags);
  v1::CreateTableReply reply;
  absl::Status status =
      impl_->call<v1::Tables>(&v1::Tables::Stub::CreateTable, request, reply, options.wait_ready_ms * kMillisecond);
  if (!status.ok()) return status;
  if (options.read_anywhere && !reply.table().read_anywhere()) {  // a control plane of an earlier build
    return absl::AlreadyExistsError(absl::StrCat("table ", options.name, " exists, without read_anywhere. Use it, ",
                                                 "choose another name, or drop it first"));
  }
  if (options.hash_tags && !reply.table().hash_tags()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the control plane is of a build before hash tags, and has made table ", options.name,
                     " without them: drop the table, and upgrade all programs of the cluster first"));
  }
  return CreatedTable{summary_of(reply.table()),
                      reply.created(),
                      reply.map_revision(),
                      reply.ready(),
                      {reply.waiting_for().begin(), reply.waiting_for().end()}};
}

absl::StatusOr<std::vector<TableSummary>> AdminClient::list_tables() {
  v1::ListTablesReply reply;
  absl::Status status = impl_->call<v1::Tables>(&v1::Tables::Stub::ListTables, v1::ListTablesRequest(), reply);
  if (!status.ok()) return status;
  std::vector<TableSummary> tables;
  for (const v1::TableInfo& table : reply.tables()) tables.push_back(summary_of(table));
  return tables;
}

absl::StatusOr<uint64_t> AdminClient::drop_table(const std::string& name) {
  v1::DropTableRequest request;
  request.set_name(name);
  v1::DropTableReply reply;
  absl::Status status = impl_->call<v1::Tables>(&v1::Tables::Stub::DropTable, request, reply);
  if (!status.ok()) return status;
  return reply.map_revision();
}

absl::StatusOr<ClusterStatus> AdminClient::status() {
  v1::GetStatusReply reply;
  absl::Status status = impl_->call<v1::Cluster>(&v1::Cluster::Stub::GetStatus, v1::GetStatusRequest(), reply);
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
  result.anonymous_watcher_count = reply.anonymous_watcher_count();
  result.troubles = {reply.troubles().begin(), reply.troubles().end()};
  result.hints = {reply.hints().begin(), reply.hints().end()};
  result.security = from_proto(reply.security());
  return result;
}

absl::StatusOr<ShardMap> AdminClient::shard_map() {
  v1::GetShardMapRequest request;
  *request.mutable_versions() = to_proto(kProtocolVersions);
  v1::GetShardMapReply reply;
  absl::Status status = impl_->call<v1::ShardMap>(&v1::ShardMap::Stub::GetShardMap, request, reply);
  if (!status.ok()) return status;
  return from_proto(reply.map());
}

absl::Status AdminClient::remove_node(const std::string& uuid, bool force) {
  v1::LeaveRequest request;
  request.set_uuid(uuid);
  request.set_force(force);
  v1::LeaveReply reply;
  return impl_->call<v1::Membership>(&v1::Membership::Stub::Leave, request, reply);
}

absl::Status AdminClient::drain_node(const std::string& uuid) {
  v1::DrainNodeRequest request;
  request.set_uuid(uuid);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::DrainNode, request, reply);
}

absl::Status AdminClient::undrain_node(const std::string& uuid) {
  v1::UndrainNodeRequest request;
  request.set_uuid(uuid);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::UndrainNode, request, reply);
}

absl::Status AdminClient::move_shard(const std::string& table, uint32_t shard, const std::string& from,
                                     const std::string& to) {
  v1::MoveShardRequest request;
  request.set_table(table);
  request.set_shard(shard);
  request.set_from(from);
  request.set_to(to);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::MoveShard, request, reply);
}

absl::Status AdminClient::transfer_primary(const std::string& table, uint32_t shard, const std::string& to) {
  v1::TransferPrimaryRequest request;
  request.set_table(table);
  request.set_shard(shard);
  request.set_to(to);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::TransferPrimary, request, reply);
}

absl::Status AdminClient::recover_shard(const std::string& table, uint32_t shard, const std::string& node) {
  v1::RecoverShardRequest request;
  request.set_table(table);
  request.set_shard(shard);
  request.set_node(node);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::RecoverShard, request, reply);
}

absl::Status AdminClient::revoke_identity(const std::string& principal) {
  v1::RevokeIdentityRequest request;
  request.set_principal(principal);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::RevokeIdentity, request, reply);
}

absl::Status AdminClient::unrevoke_identity(const std::string& principal) {
  v1::UnrevokeIdentityRequest request;
  request.set_principal(principal);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::UnrevokeIdentity, request, reply);
}

absl::Status AdminClient::add_grant(const std::string& principal, const std::string& table, Rights rights) {
  v1::AddGrantRequest request;
  fill_grant(request, principal, table, rights);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::AddGrant, request, reply);
}

absl::Status AdminClient::remove_grant(const std::string& principal, const std::string& table, Rights rights,
                                       bool open_to_all) {
  v1::RemoveGrantRequest request;
  fill_grant(request, principal, table, rights);
  request.set_open_to_all(open_to_all);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::RemoveGrant, request, reply);
}

absl::Status AdminClient::set_quota(const std::string& principal, const Quota& quota) {
  v1::SetQuotaRequest request;
  request.set_principal(principal);
  request.set_operations_per_s(quota.operations_per_s);
  request.set_bytes_per_s(quota.bytes_per_s);
  request.set_sessions(quota.sessions);
  request.set_client_ids(quota.client_ids);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::SetQuota, request, reply);
}

absl::Status AdminClient::remove_quota(const std::string& principal) {
  v1::RemoveQuotaRequest request;
  request.set_principal(principal);
  v1::ChangeReply reply;
  return impl_->call<v1::Cluster>(&v1::Cluster::Stub::RemoveQuota, request, reply);
}

absl::StatusOr<JoinTokenSummary> AdminClient::create_join_token(const std::string& role, const std::string& name,
                                                                uint32_t ttl_s) {
  v1::CreateJoinTokenRequest request;
  request.set_role(role);
  request.set_name(name);
  request.set_ttl_s(ttl_s);
  v1::CreateJoinTokenReply reply;
  absl::Status status = impl_->call<v1::Certificates>(&v1::Certificates::Stub::CreateJoinToken, request, reply);
  if (!status.ok()) return status;
  return JoinTokenSummary{reply.token_id(), reply.principal(), reply.expires_s(), false, reply.token()};
}

absl::StatusOr<std::vector<JoinTokenSummary>> AdminClient::join_tokens() {
  v1::ListJoinTokensReply reply;
  absl::Status status =
      impl_->call<v1::Certificates>(&v1::Certificates::Stub::ListJoinTokens, v1::ListJoinTokensRequest(), reply);
  if (!status.ok()) return status;
  std::vector<JoinTokenSummary> tokens;
  for (const v1::JoinTokenInfo& token : reply.tokens()) {
    tokens.push_back({token.token_id(), token.principal(), token.expires_s(), token.used()});
  }
  return tokens;
}

absl::Status AdminClient::drop_join_token(const std::string& token_id) {
  v1::DropJoinTokenRequest request;
  request.set_token_id(token_id);
  v1::DropJoinTokenReply reply;
  return impl_->call<v1::Certificates>(&v1::Certificates::Stub::DropJoinToken, request, reply);
}

absl::StatusOr<IssuedText> AdminClient::renew_certificate(const std::string& request_bytes) {
  // Whoever stands between could give its own certificate and authority, with --security accept, too.
  const std::unique_ptr<Impl> over_tls = impl_->over_tls();
  if (over_tls == nullptr) {
    return absl::FailedPreconditionError("there is no certificate to renew: give --cert, --key and --ca");
  }
  v1::RenewRequest request;
  request.set_request(request_bytes);
  v1::IssuedCertificate reply;
  absl::Status status = over_tls->call<v1::Certificates>(&v1::Certificates::Stub::Renew, request, reply);
  if (!status.ok()) return status;
  return IssuedText{reply.certificate(), reply.authorities()};
}

}  // namespace skua::control
