// What a killed process leaves behind: the socket file of its memif server.
#ifndef SKUA_RPC_TRANSPORT_DPDK_MEMIF_SOCKET_H_
#define SKUA_RPC_TRANSPORT_DPDK_MEMIF_SOCKET_H_

#include <string>

namespace skua::rpc::dpdk {

/// The file that `device` ("net_memif0,role=server,socket=/run/skua.sock,socket-abstract=no") will listen on; empty if it is no
/// memif server with a socket in the file system.
[[nodiscard]] std::string memif_server_socket(const std::string& device);

/// Removes `path` if it is a socket that nobody listens on any more: memif does not start over one. Leaves everything else.
void remove_if_abandoned(const std::string& path);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_MEMIF_SOCKET_H_
