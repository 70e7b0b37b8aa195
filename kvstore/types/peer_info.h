// Another node, as the shard map describes it.
#ifndef SKUA_KVSTORE_TYPES_PEER_INFO_H_
#define SKUA_KVSTORE_TYPES_PEER_INFO_H_

#include <cstdint>
#include <string>

namespace skua::kv {

struct PeerInfo {
  std::string uuid;
  std::string grpc_address;
  uint64_t incarnation = 0;          ///< incarnation of the node's process
  uint64_t storage_incarnation = 0;  ///< incarnation of the node's data; 0: not known, any is accepted
  uint32_t worker_count = 0;         ///< 0: not known; then assume kPeerWorkersMax, the most that a node has
  bool vouches = true;               ///< it is of a release that answers VOUCH (peers/peer_proofs.h)
  bool takes_marks = true;           ///< it is of a release that takes entries with marks (record_mark.h)

  friend bool operator==(const PeerInfo&, const PeerInfo&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_PEER_INFO_H_
