// DPDK for clients: packets of the client library by a network device that this process drives.
//
//   rpc::DpdkSettings settings = dpdk_client_settings();
//   settings.devices = "0000:3b:00.1";
//   settings.addresses = "10.1.0.99/16";
//   auto maker = dpdk_transports(settings, 4);               // in main, once in a process
//   auto client = AsyncClient::create({.control_address = "10.0.0.1:7400", .make_transport = *maker});
//
// The devices are opened once and shared: each client has a lane, which is a UDP port and, where the device has enough of them,
// queues of its own; a queue that is shared is read by whoever polls, for all. Device and lanes go when the last client and the maker
// are gone.
#ifndef SKUA_KVSTORE_CLIENT_DPDK_H_
#define SKUA_KVSTORE_CLIENT_DPDK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kvstore/client/types.h"
#include "rpc/transport/dpdk/dpdk_settings.h"

namespace skua::kv {

/// Settings as clients want them: with UDP port 0, which draws one at random, so that several programs can share an address.
[[nodiscard]] rpc::DpdkSettings dpdk_client_settings();

/// Starts DPDK. A maker for up to `clients_max` clients at a time (1..256); one more is refused with RESOURCE_EXHAUSTED. Errors:
/// INVALID_ARGUMENT (which setting), FAILED_PRECONDITION (what the host lacks, or DPDK was started before), UNAVAILABLE (a device
/// does not start), UNIMPLEMENTED (built without DPDK).
[[nodiscard]] absl::StatusOr<TransportMaker> dpdk_transports(const rpc::DpdkSettings& settings, uint16_t clients_max);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_DPDK_H_
