#include "kvstore/node/skuad_network.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "app/process.h"
#include "kvstore/node/listening.h"
#include "kvstore/node/skuad_exit.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::kv {
namespace {

/// Connections that a worker accepts. All workers together may take half of the files that may be open. Logs, databases
/// and gRPC need the others.
uint32_t callers_of_worker(uint32_t workers) {
  constexpr uint64_t kFew = 64;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(app::open_files_max() / 2 / workers, kFew, rpc::TcpOptions().callers_max));
}

absl::StatusOr<rpc::DpdkOptions> dpdk_options(const SkuadOptions& config) {
  return config.dpdk.to_options(static_cast<uint16_t>(config.workers));
}

}  // namespace

absl::Status check_network(const SkuadOptions& config) {
  if (config.transport == TransportKind::kDpdk) return dpdk_options(config).status();
  if (config.transport == TransportKind::kVerbs) return config.verbs.to_options().status();
  return absl::OkStatus();
}

Network open_network(const SkuadOptions& config, const app::Logger& logger) {
  const Listening listening = listening_of(config);
  Network network;
  network.advertise_ip = value_or_fail(resolve_advertise_host(listening));
  const std::string warning = loopback_warning(listening, network.advertise_ip);
  if (!warning.empty()) logger.warning(warning);
  ok_or_fail(probe_listening(listening));
  // An error ends the process; one that may pass, such as a device that does not start yet or a port that is not active
  // yet, so that it is started again.
  if (config.transport == TransportKind::kDpdk) {
    network.dpdk = value_or_fail(rpc::DpdkFabric::start(value_or_fail(dpdk_options(config))));
    for (const std::string& port : network.dpdk->describe()) logger.info(port);
  }
  if (config.transport == TransportKind::kVerbs) {
    network.verbs = value_or_fail(rpc::VerbsFabric::start(value_or_fail(config.verbs.to_options())));
    logger.info(network.verbs->describe());
  }
  return network;
}

TransportFactory transport_factory(const SkuadOptions& config, const Network& network, const app::Logger& logger) {
  if (auto* const dpdk = network.dpdk.get(); dpdk != nullptr) {
    return [dpdk](uint32_t worker, const rpc::EndpointIdentity& self) {
      return dpdk->make_transport(static_cast<uint16_t>(worker), self);
    };
  }
  if (auto* const verbs = network.verbs.get(); verbs != nullptr) {
    return [verbs](uint32_t /*worker*/, const rpc::EndpointIdentity& self) { return verbs->make_transport(self); };
  }
  return [base = listening_of(config), advertise_ip = network.advertise_ip, logger](
             uint32_t worker, const rpc::EndpointIdentity& self) -> absl::StatusOr<std::unique_ptr<rpc::Transport>> {
    rpc::TcpOptions tcp;
    tcp.listen_ip = base.data_host;
    tcp.listen_port = base.data_port == 0 ? uint16_t{0} : static_cast<uint16_t>(base.data_port + worker);
    tcp.advertise_ip = advertise_ip;
    tcp.self = self;
    tcp.callers_max = callers_of_worker(base.workers);
    tcp.callers_per_host_max = tcp.callers_max / 2;
    tcp.on_sent_away = [logger](const std::string& line) { logger.warning(line); };
    auto transport = rpc::TcpTransport::create(std::move(tcp));
    if (!transport.ok()) return transport.status();
    return *std::move(transport);
  };
}

}  // namespace skua::kv
