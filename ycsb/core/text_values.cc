#include "ycsb/core/text_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "rpc/base/bytes.h"

namespace skua::ycsb {
namespace {

/// Six printable bytes from the low 32 bits of `r`, in the low 48 bits of the result.
uint64_t six_printable(uint64_t r) {
  const uint64_t picked = (r & 31) | ((r >> 5 & 63) << 8) | ((r >> 10 & 95) << 16) | ((r >> 15 & 31) << 24) |
                          ((r >> 20 & 63) << 32) | ((r >> 25 & 95) << 40);
  return picked + 0x2020'2020'2020;
}

/// Calls emit(piece) with consecutive pieces of the deterministic value until it returns false.
template <typename Emit>
void walk_deterministic(std::string_view key, std::string_view field, Emit&& emit) {
  int32_t hash = 0;
  const auto piece = [&](std::string_view text) {
    hash = java_string_hash(text, hash);
    return emit(text);
  };
  if (!piece(key) || !piece(":") || !piece(field)) return;
  std::array<char, 12> digits;
  for (;;) {
    if (!piece(":")) return;
    const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), hash).ptr;
    if (!piece({digits.data(), static_cast<size_t>(end - digits.data())})) return;
  }
}

}  // namespace

int32_t java_string_hash(std::string_view text, int32_t so_far) {
  auto hash = static_cast<uint32_t>(so_far);
  for (const char c : text) hash = hash * 31 + static_cast<unsigned char>(c);
  return static_cast<int32_t>(hash);
}

void fill_random_text(char* to, size_t length, Rng& rng) {
  for (size_t done = 0; done < length; done += 12) {
    const uint64_t r = rng.next();
    store_le(reinterpret_cast<std::byte*>(to + done), six_printable(r));
    if (done + 6 < length) store_le(reinterpret_cast<std::byte*>(to + done + 6), six_printable(r >> 32));
  }
}

void fill_deterministic_text(char* to, size_t length, std::string_view key, std::string_view field) {
  walk_deterministic(key, field, [&](std::string_view piece) {
    const size_t count = std::min(piece.size(), length);
    if (count != 0) std::memcpy(to, piece.data(), count);
    to += count;
    length -= count;
    return length != 0;
  });
}

bool is_deterministic_text(std::string_view value, size_t length, std::string_view key, std::string_view field) {
  if (value.size() != length) return false;
  bool same = true;
  walk_deterministic(key, field, [&](std::string_view piece) {
    const std::string_view expected = piece.substr(0, value.size());
    same = value.starts_with(expected);
    value.remove_prefix(same ? expected.size() : 0);
    return same && !value.empty();
  });
  return same;
}

}  // namespace skua::ycsb
