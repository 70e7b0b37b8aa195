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

SKUA_FOLDS __m512i load(const std::byte* from) {
  return _mm512_loadu_si512(from);
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

__attribute__((target(SKUA_FOLD_TARGET))) uint32_t crc32c_extend_folding(uint32_t crc, ByteSpan bytes) {
  static constexpr Shift kByStride = shift_of(2048);
  static constexpr Shift kByRegister = shift_of(512);
  // The four quarters of a register, added up where the last one stands.
  static constexpr Shift kBy384 = shift_of(384);
  static constexpr Shift kBy256 = shift_of(256);
  static constexpr Shift kBy128 = shift_of(128);
  const std::byte* p = bytes.data();
  size_t left = bytes.size();

  // The state before is added to the first bytes.
  __m512i all = _mm512_xor_si512(load(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  __m512i b = load(p + 64);
  __m512i c = load(p + 128);
  __m512i d = load(p + 192);
  const __m512i by_stride = four(kByStride);
  for (p += 256, left -= 256; left >= 256; p += 256, left -= 256) {
    all = fold(all, by_stride, load(p));
    b = fold(b, by_stride, load(p + 64));
    c = fold(c, by_stride, load(p + 128));
    d = fold(d, by_stride, load(p + 192));
  }
  const __m512i by = four(kByRegister);
  all = fold(fold(fold(all, by, b), by, c), by, d);
  for (; left >= 64; p += 64, left -= 64) all = fold(all, by, load(p));

  const __m512i by_place =
      _mm512_set_epi64(0, 0, kBy128.high, kBy128.low, kBy256.high, kBy256.low, kBy384.high, kBy384.low);
  const __m512i last = _mm512_maskz_mov_epi64(0xc0, all);
  alignas(64) std::array<uint64_t, 8> sum;
  _mm512_store_si512(sum.data(), fold(all, by_place, last));
  uint64_t state = _mm_crc32_u64(0, sum[0] ^ sum[2] ^ sum[4] ^ sum[6]);
  state = _mm_crc32_u64(state, sum[1] ^ sum[3] ^ sum[5] ^ sum[7]);
  // Fewer than 64 bytes are left.
  return crc32c_extend(~static_cast<uint32_t>(state), {p, left});
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

#endif

}  // namespace skua::internal
