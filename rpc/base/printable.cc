#include "rpc/base/printable.h"

#include <algorithm>
#include <cstdint>

namespace skua {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

/// Size of the well-formed character at the start of `text`, by RFC 3629. 0: there is none.
size_t character_bytes(std::string_view text) {
  const uint8_t first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte_at(text, 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return overlong || no_character ? 0 : bytes;
}

/// U+0000..U+001F, U+007F..U+009F.
bool is_control(std::string_view character) {
  const uint8_t first = byte_at(character, 0);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && byte_at(character, 1) < 0xa0);
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string printable(std::string_view text, size_t bytes_max) {
  constexpr std::string_view kMore = "...";
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(std::min(text.size(), bytes_max));
  while (!text.empty()) {
    const size_t well_formed = character_bytes(text);
    const size_t bytes = std::max<size_t>(well_formed, 1);
    const bool as_it_is = well_formed != 0 && !is_control(text);
    if (out.size() + (as_it_is ? bytes : 4 * bytes) > bytes_max) return out.append(kMore);
    if (as_it_is) {
      out.append(text.substr(0, bytes));
    } else {
      for (size_t i = 0; i < bytes; ++i) {
        out.append("\\x").push_back(kDigits[byte_at(text, i) >> 4]);
        out.push_back(kDigits[byte_at(text, i) & 0xf]);
      }
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace skua
