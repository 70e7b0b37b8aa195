// Decides whether a key with a time to live has expired.
#ifndef SKUA_KVSTORE_TYPES_EXPIRY_H_
#define SKUA_KVSTORE_TYPES_EXPIRY_H_

#include <cstdint>

namespace skua::kv {

/// True if a key with this expiry time is absent at `now_ms`. Times are unix times in milliseconds; `expires_at` 0
/// means never.
[[nodiscard]] constexpr bool is_expired(uint64_t expires_at, uint64_t now_ms) {
  return expires_at != 0 && expires_at <= now_ms;
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_EXPIRY_H_
