// Numbers as Redis reads and writes them.
#ifndef SKUA_KVSTORE_GATEWAY_REDIS_NUMBERS_H_
#define SKUA_KVSTORE_GATEWAY_REDIS_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace skua::kv::gateway {

/// Only the form that a number is printed in: no plus sign, no leading zeros, no blanks, no "-0".
[[nodiscard]] std::optional<int64_t> parse_integer(std::string_view text);

/// What strtold() takes as a whole, without blanks in front. Not a NaN; infinities are taken.
[[nodiscard]] std::optional<long double> parse_float(std::string_view text);

/// At most 17 digits after the point, without zeros at the end: the form of INCRBYFLOAT. `value` is finite.
[[nodiscard]] std::string format_float(long double value);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_REDIS_NUMBERS_H_
