// What a DPDK transport knows of a remote endpoint: which of our ports leads there, and the frame around packets to it.
#ifndef SKUA_RPC_TRANSPORT_DPDK_PEERS_H_
#define SKUA_RPC_TRANSPORT_DPDK_PEERS_H_

#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/transport/descriptor.h"
#include "rpc/transport/dpdk/frame.h"
#include "rpc/transport/peer_table.h"

namespace skua::rpc::dpdk {

/// Two cache lines, and not a part of a third: every packet that is sent reads them.
struct alignas(64) Peer {
  FrameSource source;
  /// Which of our ports leads there.
  uint16_t port = 0;
  FrameTemplate frame;
  /// Largest UDP payload that is believed to get there.
  uint32_t room = 0;
  TimeNs last_used_ns = 0;
};

static_assert(sizeof(Peer) == 128);

using Peers = PeerTable<FrameSource, Peer>;

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_PEERS_H_
