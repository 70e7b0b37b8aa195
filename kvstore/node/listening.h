// The addresses of a node: what it listens on, and what others are told. Mistakes in them are found before the node has
// made or said anything.
#ifndef SKUA_KVSTORE_NODE_LISTENING_H_
#define SKUA_KVSTORE_NODE_LISTENING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// Hosts are IP addresses or names, IPv6 addresses without brackets.
struct Listening {
  std::string grpc_host{};
  uint16_t grpc_port = 0;  ///< 0: a free one
  /// An IP address. Empty: sessions do not run over TCP.
  std::string data_host{};
  uint16_t data_port = 0;  ///< worker 0's; worker i has the i-th after it. 0: free ones
  uint32_t workers = 1;
  /// Empty: others are told the hosts above.
  std::string advertise_host{};
};

/// INVALID_ARGUMENT names the options that do not go together, and what to write. Pure.
[[nodiscard]] absl::Status check_listening(const Listening& wanted);

/// The IP address that `wanted.advertise_host` stands for, of a kind that `wanted.data_host` listens on; of the
/// loopback only if there is no other. Empty if no such host was given. INVALID_ARGUMENT: it does not resolve, or to no
/// such address. DEADLINE_EXCEEDED: no name server answers just now. Blocks.
[[nodiscard]] absl::StatusOr<std::string> resolve_advertise_host(const Listening& wanted);

/// Why other machines cannot reach a node that listens like this and has `advertise_ip`; empty: nothing is known. Pure.
[[nodiscard]] std::string loopback_warning(const Listening& wanted, const std::string& advertise_ip);

/// Binds all ports, for a moment: what is wrong with them shows, with its reason. ALREADY_EXISTS: in use;
/// PERMISSION_DENIED; INVALID_ARGUMENT: not an address of this machine; UNAVAILABLE.
[[nodiscard]] absl::Status probe_listening(const Listening& wanted);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_LISTENING_H_
