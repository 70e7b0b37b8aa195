// AsyncClient::Impl: the parts of an AsyncClient. Tests make an AsyncClient from parts of their own.
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
  const std::shared_ptr<rpc::Transport> transport;  // not shared; a shared_ptr for the deleter of its maker
  const std::unique_ptr<ClusterAccess> cluster;
  ClientCore core;
};

/// Draws the id that identifies a new client's writes; not 0. It is drawn from the system and not from the client's
/// seed, because no two clients may have the same id.
[[nodiscard]] uint64_t draw_client_id();

/// A client's transport: the one that `maker` makes or, without a maker, TCP that dials and does not listen. `seed`
/// determines the uuid of the client's endpoint.
[[nodiscard]] absl::StatusOr<std::shared_ptr<rpc::Transport>> make_client_transport(uint64_t seed,
                                                                                    const TransportMaker& maker = {});

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_IMPL_H_
