// Peer: what a DPDK transport knows of a remote endpoint: the local port that leads there, and the headers of frames to
// it.
#ifndef SKUA_RPC_TRANSPORT_DPDK_PEERS_H_
#define SKUA_RPC_TRANSPORT_DPDK_PEERS_H_

#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/transport/descriptor.h"
#include "rpc/transport/dpdk/frame.h"
#include "rpc/transport/peer_table.h"

namespace skua::rpc::dpdk {

/// Exactly two cache lines, aligned, because every sent packet reads them.
struct alignas(64) Peer {
  FrameSource source;
  /// Index of the local port that leads there.
  uint16_t port = 0;
  FrameTemplate frame;
  /// Bytes of a frame that the engine may write for this peer: engine header and payload.
  uint32_t room = 0;
  TimeNs last_used_ns = 0;
};

static_assert(sizeof(Peer) == 128);

using Peers = PeerTable<FrameSource, Peer>;

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_PEERS_H_
