// Between protobuf messages and the core's structs. Included by control/server and control/client
// only, never by their public headers.
//
// from_proto() takes what a peer sent: it checks whatever later code relies on, and what it refuses
// is INVALID_ARGUMENT.
#ifndef SKUA_CONTROL_PROTO_CONVERT_H_
#define SKUA_CONTROL_PROTO_CONVERT_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/bootstrap.h"
#include "control/core/cluster_core.h"
#include "control/core/cluster_state.h"
#include "control/core/events.h"
#include "control/core/node_status.h"
#include "control/core/program_security.h"
#include "control/core/protocol_version.h"
#include "control/core/shard_map.h"
#include "control/proto/bootstrap.pb.h"
#include "control/proto/control.pb.h"

namespace skua::control {

[[nodiscard]] v1::VersionRange to_proto(VersionRange range);
[[nodiscard]] VersionRange from_proto(const v1::VersionRange& range);

[[nodiscard]] v1::NodeInfo to_proto(const NodeInfo& node);
[[nodiscard]] NodeInfo from_proto(const v1::NodeInfo& node);

[[nodiscard]] v1::Liveness to_proto(Liveness liveness);
/// An unknown number counts as kUnknown.
[[nodiscard]] Liveness from_proto(v1::Liveness liveness);

[[nodiscard]] v1::ProgramSecurity to_proto(const ProgramSecurity& security);
/// Unknown numbers count as kUnknown.
[[nodiscard]] ProgramSecurity from_proto(const v1::ProgramSecurity& security);

[[nodiscard]] v1::CopyProgress to_proto(const CopyReport& copy);
[[nodiscard]] CopyReport from_proto(const v1::CopyProgress& copy);

[[nodiscard]] v1::ShardRef to_proto(const ShardRef& shard);
[[nodiscard]] ShardRef from_proto(const v1::ShardRef& shard);

[[nodiscard]] v1::ShardMapSnapshot to_proto(const ShardMap& map);
[[nodiscard]] absl::StatusOr<ShardMap> from_proto(const v1::ShardMapSnapshot& map);

[[nodiscard]] v1::ReportReplicasRequest to_proto(const ReplicaReport& report);
/// INVALID_ARGUMENT above kReportShardsMax.
[[nodiscard]] absl::StatusOr<ReplicaReport> from_proto(const v1::ReportReplicasRequest& report);

[[nodiscard]] v1::TransportDescriptor to_proto(const TransportDescriptor& descriptor);
[[nodiscard]] TransportDescriptor from_proto(const v1::TransportDescriptor& descriptor);
[[nodiscard]] v1::DescribeReply to_proto(const NodeDescription& node);
[[nodiscard]] NodeDescription from_proto(const v1::DescribeReply& reply);

/// absl's codes are gRPC's.
[[nodiscard]] grpc::Status to_grpc(const absl::Status& status);
/// `what` says what was tried, on whom; it starts the message of a transport error, and a server's
/// own message stands alone.
[[nodiscard]] absl::Status from_grpc(const grpc::Status& status, const std::string& what);

}  // namespace skua::control

#endif  // SKUA_CONTROL_PROTO_CONVERT_H_
