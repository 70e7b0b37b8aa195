// The identity of a write, by which a shard recognizes that a write is repeated.
#ifndef SKUA_KVSTORE_TYPES_REQUEST_ID_H_
#define SKUA_KVSTORE_TYPES_REQUEST_ID_H_

#include <cstdint>

namespace skua::kv {

/// Names one mutation of one client. All attempts of the mutation carry the same client_id and seq. A shard that has
/// executed the mutation answers a repetition with the first answer.
///
///   seq        1    2    3    4    5    6       one counter for all mutations of a client, over all shards
///              done done  -   done  -    -
///                         ^ first_incomplete   the client knows the results of all its mutations of this shard below
///                                              it, so it repeats none of them
struct RequestId {
  uint64_t client_id = 0;         ///< random, one per client library instance; 0: repetitions need not be recognized
  uint64_t seq = 0;               ///< 1 or more
  uint64_t first_incomplete = 0;  ///< at most seq

  friend bool operator==(const RequestId&, const RequestId&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_REQUEST_ID_H_
