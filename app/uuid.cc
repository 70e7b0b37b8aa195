#include "app/uuid.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::app {

namespace {

constexpr size_t kTextLength = 36;

bool is_dash_place(size_t i) {
  return i == 8 || i == 13 || i == 18 || i == 23;
}

}  // namespace

std::string random_uuid() {
  std::array<uint8_t, 16> bytes{};
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    SKUA_CHECK(got > 0 || errno == EINTR, "getrandom(2) failed: kernel older than 3.17?");
    if (got > 0) filled += static_cast<size_t>(got);
  }
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);  // version 4
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);  // the RFC's variant
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(kTextLength);
  for (const uint8_t byte : bytes) {
    if (is_dash_place(text.size())) text += '-';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0x0f];
  }
  return text;
}

absl::StatusOr<std::string> parse_uuid(std::string_view text) {
  std::string_view inner = text;
  if (inner.size() == kTextLength + 2 && inner.front() == '{' && inner.back() == '}') {
    inner = inner.substr(1, kTextLength);
  }
  bool good = inner.size() == kTextLength;
  for (size_t i = 0; good && i < kTextLength; ++i) {
    good = is_dash_place(i) ? inner[i] == '-' : absl::ascii_isxdigit(static_cast<unsigned char>(inner[i])) != 0;
  }
  if (good) return absl::AsciiStrToLower(absl::string_view(inner.data(), inner.size()));
  return absl::InvalidArgumentError(absl::StrCat("not a UUID (8-4-4-4-12 hexadecimal digits): ", std::string(text)));
}

}  // namespace skua::app
