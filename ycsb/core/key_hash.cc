#include "ycsb/core/key_hash.h"

#include <array>
#include <charconv>

namespace skua::ycsb {
namespace {

constexpr uint64_t kOffsetBasis = 0xCBF29CE484222325;
constexpr uint64_t kPrime = 1099511628211;

uint64_t fnv1a(uint64_t octets_low_first) {
  uint64_t hash = kOffsetBasis;
  for (int i = 0; i < 8; ++i) {
    hash = (hash ^ (octets_low_first & 0xff)) * kPrime;
    octets_low_first >>= 8;
  }
  return hash;
}

/// |x| of the two's complement number; the one value without a positive twin becomes 2^63.
uint64_t absolute(uint64_t bits) {
  return (bits >> 63) != 0 ? ~bits + 1 : bits;
}

}  // namespace

uint64_t hash_key_number(uint64_t n, KeyHash dialect) {
  switch (dialect) {
    case KeyHash::kCpp: return fnv1a(n);
    case KeyHash::kGo: return absolute(fnv1a(__builtin_bswap64(n)));
    case KeyHash::kJava: break;
  }
  return absolute(fnv1a(n));
}

void write_key(std::string& out, std::string_view prefix, uint64_t number, size_t digits_min) {
  std::array<char, 20> digits;
  const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  const auto count = static_cast<size_t>(end - digits.data());
  out.assign(prefix);
  if (count < digits_min) out.append(digits_min - count, '0');
  out.append(digits.data(), count);
}

}  // namespace skua::ycsb
