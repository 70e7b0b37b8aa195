// Keys of 16 to 24 bytes for the memory tier's benchmarks, and runs of lookups over them that lie side by side in
// memory: a request's key is in the cache when it is looked up.
#ifndef SKUA_TESTS_PERF_MEMORY_BENCH_KEYS_H_
#define SKUA_TESTS_PERF_MEMORY_BENCH_KEYS_H_

#include <time.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {

/// The key of a number, as it lies in a run of lookups.
struct BenchKey {
  std::array<char, 31> text;
  uint8_t size;

  [[nodiscard]] std::string_view view() const { return {text.data(), size}; }

  static BenchKey of(uint64_t number) {
    const uint64_t mixed = mix64(number);
    BenchKey key;
    std::snprintf(key.text.data(), key.text.size(), "user%020llu", static_cast<unsigned long long>(mixed));
    key.size = static_cast<uint8_t>(16 + mixed % 9);  // cut off: the upper digits differ enough
    // The number itself keeps cut keys apart.
    for (size_t i = 0; i < 8; ++i) key.text[4 + i] = static_cast<char>('a' + (number >> (4 * i)) % 16);
    return key;
  }
};

/// `count` keys of numbers below `bound`, uniformly.
inline std::vector<BenchKey> random_keys(size_t count, uint64_t bound, uint64_t seed) {
  Rng rng(seed);
  std::vector<BenchKey> keys;
  keys.reserve(count);
  for (size_t i = 0; i < count; ++i) keys.push_back(BenchKey::of(rng.below(bound)));
  return keys;
}

/// Of this thread: a machine that others use as well takes the processor away now and then.
inline double cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Nanoseconds of processor time that `work()` took, per each of `count`.
template <typename Work>
double ns_each(size_t count, Work work) {
  const double begin = cpu_ns();
  work();
  return (cpu_ns() - begin) / static_cast<double>(count);
}

}  // namespace skua::kv

#endif  // SKUA_TESTS_PERF_MEMORY_BENCH_KEYS_H_
