// Maps a key to its shard of a hash-partitioned table. All clients must agree for ever: the function is part of the
// on-disk and wire format, and golden tests pin its values.
//
// In a table with hash tags the part of a key that stands in braces decides alone:
//
//   cart:{user17}:items       {user17}.total       both are in the shard of "user17"
//
// So writes of keys with one tag can be one batch, which is atomic in one shard. The rule is that of Redis Cluster.
#ifndef SKUA_KVSTORE_CODEC_KEY_HASH_H_
#define SKUA_KVSTORE_CODEC_KEY_HASH_H_

#include <cstdint>
#include <string_view>

namespace skua::kv {

/// XXH3 in 64 bits, without a seed (its values are fixed since xxHash 0.8.0). It needs no protection against hostile
/// keys: a client that chooses colliding keys only loads its own shard.
[[nodiscard]] uint64_t key_hash(std::string_view key);

/// A key with its key_hash(), for those who look it up in several places. `text` refers to the caller's bytes.
struct HashedKey {
  HashedKey(std::string_view key) : HashedKey(key, key_hash(key)) {}  // NOLINT(google-explicit-constructor)
  HashedKey(std::string_view key, uint64_t hash_of_key) : text(key), hash(hash_of_key) {}

  std::string_view text;
  uint64_t hash;
};

/// The shard, in [0, shard_count), of the key with this hash. A multiply-shift over the upper bits of the hash leaves
/// the lower bits free for hash tables. `shard_count` must not be 0.
[[nodiscard]] inline uint32_t shard_of_hash(uint64_t hash, uint32_t shard_count) {
  return static_cast<uint32_t>(((hash >> 32) * shard_count) >> 32);
}

/// What stands between the first '{' and the first '}' behind it; the whole key if there are no such braces, or nothing
/// between them.
[[nodiscard]] std::string_view hash_tag_of(std::string_view key);

/// How the keys of one table find their shards. Fixed for the table's life.
struct KeyPlacement {
  uint32_t shard_count = 0;
  bool hash_tags = false;

  /// `shard_count` must not be 0.
  [[nodiscard]] uint32_t shard_of(std::string_view key) const {
    return shard_of_hash(key_hash(hash_tags ? hash_tag_of(key) : key), shard_count);
  }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_KEY_HASH_H_
