// What an AsyncClient is made of; tests make one over parts of their own.
#ifndef SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_IMPL_H_
#define SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_IMPL_H_

#include <memory>

#include "kvstore/client/async_client.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/cluster_access.h"
#include "rpc/base/clock.h"
#include "rpc/transport/transport.h"

namespace skua::kv {

struct AsyncClient::Impl {
  Impl(std::unique_ptr<Clock> clock_arg, std::shared_ptr<rpc::Transport> transport_arg,
       std::unique_ptr<ClusterAccess> cluster_arg, const ClientOptions& options, uint64_t client_id)
      : clock(std::move(clock_arg)),
        transport(std::move(transport_arg)),
        cluster(std::move(cluster_arg)),
        core(*transport, *clock, *cluster, options, client_id) {}

  const std::unique_ptr<Clock> clock;
  const std::shared_ptr<rpc::Transport> transport;  // nobody else's; shared for what its maker ends with it
  const std::unique_ptr<ClusterAccess> cluster;
  ClientCore core;
};

/// What a new client's writes are known by; drawn from the system, whatever seed the client has, because no two clients may
/// have the same.
[[nodiscard]] uint64_t draw_client_id();

/// A client's transport: what `maker` makes, or TCP that dials and does not listen.
[[nodiscard]] absl::StatusOr<std::shared_ptr<rpc::Transport>> make_client_transport(uint64_t seed,
                                                                                    const TransportMaker& maker = {});

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_IMPL_H_
