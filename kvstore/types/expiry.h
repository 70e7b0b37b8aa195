// When a key with a time to live is absent.
#ifndef SKUA_KVSTORE_TYPES_EXPIRY_H_
#define SKUA_KVSTORE_TYPES_EXPIRY_H_

#include <cstdint>

namespace skua::kv {

/// True if a key with this expiry is absent. Times are unix times in milliseconds.
[[nodiscard]] constexpr bool is_expired(uint64_t expires_at, uint64_t now_ms) {
  return expires_at != 0 && expires_at <= now_ms;
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_EXPIRY_H_
