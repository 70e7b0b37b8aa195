#include "kvstore/codec/key_hash.h"

#include <xxhash.h>

namespace skua::kv {

uint64_t key_hash(std::string_view key) {
  return XXH3_64bits(key.data(), key.size());
}

}  // namespace skua::kv
