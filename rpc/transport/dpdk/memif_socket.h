// Socket files of memif servers: a killed process leaves its file behind.
#ifndef SKUA_RPC_TRANSPORT_DPDK_MEMIF_SOCKET_H_
#define SKUA_RPC_TRANSPORT_DPDK_MEMIF_SOCKET_H_

#include <string>

namespace skua::rpc::dpdk {

/// The socket file that `device` ("net_memif0,role=server,socket=/run/skua.sock,socket-abstract=no") will listen on.
/// Empty: not a memif server, or its socket is not in the file system.
[[nodiscard]] std::string memif_server_socket(const std::string& device);

/// Removes `path` if it is a socket that nobody listens on any more, because memif does not start if the file exists.
/// Leaves all other files alone.
void remove_if_abandoned(const std::string& path);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_MEMIF_SOCKET_H_
