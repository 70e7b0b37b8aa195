// DPDK for clients: carries the client library's packets over network devices that this process drives.
//
//   rpc::DpdkSettings settings = dpdk_client_settings();
//   settings.devices = "0000:3b:00.1";
//   settings.addresses = "10.1.0.99/16";
//   auto maker = dpdk_transports(settings, 4);               // in main, once in a process
//   auto client = AsyncClient::create({.control_address = "10.0.0.1:7400", .make_transport = *maker});
//
// The devices are opened once, and all clients share them. Each client has a lane: a UDP port and, where the device has
// enough queues, queues of its own. Where clients share a queue, each of them that polls reads it for all of them. The
// devices are closed when the last client and the maker have been destroyed.
#ifndef SKUA_KVSTORE_CLIENT_DPDK_H_
#define SKUA_KVSTORE_CLIENT_DPDK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kvstore/client/types.h"
#include "rpc/transport/dpdk/dpdk_settings.h"

namespace skua::kv {

/// Settings for clients: the defaults with UDP port 0. Port 0 means that dpdk_transports() draws a port at random, so
/// that several programs can use one address.
[[nodiscard]] rpc::DpdkSettings dpdk_client_settings();

/// Starts DPDK and returns a maker for up to `clients_max` clients at a time (1..256). A further client is refused with
/// RESOURCE_EXHAUSTED when it is made. Errors: INVALID_ARGUMENT (names the setting), FAILED_PRECONDITION (what the host
/// lacks, or DPDK was started in this process before), UNAVAILABLE (a device does not start), UNIMPLEMENTED (built
/// without DPDK).
[[nodiscard]] absl::StatusOr<TransportMaker> dpdk_transports(const rpc::DpdkSettings& settings, uint16_t clients_max);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_DPDK_H_
