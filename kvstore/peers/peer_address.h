// The address of a worker of another node: the id of the node and the index of the worker.
#ifndef SKUA_KVSTORE_PEERS_PEER_ADDRESS_H_
#define SKUA_KVSTORE_PEERS_PEER_ADDRESS_H_

#include <compare>
#include <cstdint>

#include "kvstore/replication/view.h"

namespace skua::kv {

struct PeerAddress {
  NodeId node = 0;
  uint32_t worker = 0;

  friend auto operator<=>(const PeerAddress&, const PeerAddress&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_ADDRESS_H_
