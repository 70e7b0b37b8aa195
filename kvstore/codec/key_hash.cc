#include "kvstore/codec/key_hash.h"

#include <xxhash.h>

namespace skua::kv {

uint64_t key_hash(std::string_view key) {
  return XXH3_64bits(key.data(), key.size());
}

uint64_t KeyHasher::hash(std::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed_);
}

std::string_view hash_tag_of(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

}  // namespace skua::kv
