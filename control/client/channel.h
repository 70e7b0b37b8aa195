// How this library connects. Internal: includes gRPC.
#ifndef SKUA_CONTROL_CLIENT_CHANNEL_H_
#define SKUA_CONTROL_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "rpc/base/clock.h"

namespace skua::control {

/// A channel of its own (not shared with others to the same address), that notices a dead peer
/// within seconds and reconnects quickly. Connects lazily; never fails here.
[[nodiscard]] std::shared_ptr<grpc::Channel> make_channel(const std::string& address);

/// The call must be over `timeout_ns` from now.
void set_timeout(grpc::ClientContext& context, DurationNs timeout_ns);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_CHANNEL_H_
