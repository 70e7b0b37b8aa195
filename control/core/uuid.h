// UUIDs as text: 36 characters, lower case, the only form that is stored, sent or compared.
#ifndef SKUA_CONTROL_CORE_UUID_H_
#define SKUA_CONTROL_CORE_UUID_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace skua::control {

/// A version 4 (random) UUID made of 128 bits, which the caller must take from a good source of randomness.
[[nodiscard]] std::string uuid_from_random(uint64_t high, uint64_t low);

/// True for 8-4-4-4-12 lower-case hexadecimal digits, of any UUID version.
[[nodiscard]] bool is_uuid(std::string_view text);

/// The first eight digits: enough for people to tell nodes apart.
[[nodiscard]] inline std::string short_uuid(std::string_view uuid) {
  return std::string(uuid.substr(0, 8));
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_UUID_H_
