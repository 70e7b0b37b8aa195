// How far two processors are from each other: the time that a cache line takes from one to the other and back.
//
//   cache_line_ping 0 1        prints nanoseconds, the median of twenty measurements of a millisecond
//
// On machines whose virtual processors are moved between cores it changes within minutes, from 85 ns to 430 ns for
// example, and figures of two processes that share memory change with it. tests/perf/memif_pair.py asks before and
// after each run.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMeasurements = 20;
constexpr auto kMeasurement = std::chrono::milliseconds(1);
constexpr uint64_t kStop = UINT64_MAX;

bool pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(processor), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

/// Odd numbers are ours, even ones the other's answer.
struct alignas(64) Line {
  std::atomic<uint64_t> ball{0};
};

void answer(Line& line) {
  for (;;) {
    const uint64_t seen = line.ball.load(std::memory_order_acquire);
    if (seen == kStop) return;
    if (seen % 2 == 1) line.ball.store(seen + 1, std::memory_order_release);
  }
}

double measure(Line& line) {
  uint64_t rounds = 0;
  const auto begin = Clock::now();
  auto end = begin;
  for (uint64_t sent = line.ball.load() + 1; end - begin < kMeasurement; sent += 2) {
    line.ball.store(sent, std::memory_order_release);
    while (line.ball.load(std::memory_order_acquire) == sent) {
    }
    // The clock is read now and then: it takes as long as a near round.
    if (++rounds % 64 == 0) end = Clock::now();
  }
  return std::chrono::duration<double, std::nano>(end - begin).count() / static_cast<double>(rounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: cache_line_ping PROCESSOR PROCESSOR\n", stderr);
    return 2;
  }
  const int here = std::atoi(argv[1]);
  const int there = std::atoi(argv[2]);
  Line line;
  std::atomic<bool> pinned{true};
  std::thread other([&] {
    pinned = pin(there);
    answer(line);
  });
  pinned = pin(here) && pinned;
  std::array<double, kMeasurements> figures{};
  for (double& figure : figures) figure = measure(line);
  line.ball.store(kStop);
  other.join();
  if (!pinned) {
    std::fprintf(stderr, "cache_line_ping: this process may not run on processors %d and %d\n", here, there);
    return 1;
  }
  std::nth_element(figures.begin(), figures.begin() + kMeasurements / 2, figures.end());
  std::printf("%.0f\n", figures[kMeasurements / 2]);
  return 0;
}
