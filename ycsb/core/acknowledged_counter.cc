#include "ycsb/core/acknowledged_counter.h"

#include <bit>

#include "rpc/base/check.h"

namespace skua::ycsb {

AcknowledgedCounter::AcknowledgedCounter(uint64_t first, uint64_t window)
    : mask_(window - 1), acknowledged_(new std::atomic<bool>[window]), next_(first), last_(first - 1) {
  SKUA_CHECK(std::has_single_bit(window), "the window must be a power of two");
  SKUA_CHECK(first >= 1, "last() needs a number below the first");
  for (uint64_t i = 0; i < window; ++i) acknowledged_[i].store(false, std::memory_order_relaxed);
}

std::optional<uint64_t> AcknowledgedCounter::next() {
  uint64_t number = next_.load(std::memory_order_relaxed);
  for (;;) {
    if (number - last() > mask_ + 1) {
      // An acknowledger that lost the race for the flag may have left last() behind.
      advance();
      if (number - last() > mask_ + 1) return std::nullopt;
    }
    if (next_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed)) return number;
  }
}

void AcknowledgedCounter::acknowledge(uint64_t number) {
  const bool twice = acknowledged_[number & mask_].exchange(true, std::memory_order_release);
  SKUA_CHECK(!twice, "a number was acknowledged twice");
  advance();
}

void AcknowledgedCounter::advance() {
  if (advancing_.test_and_set(std::memory_order_acquire)) return;
  uint64_t number = last_.load(std::memory_order_relaxed);
  const uint64_t before = number;
  while (number - before <= mask_ && acknowledged_[(number + 1) & mask_].load(std::memory_order_acquire)) {
    ++number;
    acknowledged_[number & mask_].store(false, std::memory_order_relaxed);
  }
  last_.store(number, std::memory_order_release);
  advancing_.clear(std::memory_order_release);
}

}  // namespace skua::ycsb
