#include "control/core/uuid.h"

#include "absl/strings/str_format.h"

namespace skua::control {

std::string uuid_from_random(uint64_t high, uint64_t low) {
  high = (high & ~uint64_t{0xf000}) | 0x4000;                // version 4
  low = (low & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);  // RFC 4122 variant
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, (high >> 16) & 0xffff, high & 0xffff, low >> 48,
                         low & 0xffff'ffff'ffff);
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
    } else if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
      return false;
    }
  }
  return true;
}

}  // namespace skua::control
