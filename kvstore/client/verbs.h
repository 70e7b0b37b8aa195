// RDMA verbs for clients: packets of the client library through an RDMA adapter.
//
//   rpc::VerbsSettings settings;
//   settings.device = "mlx5_0";                              // or empty: the first active port
//   auto maker = verbs_transports(settings);                 // in main, once for all clients
//   auto client = AsyncClient::create({.control_address = "10.0.0.1:7400", .make_transport = *maker});
//
// The device is opened once and shared: each client has a queue pair and packet buffers of its own, and memory is registered for all
// of them together. The device is closed when the last client and the maker are gone.
#ifndef SKUA_KVSTORE_CLIENT_VERBS_H_
#define SKUA_KVSTORE_CLIENT_VERBS_H_

#include "absl/status/statusor.h"
#include "kvstore/client/types.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::kv {

/// Opens the device. Errors: INVALID_ARGUMENT (which setting), FAILED_PRECONDITION (what was looked for and what is there),
/// UNIMPLEMENTED (built without libibverbs). That memory cannot be locked shows when a client is made: RESOURCE_EXHAUSTED.
[[nodiscard]] absl::StatusOr<TransportMaker> verbs_transports(const rpc::VerbsSettings& settings);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_VERBS_H_
