#include "ycsb/core/text_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "rpc/base/bytes.h"

namespace skua::ycsb {
namespace {

/// Two 64-bit numbers, worked on at once.
using Pair = uint64_t __attribute__((vector_size(16)));

/// Six printable bytes from each number below 2^32, in the low 48 bits of the results.
[[gnu::always_inline]] inline Pair six_printable(Pair r) {
  // Five bits to an octet, in three steps that move the upper half of each piece.
  Pair fives = (r & 0x000f'ffff) | (r & 0xfff0'0000) << 12;
  fives = (fives & 0x0000'03ff'0000'03ff) | (fives & 0x000f'fc00'000f'fc00) << 6;
  fives = (fives & 0x001f'001f'001f'001f) | (fives & 0x03e0'03e0'03e0'03e0) << 3;
  // A sixth bit (mask 63) and a seventh (mask 95) are the first and the second of the next five.
  const Pair picked = (fives & 0x1f1f'1f1f'1f1f) | (fives >> 3 & 0x4020'0040'2000);
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
  Rng own = rng;  // which the bytes written cannot be part of, as far as the compiler knows
  for (size_t done = 0; done < length; done += 12) {
    const uint64_t r = own.next();
    const Pair text = six_printable(Pair{r & 0xffff'ffff, r >> 32});
    store_le(reinterpret_cast<std::byte*>(to + done), text[0]);
    if (done + 6 < length) store_le(reinterpret_cast<std::byte*>(to + done + 6), text[1]);
  }
  rng = own;
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
