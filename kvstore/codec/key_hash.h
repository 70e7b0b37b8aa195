// Maps a key to its shard of a hash-partitioned table. All clients must agree for ever: the function is part of the
// on-disk and wire format, and golden tests pin its values.
//
// In a table with hash tags the part of a key that stands in braces decides alone:
//
//   cart:{user17}:items       {user17}.total       both are in the shard of "user17"
//
// So writes of keys with one tag can be one batch, which is atomic in one shard. The rule is that of Redis Cluster.
//
// A node finds keys in its memory with a second, seeded hash, which clients must not know (KeyHasher).
#ifndef SKUA_KVSTORE_CODEC_KEY_HASH_H_
#define SKUA_KVSTORE_CODEC_KEY_HASH_H_

#include <cstdint>
#include <string_view>

namespace skua::kv {

/// XXH3 in 64 bits, without a seed (its values are fixed since xxHash 0.8.0). Here it needs no protection against
/// hostile keys: a client that chooses colliding keys only loads its own shard.
[[nodiscard]] uint64_t key_hash(std::string_view key);

/// A key with its hash, for those who look it up in several tables. `text` refers to the caller's bytes.
struct HashedKey {
  std::string_view text;
  uint64_t hash;
};

/// Hashes keys for the tables in a node's memory: XXH3 in 64 bits with a seed. Without the seed nobody can choose many
/// keys with the same hash, which would make lookups linear. A value.
class KeyHasher {
 public:
  /// 0: the hash is key_hash(), which everybody knows; for simulations and tests, which must repeat.
  explicit KeyHasher(uint64_t seed = 0) : seed_(seed) {}
  [[nodiscard]] uint64_t hash(std::string_view key) const;
  [[nodiscard]] HashedKey operator()(std::string_view key) const { return {key, hash(key)}; }

 private:
  uint64_t seed_;
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
