// How the control plane's services end a call. Internal: includes gRPC.
#ifndef SKUA_CONTROL_SERVER_FINISH_CALL_H_
#define SKUA_CONTROL_SERVER_FINISH_CALL_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "control/proto/convert.h"
#include "control/proto/redirect.h"

namespace skua::control {

/// Tells the caller who leads, if the status says so.
inline void name_leader(grpc::CallbackServerContext& context, const absl::Status& status) {
  if (is_leaders_answer(status)) context.AddTrailingMetadata(kLeadsMetadata, "1");
  if (const auto leader = redirected_to(status)) context.AddTrailingMetadata(kLeaderMetadata, *leader);
}

inline void finish(grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* reactor,
                   const absl::Status& status) {
  name_leader(*context, status);
  reactor->Finish(to_grpc(status));
}

/// Finishes the call at once if the command could not be queued.
inline grpc::ServerUnaryReactor* queued(grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* reactor,
                                        const absl::Status& status) {
  if (!status.ok()) finish(context, reactor, status);
  return reactor;
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_FINISH_CALL_H_
