#include "rpc/base/crc32c_fold.h"

#include "rpc/base/crc32c.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace skua::internal {

#if defined(__x86_64__)
namespace {

/// x^(n-1) mod P, reflected, in the upper half of a word: the factor that folds n bits further on.
constexpr int64_t shift_by(uint32_t n) {
  uint32_t power = 0x80000000U;  // x^0
  for (uint32_t i = 0; i < n - 1; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? 0x82f63b78U : 0U);
  return static_cast<int64_t>(uint64_t{power} << 32);
}

#define SKUA_FOLD_TARGET "avx512f,avx512bw,avx512vl,avx512vbmi2,vpclmulqdq,pclmul,sse4.2"
#define SKUA_FOLDS __attribute__((target(SKUA_FOLD_TARGET), always_inline)) inline

/// The factors for the two halves of 128 bits, to fold them `bits` further on.
struct Shift {
  int64_t low;
  int64_t high;
};
constexpr Shift shift_of(uint32_t bits) {
  return {shift_by(bits + 64), shift_by(bits)};
}

template <bool kCopies>
SKUA_FOLDS __m512i take(const std::byte* from, size_t at, [[maybe_unused]] std::byte* to) {
  const __m512i out = _mm512_loadu_si512(from + at);
  if constexpr (kCopies) _mm512_storeu_si512(to + at, out);
  return out;
}
SKUA_FOLDS __m512i four(Shift shift) {
  return _mm512_set_epi64(shift.high, shift.low, shift.high, shift.low, shift.high, shift.low, shift.high, shift.low);
}
SKUA_FOLDS __m512i fold(__m512i what, __m512i by, __m512i into) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(what, by, 0x00), _mm512_clmulepi64_epi128(what, by, 0x11),
                                   into, kXorOfThree);
}

}  // namespace

bool can_fold_crc32c() {
  static const bool can = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0 &&
                          __builtin_cpu_supports("vpclmulqdq") != 0;
  return can;
}

namespace {

template <int kWhich>
SKUA_FOLDS __m128i quarter(__m512i of) {
  return _mm512_maskz_extracti32x4_epi32(0xf, of, kWhich);
}
/// The remainder of 128 bits modulo P.
SKUA_FOLDS uint32_t reduce(__m128i what) {
  const uint64_t low = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(what)));
  return static_cast<uint32_t>(_mm_crc32_u64(low, static_cast<uint64_t>(_mm_extract_epi64(what, 1))));
}

/// The first bytes, with the state before them added.
SKUA_FOLDS __m512i begin(uint32_t crc, __mmask64 there, __m512i first) {
  const __m512i state = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc)));
  return _mm512_xor_si512(first, _mm512_maskz_expand_epi8(there, state));
}

/// The CRC of `d` and then `bytes`, which fill whole registers. Also copies them to `to` if kCopies.
template <bool kCopies>
SKUA_FOLDS uint32_t fold_all(__m512i d, ByteSpan bytes, [[maybe_unused]] std::byte* to) {
  static constexpr Shift kByStride = shift_of(2048);
  // For adding up the four registers, and the four quarters of the sum, at the place of the last one.
  static constexpr Shift kByThree = shift_of(1536);
  static constexpr Shift kByTwo = shift_of(1024);
  static constexpr Shift kByOne = shift_of(512);
  static constexpr Shift kBy384 = shift_of(384);
  static constexpr Shift kBy256 = shift_of(256);
  static constexpr Shift kBy128 = shift_of(128);
  const std::byte* p = bytes.data();
  const __m512i none = _mm512_setzero_si512();
  __m512i a = none;
  __m512i b = none;
  __m512i c = none;
  size_t at = 0;
  // The first group of four may be incomplete: it has one to four registers.
  for (; at < bytes.size() % 256; at += 64) {
    a = b;
    b = c;
    c = d;
    d = take<kCopies>(p, at, to);
  }
  const __m512i by_stride = four(kByStride);
  for (; at < bytes.size(); at += 256) {
    a = fold(a, by_stride, take<kCopies>(p, at, to));
    b = fold(b, by_stride, take<kCopies>(p, at + 64, to));
    c = fold(c, by_stride, take<kCopies>(p, at + 128, to));
    d = fold(d, by_stride, take<kCopies>(p, at + 192, to));
  }
  const __m512i sum = _mm512_xor_si512(fold(a, four(kByThree), fold(b, four(kByTwo), none)), fold(c, four(kByOne), d));
  const __m512i by_place =
      _mm512_set_epi64(0, 0, kBy128.high, kBy128.low, kBy256.high, kBy256.low, kBy384.high, kBy384.low);
  const __m512i placed = fold(sum, by_place, _mm512_maskz_mov_epi64(0xc0, sum));
  return ~reduce(_mm_xor_si128(_mm_xor_si128(quarter<0>(placed), quarter<1>(placed)),
                               _mm_xor_si128(quarter<2>(placed), quarter<3>(placed))));
}

}  // namespace

/// The bytes that do not fill a whole register come first, after zeros.
__attribute__((target(SKUA_FOLD_TARGET))) uint32_t crc32c_extend_folding(uint32_t crc, ByteSpan bytes) {
  size_t odd = bytes.size() % 64;
  if (odd > 0 && odd < sizeof(crc)) [[unlikely]] {  // too few bytes to add the state to
    crc = crc32c_extend(crc, bytes.first(odd));
    bytes = bytes.subspan(odd);
    odd = 0;
  }
  if (odd == 0) odd = 64;
  const size_t zeros = 64 - odd;
  const __mmask64 there = ~uint64_t{0} << zeros;
  const __m512i first = _mm512_maskz_loadu_epi8(there, bytes.data() - zeros);  // masked bytes are not read
  return fold_all<false>(begin(crc, there, first), bytes.subspan(odd), nullptr);
}

/// In order: the bytes that do not fill a whole register come last. If they came first, loads would reach below `from`,
/// and wait for the stores of the piece before if the two are a multiple of a page apart.
__attribute__((target(SKUA_FOLD_TARGET))) uint32_t crc32c_copy_folding(uint32_t crc, ByteSpan from, std::byte* to) {
  const size_t whole = from.size() & ~size_t{63};
  const __m512i first = begin(crc, ~uint64_t{0}, take<true>(from.data(), 0, to));
  crc = fold_all<true>(first, from.first(whole).subspan(64), to + 64);
  copy_bytes(to + whole, from.subspan(whole));
  return crc32c_extend(crc, from.subspan(whole));
}

#undef SKUA_FOLD_TARGET
#undef SKUA_FOLDS

#else

bool can_fold_crc32c() {
  return false;
}
uint32_t crc32c_extend_folding(uint32_t crc, ByteSpan bytes) {
  return crc32c_extend_portable(crc, bytes);
}
uint32_t crc32c_copy_folding(uint32_t crc, ByteSpan from, std::byte* to) {
  copy_bytes(to, from);
  return crc32c_extend_portable(crc, from);
}

#endif

}  // namespace skua::internal
