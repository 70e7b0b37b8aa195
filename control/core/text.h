// Texts of peers that are kept and shown.
#ifndef SKUA_CONTROL_CORE_TEXT_H_
#define SKUA_CONTROL_CORE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace skua::control {

/// At most `max` bytes of a text, and no part of a character: nobody can read a message with half a character in it.
[[nodiscard]] inline std::string cut_text(std::string_view text, size_t max) {
  if (text.size() <= max) return std::string(text);
  // The bytes that continue a UTF-8 character begin with the bits 10.
  while (max > 0 && (static_cast<unsigned char>(text[max]) & 0xc0) == 0x80) --max;
  return std::string(text.substr(0, max));
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_TEXT_H_
