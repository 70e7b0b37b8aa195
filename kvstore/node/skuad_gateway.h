// The gateway that a node may have: skuad --resp-address and --memcached-address.
//
// It is a client of the cluster in the node's process: it reaches all nodes, its own among them, as other clients do.
// It shows them the node's certificate.
#ifndef SKUA_KVSTORE_NODE_SKUAD_GATEWAY_H_
#define SKUA_KVSTORE_NODE_SKUAD_GATEWAY_H_

#include <memory>

#include "absl/status/status.h"
#include "app/log.h"
#include "control/security/credentials.h"
#include "kvstore/gateway/gateway_starter.h"
#include "kvstore/node/node.h"
#include "kvstore/node/skuad_options.h"

namespace skua::kv {

/// Whether the options of the gateway make sense, and the files that they name are good. INVALID_ARGUMENT: the message
/// says what to do.
[[nodiscard]] absl::Status check_gateway(const SkuadOptions& config);

/// Whether its ports are free, before the node makes anything. FAILED_PRECONDITION: one is in use.
[[nodiscard]] absl::Status probe_gateway(const SkuadOptions& config);

/// Null: there is to be none. `credentials`: the node's; null: none. check_gateway() was OK. `node` outlives the
/// gateway.
[[nodiscard]] std::unique_ptr<gateway::GatewayStarter> start_gateway(const SkuadOptions& config,
                                                                     const control::CredentialsPtr& credentials,
                                                                     Node& node, const app::Logger& logger);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SKUAD_GATEWAY_H_
