// Another node, as the shard map has it.
#ifndef SKUA_KVSTORE_TYPES_PEER_INFO_H_
#define SKUA_KVSTORE_TYPES_PEER_INFO_H_

#include <cstdint>
#include <string>

namespace skua::kv {

struct PeerInfo {
  std::string uuid;
  std::string grpc_address;
  uint64_t incarnation = 0;          ///< of its process
  uint64_t storage_incarnation = 0;  ///< of its data; 0: not known, any is taken
  uint32_t worker_count = 0;         ///< 0: not known, at most kPeerWorkersMax

  friend bool operator==(const PeerInfo&, const PeerInfo&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_PEER_INFO_H_
