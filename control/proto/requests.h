// What nodes and operators ask for, as events of the core. What is in them is checked by the core, which sees peers'
// words as they are; from_proto() of convert.h checks what a conversion itself relies on.
#ifndef SKUA_CONTROL_PROTO_REQUESTS_H_
#define SKUA_CONTROL_PROTO_REQUESTS_H_

#include <cstdint>

#include "control/core/events.h"
#include "control/proto/control.pb.h"

namespace skua::control {

[[nodiscard]] RegisterNode from_proto(const v1::RegisterRequest& request);
/// `unix_ms` is this process's wall clock, which the node's is compared with.
[[nodiscard]] NodeHeartbeat from_proto(const v1::HeartbeatRequest& request, int64_t unix_ms);
[[nodiscard]] NodeLeave from_proto(const v1::LeaveRequest& request);
[[nodiscard]] CreateTable from_proto(const v1::CreateTableRequest& request);
[[nodiscard]] DropTable from_proto(const v1::DropTableRequest& request);
[[nodiscard]] DrainNode from_proto(const v1::DrainNodeRequest& request);
[[nodiscard]] UndrainNode from_proto(const v1::UndrainNodeRequest& request);
[[nodiscard]] MoveShard from_proto(const v1::MoveShardRequest& request);
[[nodiscard]] TransferPrimary from_proto(const v1::TransferPrimaryRequest& request);
[[nodiscard]] ForceRecover from_proto(const v1::RecoverShardRequest& request);
[[nodiscard]] RevokeIdentity from_proto(const v1::RevokeIdentityRequest& request);
[[nodiscard]] UnrevokeIdentity from_proto(const v1::UnrevokeIdentityRequest& request);
[[nodiscard]] AddGrant from_proto(const v1::AddGrantRequest& request);
[[nodiscard]] RemoveGrant from_proto(const v1::RemoveGrantRequest& request);
[[nodiscard]] SetQuota from_proto(const v1::SetQuotaRequest& request);
[[nodiscard]] RemoveQuota from_proto(const v1::RemoveQuotaRequest& request);

}  // namespace skua::control

#endif  // SKUA_CONTROL_PROTO_REQUESTS_H_
