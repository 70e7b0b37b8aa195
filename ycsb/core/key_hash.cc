#include "ycsb/core/key_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "rpc/base/bytes.h"

namespace skua::ycsb {
namespace {

constexpr uint64_t kOffsetBasis = 0xCBF29CE484222325;
constexpr uint64_t kPrime = 1099511628211;

constexpr uint64_t kPrimeToTheFourth = kPrime * kPrime * kPrime * kPrime;

uint64_t fnv1a_four(uint64_t hash, uint64_t octets_low_first) {
  for (int i = 0; i < 4; ++i) hash = (hash ^ (octets_low_first >> 8 * i & 0xff)) * kPrime;
  return hash;
}

uint64_t fnv1a(uint64_t octets_low_first) {
  const uint64_t hash = fnv1a_four(kOffsetBasis, octets_low_first);
  const uint64_t rest = octets_low_first >> 32;
  // Octets of zero only multiply; numbers of records rarely have more than four others.
  return rest == 0 ? hash * kPrimeToTheFourth : fnv1a_four(hash, rest);
}

/// |x| of the two's complement number; the one value without a positive twin becomes 2^63.
uint64_t absolute(uint64_t bits) {
  return (bits >> 63) != 0 ? ~bits + 1 : bits;
}

/// The decimal digits of numbers below 10^4, one in each 32-bit half, the first digit in the lowest octet: cut in
/// halves twice, all pieces at once. The multiplications divide by 100 and by 10, exactly for numbers as small as
/// these.
inline uint64_t four_digits(uint64_t fours) {
  const uint64_t hundreds = (fours * 10'486) >> 20 & 0x7f'0000'007f;
  const uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const uint64_t tens = (twos * 103) >> 10 & 0x000f'000f'000f'000f;
  const uint64_t ones = tens | (twos - tens * 10) << 8;
  return ones + 0x3030'3030'3030'3030;
}

/// Those of n < 10^8.
inline uint64_t eight_digits(uint64_t n) {
  return four_digits(n / 10'000 | n % 10'000 << 32);
}

/// Of any number.
constexpr size_t kDigitsMax = 20;

/// kDigitsMax digits of n, zeros first.
inline void write_all_digits(std::byte* to, uint64_t n) {
  constexpr uint64_t kGroup = 100'000'000;
  const uint64_t upper = n / kGroup;
  store_le(to, static_cast<uint32_t>(four_digits(upper / kGroup)));
  store_le(to + 4, eight_digits(upper % kGroup));
  store_le(to + 12, eight_digits(n % kGroup));
}

constexpr std::array<uint64_t, kDigitsMax> kPowersOfTen = [] {
  std::array<uint64_t, kDigitsMax> powers{1};
  for (size_t i = 1; i < powers.size(); ++i) powers.at(i) = powers.at(i - 1) * 10;
  return powers;
}();

size_t digit_count(uint64_t n) {
  // 1233 / 4096 is log10(2); what it gives is right or one too small.
  const auto least = static_cast<size_t>(std::bit_width(n | 1)) * 1233 >> 12;
  return least + (n >= kPowersOfTen[least] || least == 0 ? 1 : 0);
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
  const size_t count = digit_count(number);
  const size_t zeros = count < digits_min ? digits_min - count : 0;
  const size_t size = prefix.size() + zeros + count;
  if (out.size() != size) out.resize(size);
  auto* const end = reinterpret_cast<std::byte*>(out.data() + size);
  // All twenty at once if there is room: what is in front of the number is written afterwards.
  if (size >= kDigitsMax) [[likely]] {
    write_all_digits(end - kDigitsMax, number);
  } else {
    std::array<std::byte, kDigitsMax> digits;
    write_all_digits(digits.data(), number);
    std::memcpy(end - count, digits.data() + digits.size() - count, count);
  }
  if (zeros != 0) std::fill_n(out.data() + prefix.size(), zeros, '0');
  std::copy(prefix.begin(), prefix.end(), out.data());
}

}  // namespace skua::ycsb
