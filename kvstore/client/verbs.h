// RDMA verbs for clients: carries the client library's packets through an RDMA adapter.
//
//   rpc::VerbsSettings settings;
//   settings.device = "mlx5_0";                              // or empty: the first active port
//   auto maker = verbs_transports(settings);                 // in main, once for all clients
//   auto client = AsyncClient::create({.control_address = "10.0.0.1:7400", .make_transport = *maker});
//
// The device is opened once, and all clients share it. Each client has a queue pair and packet buffers of its own.
// Memory is registered once for all clients. The device is closed when the last client and the maker have been
// destroyed.
#ifndef SKUA_KVSTORE_CLIENT_VERBS_H_
#define SKUA_KVSTORE_CLIENT_VERBS_H_

#include "absl/status/statusor.h"
#include "kvstore/client/types.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::kv {

/// Opens the device and returns a maker for any number of clients. Errors: INVALID_ARGUMENT (names the setting),
/// FAILED_PRECONDITION (what was looked for and what is there), UNIMPLEMENTED (built without libibverbs). If memory
/// cannot be locked, making a client fails with RESOURCE_EXHAUSTED.
[[nodiscard]] absl::StatusOr<TransportMaker> verbs_transports(const rpc::VerbsSettings& settings);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_VERBS_H_
