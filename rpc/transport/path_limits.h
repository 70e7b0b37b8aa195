// PathLimits: what a transport that has it knows about the way to one peer, beyond its own Capabilities.
//
// Devices may carry larger packets than a switch between them. A transport that finds that out implements this besides
// Transport, and tells of each path that turns out narrower than was believed by a LinkEvent of kind kRefused whose status is
// OUT_OF_RANGE. Sessions whose packets fit all the same go on; the others are opened anew, with what payload_max_bytes() says
// then. The endpoint asks when sessions are made, never per packet.
#ifndef SKUA_RPC_TRANSPORT_PATH_LIMITS_H_
#define SKUA_RPC_TRANSPORT_PATH_LIMITS_H_

#include <cstdint>

#include "rpc/transport/transport.h"

namespace skua::rpc {

class PathLimits {
 public:
  virtual ~PathLimits() = default;
  /// Largest payload of a packet that is believed to reach `peer`; at most Capabilities::payload_max_bytes.
  [[nodiscard]] virtual uint32_t payload_max_bytes(PeerId peer) const = 0;
};

/// UINT32_MAX where the transport knows of no limit but its capabilities'.
[[nodiscard]] inline uint32_t path_payload_max_bytes(const Transport& transport, PeerId peer) {
  const auto* limits = dynamic_cast<const PathLimits*>(&transport);
  return limits == nullptr ? UINT32_MAX : limits->payload_max_bytes(peer);
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_PATH_LIMITS_H_
