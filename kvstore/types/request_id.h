// What makes a repeated write recognizable.
#ifndef SKUA_KVSTORE_TYPES_REQUEST_ID_H_
#define SKUA_KVSTORE_TYPES_REQUEST_ID_H_

#include <cstdint>

namespace skua::kv {

/// Which mutation of which client this is, the same in each repetition: a shard that has executed it answers the
/// repetition with the first answer.
///
///   seq        1    2    3    4    5    6       one counter for all mutations of a client, over all shards
///              done done  -   done  -    -
///                         ^ first_incomplete   of those in this request's shard, the client has been told all below,
///                                              so nobody asks for them again
struct RequestId {
  uint64_t client_id = 0;         ///< random, of one instance of the client library; 0: at most once is not wanted
  uint64_t seq = 0;               ///< 1 or more
  uint64_t first_incomplete = 0;  ///< at most seq

  friend bool operator==(const RequestId&, const RequestId&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_REQUEST_ID_H_
