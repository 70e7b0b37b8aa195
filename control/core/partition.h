// Which shard a key belongs to. Clients and storage nodes share this file; they must agree for
// ever.
//
//     shard(key) = XXH3-64(key bytes, seed 0) mod shard_count
//
// XXH3's output is frozen since xxHash 0.8.0; tests hold golden vectors. Changing anything here
// makes every stored key unreachable, so a different partitioning would have to be a new, named
// property of a table.
//
// All keys of one shard agree in `hash mod shard_count`. A hash index inside a shard should
// therefore pick its buckets by the hash's high bits, or mix again, not by its low bits.
#ifndef SKUA_CONTROL_CORE_PARTITION_H_
#define SKUA_CONTROL_CORE_PARTITION_H_

#include <cstdint>

#include "rpc/base/bytes.h"

namespace skua::control {

/// XXH3-64 of the key, seed 0. Thread: any. Cost: a few nanoseconds for short keys.
[[nodiscard]] uint64_t key_hash(ByteSpan key);

/// The shard of a key with this hash. `shard_count` must not be 0.
[[nodiscard]] inline uint32_t shard_of_hash(uint64_t hash, uint32_t shard_count) {
  return static_cast<uint32_t>(hash % shard_count);
}

/// The shard of `key` in a table of `shard_count` shards.
[[nodiscard]] inline uint32_t shard_of_key(ByteSpan key, uint32_t shard_count) {
  return shard_of_hash(key_hash(key), shard_count);
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_PARTITION_H_
