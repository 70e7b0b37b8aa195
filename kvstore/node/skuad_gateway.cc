#include "kvstore/node/skuad_gateway.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kvstore/gateway/gateway_sockets.h"
#include "kvstore/node/node_certificate.h"
#include "kvstore/node/skuad_exit.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// `credentials`: the files of the node's certificate; none: without.
absl::StatusOr<gateway::GatewayOptions> options_of(const SkuadOptions& config, control::CredentialFiles credentials) {
  gateway::ProgramOptions options = config.gateway;
  options.client.control_address = config.control_address;
  options.client.credentials = std::move(credentials);
  options.client.packets = config.packets;
  options.packet_key_lifetime_ns = config.packet_key_lifetime_ns;
  options.allows_everybody = config.security == control::SecurityChoice::kOffUnsafe;
  absl::StatusOr<gateway::GatewayOptions> out = gateway::gateway_options(options);
  if (out.ok()) out->tells_certificate_expiry = false;  // the node does
  return out;
}

}  // namespace

absl::Status check_gateway(const SkuadOptions& config) {
  if (!config.gateway.speaks()) {
    if (config.gateway.tables.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--databases names tables for clients of Redis or memcached: give --resp-address or --memcached-address, too");
  }
  if (config.transport != TransportKind::kTcp) {
    return absl::InvalidArgumentError(
        absl::StrCat("a gateway inside of a node reaches the cluster over TCP, and the node serves over ",
                     name_of(config.transport), " only: run skua-gateway beside it"));
  }
  absl::StatusOr<gateway::GatewayOptions> options = options_of(config, config.credentials);
  if (!options.ok()) return options.status();
  return gateway::load_client_security(options->client_security, options->databases).status();
}

absl::Status probe_gateway(const SkuadOptions& config) {
  if (!config.gateway.speaks()) return absl::OkStatus();
  const absl::StatusOr<gateway::GatewayOptions> options = options_of(config, config.credentials);
  if (!options.ok()) return options.status();
  for (const gateway::EntranceOptions& entrance : options->entrances) {
    if (absl::Status status = gateway::check_free(entrance.host, entrance.port); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::unique_ptr<gateway::GatewayStarter> start_gateway(const SkuadOptions& config,
                                                       const control::CredentialsPtr& credentials, Node& node,
                                                       const app::Logger& logger) {
  if (!config.gateway.speaks()) return nullptr;
  const bool has_joined = credentials != nullptr && config.credentials.empty();
  auto options = value_or_fail(options_of(config, has_joined ? joined_files(config.data_dir) : config.credentials));
  if (const std::string warning = gateway::exposure_warning(config.gateway); !warning.empty()) logger.warning(warning);
  options.report = gateway::reporter_to(logger);
  if (options.threads == 0) {
    options.threads = config.workers;
    options.check_host = [&node] {
      return node.has_workers() ? absl::OkStatus() : absl::UnavailableError("the node has no workers yet");
    };
    options.host = [&node](uint32_t worker, HostedLoop& loop) { return node.host(worker, loop); };
  }
  return std::make_unique<gateway::GatewayStarter>(
      std::move(options),
      [logger](const std::vector<uint16_t>& ports) {
        logger.info("serves clients of Redis or memcached", {{"ports", absl::StrJoin(ports, ",")}});
      },
      [logger](const absl::Status& why) {
        logger.warning("clients of Redis and memcached are not served yet; tried again each second",
                       {{"why", std_view(why.message())}});
      });
}

}  // namespace skua::kv
