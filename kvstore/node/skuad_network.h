// The network that skuad's sessions run over: TCP, a DPDK port or an RDMA device.
#ifndef SKUA_KVSTORE_NODE_SKUAD_NETWORK_H_
#define SKUA_KVSTORE_NODE_SKUAD_NETWORK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "app/log.h"
#include "kvstore/node/node_options.h"
#include "kvstore/node/skuad_options.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/verbs/verbs_fabric.h"

namespace skua::kv {

/// Outlives the node, whose workers use it.
struct Network {
  std::unique_ptr<rpc::DpdkFabric> dpdk;
  std::unique_ptr<rpc::VerbsFabric> verbs;
  std::string advertise_ip;
};

/// Whether the options of the transport make sense. Touches no device.
[[nodiscard]] absl::Status check_network(const SkuadOptions& config);

/// Checks that ports or devices are usable before the node creates or registers anything. An error ends the process as
/// a usage error, because a person must correct it.
[[nodiscard]] Network open_network(const SkuadOptions& config, const app::Logger& logger);

/// Makes the transports of the workers. `network` outlives them. They tell `logger` whom they send away.
[[nodiscard]] TransportFactory transport_factory(const SkuadOptions& config, const Network& network,
                                                 const app::Logger& logger);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SKUAD_NETWORK_H_
