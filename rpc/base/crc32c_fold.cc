#include "rpc/base/crc32c_fold.h"

#include <array>

#include "rpc/base/crc32c.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace skua::internal {

#if defined(__x86_64__)
namespace {

/// x^(n-1) mod P, reflected, in the upper half of a word: what to multiply by to fold n bits further on.
constexpr int64_t shift_by(uint32_t n) {
  uint32_t power = 0x80000000U;  // x^0
  for (uint32_t i = 0; i < n - 1; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? 0x82f63b78U : 0U);
  return static_cast<int64_t>(uint64_t{power} << 32);
}

#define SKUA_FOLD_TARGET "avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2"
#define SKUA_FOLDS __attribute__((target(SKUA_FOLD_TARGET), always_inline)) inline

/// Both halves of 128 bits `bits` further on.
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
  static const bool can = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                          __builtin_cpu_supports("vpclmulqdq") != 0;
  return can;
}

namespace {

/// Copies to `to` on the way if kCopies.
template <bool kCopies>
SKUA_FOLDS uint32_t fold_all(uint32_t crc, ByteSpan bytes, [[maybe_unused]] std::byte* to) {
  static constexpr Shift kByStride = shift_of(2048);
  static constexpr Shift kByRegister = shift_of(512);
  // The four quarters of a register, added up where the last one stands.
  static constexpr Shift kBy384 = shift_of(384);
  static constexpr Shift kBy256 = shift_of(256);
  static constexpr Shift kBy128 = shift_of(128);
  const std::byte* p = bytes.data();
  size_t left = bytes.size();

  __m512i all = take<kCopies>(p, 0, to);
  __m512i b = take<kCopies>(p, 64, to);
  __m512i c = take<kCopies>(p, 128, to);
  __m512i d = take<kCopies>(p, 192, to);
  // The state before is added to the first bytes.
  all = _mm512_xor_si512(all, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  const __m512i by_stride = four(kByStride);
  size_t at = 256;
  for (; at + 256 <= left; at += 256) {
    all = fold(all, by_stride, take<kCopies>(p, at, to));
    b = fold(b, by_stride, take<kCopies>(p, at + 64, to));
    c = fold(c, by_stride, take<kCopies>(p, at + 128, to));
    d = fold(d, by_stride, take<kCopies>(p, at + 192, to));
  }
  const __m512i by = four(kByRegister);
  all = fold(fold(fold(all, by, b), by, c), by, d);
  for (; at + 64 <= left; at += 64) all = fold(all, by, take<kCopies>(p, at, to));

  const __m512i by_place =
      _mm512_set_epi64(0, 0, kBy128.high, kBy128.low, kBy256.high, kBy256.low, kBy384.high, kBy384.low);
  const __m512i last = _mm512_maskz_mov_epi64(0xc0, all);
  alignas(64) std::array<uint64_t, 8> sum;
  _mm512_store_si512(sum.data(), fold(all, by_place, last));
  uint64_t state = _mm_crc32_u64(0, sum[0] ^ sum[2] ^ sum[4] ^ sum[6]);
  state = _mm_crc32_u64(state, sum[1] ^ sum[3] ^ sum[5] ^ sum[7]);
  // Fewer than 64 bytes are left.
  const ByteSpan rest(p + at, left - at);
  if constexpr (kCopies) copy_bytes(to + at, rest);
  return crc32c_extend(~static_cast<uint32_t>(state), rest);
}

}  // namespace

__attribute__((target(SKUA_FOLD_TARGET))) uint32_t crc32c_extend_folding(uint32_t crc, ByteSpan bytes) {
  return fold_all<false>(crc, bytes, nullptr);
}
__attribute__((target(SKUA_FOLD_TARGET))) uint32_t crc32c_copy_folding(uint32_t crc, ByteSpan from, std::byte* to) {
  return fold_all<true>(crc, from, to);
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
