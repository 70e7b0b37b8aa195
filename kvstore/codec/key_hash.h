// Maps a key to its shard of a hash-partitioned table. Clients and servers must agree for ever: the function is part of
// the on-disk and wire format, and golden tests pin its values.
#ifndef SKUA_KVSTORE_CODEC_KEY_HASH_H_
#define SKUA_KVSTORE_CODEC_KEY_HASH_H_

#include <cstdint>
#include <string_view>

namespace skua::kv {

/// XXH3 in 64 bits, without a seed (its values are fixed since xxHash 0.8.0). It needs no protection against hostile
/// keys: a client that chooses colliding keys only loads its own shard.
[[nodiscard]] uint64_t key_hash(std::string_view key);

/// The shard, in [0, shard_count), of the key with this hash. A multiply-shift over the upper bits of the hash leaves
/// the lower bits free for hash tables. `shard_count` must not be 0.
[[nodiscard]] inline uint32_t shard_of_hash(uint64_t hash, uint32_t shard_count) {
  return static_cast<uint32_t>(((hash >> 32) * shard_count) >> 32);
}

[[nodiscard]] inline uint32_t shard_of_key(std::string_view key, uint32_t shard_count) {
  return shard_of_hash(key_hash(key), shard_count);
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_KEY_HASH_H_
