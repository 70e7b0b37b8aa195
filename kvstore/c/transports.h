// Transports of clients: from what the options say to what a client's packets travel by.
//
// DPDK can be started once in a process. So the first client that asks for it starts it, and later clients share its
// devices; they must have the same settings. The devices stay open until the process ends, because they could not be
// opened again. RDMA devices are opened for each client.
#ifndef SKUA_KVSTORE_C_TRANSPORTS_H_
#define SKUA_KVSTORE_C_TRANSPORTS_H_

#include "absl/status/statusor.h"
#include "kvstore/c/transport_plugin.h"
#include "kvstore/client/types.h"

namespace skua::c {

/// A maker for one client; empty: TCP. Errors: those of load_plugin() and TransportPlugin::start(). INVALID_ARGUMENT:
/// DPDK runs with other settings. FAILED_PRECONDITION: DPDK did not start before (says why), or was started before
/// fork(). Thread: any.
[[nodiscard]] absl::StatusOr<kv::TransportMaker> transport_maker(const TransportSettings& settings);

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_TRANSPORTS_H_
