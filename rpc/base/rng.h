// Seeded pseudo-random numbers. The sequence is the same on every machine, which std::*_distribution does not promise.
//
// xoshiro256** by Blackman and Vigna (https://prng.di.unimi.it), seeded through splitmix64. `fork` derives an
// independent stream, so that one more draw in one component does not shift the numbers of another.
#ifndef SKUA_RPC_BASE_RNG_H_
#define SKUA_RPC_BASE_RNG_H_

#include <array>
#include <bit>
#include <cstdint>

namespace skua {

/// One step of splitmix64; also a good 64-bit mixer.
[[nodiscard]] inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (uint64_t& word : state_) word = seed = mix64(seed);
  }

  /// Uniform over all 64-bit values.
  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound); 0 if bound is 0. Multiply-shift: the bias is below bound/2^64.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

  /// Uniform in [low, high], both ends included.
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// True with the given probability.
  bool chance(double probability) { return probability > 0 && uniform() < probability; }

  /// An independent stream for the component named by `salt`.
  Rng fork(uint64_t salt) { return Rng(next() ^ mix64(salt)); }

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_RNG_H_
