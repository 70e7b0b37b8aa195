// Numbers as memcached reads them: blanks and a sign may stand in front, and white space ends the number. Pure.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_NUMBERS_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace skua::kv::gateway {

/// Nothing: no number, or beyond the type's bounds.
[[nodiscard]] std::optional<uint64_t> parse_memcached_u64(std::string_view text);
[[nodiscard]] std::optional<uint32_t> parse_memcached_u32(std::string_view text);
[[nodiscard]] std::optional<int64_t> parse_memcached_i64(std::string_view text);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_NUMBERS_H_
