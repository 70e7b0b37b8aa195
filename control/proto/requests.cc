#include "control/proto/requests.h"

#include <algorithm>

#include "control/proto/convert.h"

namespace skua::control {
namespace {

template <typename Request>
Rights rights_of(const Request& request) {
  return (request.read() ? kRightRead : 0) | (request.write() ? kRightWrite : 0) | (request.scan() ? kRightScan : 0);
}

}  // namespace

RegisterNode from_proto(const v1::RegisterRequest& request) {
  RegisterNode registration{request.cluster_id(), from_proto(request.node()), request.applied_revision(), {}};
  registration.node.secret = request.secret();
  return registration;
}

NodeHeartbeat from_proto(const v1::HeartbeatRequest& request, int64_t unix_ms) {
  NodeHeartbeat heartbeat{request.uuid(),     request.incarnation(), request.instance(), request.applied_revision(),
                          request.stopping(), request.trouble()};
  for (const v1::CopyProgress& copy : request.copies()) heartbeat.copies.push_back(from_proto(copy));
  for (const v1::ShardRef& shard : request.unserved()) heartbeat.unserved.push_back(from_proto(shard));
  heartbeat.security = from_proto(request.security());
  heartbeat.yielding = request.yielding();
  // A clock may say anything; so much is as good as any more.
  constexpr int64_t kAheadMaxMs = int64_t{100} * 365 * 86'400 * 1000;
  const int64_t theirs = std::clamp<int64_t>(request.unix_ms(), 0, 2 * kAheadMaxMs);
  if (theirs != 0) heartbeat.clock_ahead_ns = std::clamp(theirs - unix_ms, -kAheadMaxMs, kAheadMaxMs) * kMillisecond;
  return heartbeat;
}

NodeLeave from_proto(const v1::LeaveRequest& request) {
  return {request.uuid(), request.instance(), request.force()};
}

CreateTable from_proto(const v1::CreateTableRequest& request) {
  return {request.name(),       request.shard_count(),   request.if_not_exists(), request.replicas(),
          request.min_insync(), request.read_anywhere(), request.hash_tags()};
}

DropTable from_proto(const v1::DropTableRequest& request) {
  return {request.name()};
}

DrainNode from_proto(const v1::DrainNodeRequest& request) {
  return {request.uuid()};
}

UndrainNode from_proto(const v1::UndrainNodeRequest& request) {
  return {request.uuid()};
}

MoveShard from_proto(const v1::MoveShardRequest& request) {
  return {request.table(), request.shard(), request.from(), request.to()};
}

TransferPrimary from_proto(const v1::TransferPrimaryRequest& request) {
  return {request.table(), request.shard(), request.to()};
}

ForceRecover from_proto(const v1::RecoverShardRequest& request) {
  return {request.table(), request.shard(), request.node()};
}

RevokeIdentity from_proto(const v1::RevokeIdentityRequest& request) {
  return {request.principal()};
}

UnrevokeIdentity from_proto(const v1::UnrevokeIdentityRequest& request) {
  return {request.principal()};
}

AddGrant from_proto(const v1::AddGrantRequest& request) {
  return {request.principal(), request.table(), rights_of(request)};
}

RemoveGrant from_proto(const v1::RemoveGrantRequest& request) {
  return {request.principal(), request.table(), rights_of(request), request.open_to_all()};
}

SetQuota from_proto(const v1::SetQuotaRequest& request) {
  return {request.principal(),
          {request.operations_per_s(), request.bytes_per_s(), request.sessions(), request.client_ids()}};
}

RemoveQuota from_proto(const v1::RemoveQuotaRequest& request) {
  return {request.principal()};
}

}  // namespace skua::control
