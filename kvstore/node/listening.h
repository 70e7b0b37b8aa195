// Checks of a node's addresses: those that the node listens on, and the host that it tells others (the advertised
// host). The checks run before the node creates anything or registers.
#ifndef SKUA_KVSTORE_NODE_LISTENING_H_
#define SKUA_KVSTORE_NODE_LISTENING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// Hosts are IP addresses or names. IPv6 addresses have no brackets.
struct Listening {
  std::string grpc_host{};
  uint16_t grpc_port = 0;  ///< 0: any free port
  /// An IP address. Empty: sessions do not run over TCP.
  std::string data_host{};
  uint16_t data_port = 0;  ///< of worker 0; worker i listens on data_port + i. 0: any free ports
  uint32_t workers = 1;
  /// The host that others are told. Empty: they are told the hosts above.
  std::string advertise_host{};
};

/// INVALID_ARGUMENT: options contradict each other. The message names them and says what to write. Pure.
[[nodiscard]] absl::Status check_listening(const Listening& wanted);

/// The IP address of `wanted.advertise_host`, in an address family that `wanted.data_host` listens on (any family if
/// `data_host` is empty). A loopback address is returned only if there is no other. Empty if `advertise_host` is empty.
/// INVALID_ARGUMENT: the name does not resolve, or has no address of that family. UNAVAILABLE: no name server answers
/// at the moment. Blocks.
[[nodiscard]] absl::StatusOr<std::string> resolve_advertise_host(const Listening& wanted);

/// Says why other machines cannot reach a node with these addresses. Empty: no reason is known. Pure.
[[nodiscard]] std::string loopback_warning(const Listening& wanted, const std::string& advertise_ip);

/// Binds all ports and releases them again, to find errors early. ALREADY_EXISTS: a port is in use. PERMISSION_DENIED:
/// this process may not use a port. INVALID_ARGUMENT: not an address of this machine. UNAVAILABLE: any other error,
/// also that no name server answers at the moment. Blocks.
[[nodiscard]] absl::Status probe_listening(const Listening& wanted);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_LISTENING_H_
