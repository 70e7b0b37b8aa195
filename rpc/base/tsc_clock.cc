#include "rpc/base/tsc_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace skua {
namespace {

#if defined(__x86_64__)
/// CPUID 0x80000007, EDX bit 8: the counter's rate is constant in all P-, C- and T-states.
bool counter_is_invariant() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
}

struct Reading {
  uint64_t cycles;
  TimeNs ns;
};

/// Of several readings, the one that took the fewest cycles: it was not interrupted.
Reading read_both() {
  const SteadyClock clock;
  Reading best{0, 0};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = __rdtsc();
    const TimeNs ns = clock.now_ns();
    const uint64_t after = __rdtsc();
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2, ns};
  }
  return best;
}

double measure() {
  if (!counter_is_invariant()) return 0;
  const Reading begin = read_both();
  Reading end = begin;
  while (end.ns - begin.ns < 2 * kMillisecond) end = read_both();
  return static_cast<double>(end.ns - begin.ns) / static_cast<double>(end.cycles - begin.cycles);
}
#endif

}  // namespace

double TscClock::measured_ns_per_cycle() {
#if defined(__x86_64__)
  static const double measured = measure();
  return measured;
#else
  return 0;
#endif
}

void TscClock::take_anchor() const {
#if defined(__x86_64__)
  anchor_cycles_ = __rdtsc();
  anchor_cycles_max_ = ns_per_cycle_ > 0 ? static_cast<uint64_t>(static_cast<double>(kAnchorEvery) / ns_per_cycle_) : 0;
#endif
  anchor_ns_ = SteadyClock().now_ns();
}

}  // namespace skua
