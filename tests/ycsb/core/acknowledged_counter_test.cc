#include "ycsb/core/acknowledged_counter.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::ycsb {
namespace {

TEST(AcknowledgedCounter, Last_FollowsContiguousAcknowledgements) {
  AcknowledgedCounter counter(100);
  EXPECT_EQ(counter.last(), 99U);
  EXPECT_EQ(counter.next(), 100U);
  EXPECT_EQ(counter.next(), 101U);
  EXPECT_EQ(counter.next(), 102U);
  counter.acknowledge(101);
  EXPECT_EQ(counter.last(), 99U);
  counter.acknowledge(100);
  EXPECT_EQ(counter.last(), 101U);
  counter.acknowledge(102);
  EXPECT_EQ(counter.last(), 102U);
}

TEST(AcknowledgedCounter, Next_RefusesAtTheWindow) {
  AcknowledgedCounter counter(1, 4);
  for (uint64_t n = 1; n <= 4; ++n) EXPECT_EQ(counter.next(), n);
  EXPECT_EQ(counter.next(), std::nullopt);
  counter.acknowledge(2);
  EXPECT_EQ(counter.next(), std::nullopt);
  counter.acknowledge(1);
  EXPECT_EQ(counter.next(), 5U);
  EXPECT_EQ(counter.next(), 6U);
  EXPECT_EQ(counter.next(), std::nullopt);
}

// Twin: a set of acknowledged numbers, emptied from the bottom.
TEST(AcknowledgedCounter, AgreesWithASet) {
  AcknowledgedCounter counter(1, 16);
  std::set<uint64_t> acknowledged;
  std::vector<uint64_t> pending;
  uint64_t highest = 0;
  Rng rng(7);
  for (int step = 0; step < 20'000; ++step) {
    if (rng.chance(0.5)) {
      if (const auto number = counter.next()) pending.push_back(*number);
    } else if (!pending.empty()) {
      const size_t at = rng.below(pending.size());
      counter.acknowledge(pending[at]);
      acknowledged.insert(pending[at]);
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(at));
    }
    while (acknowledged.erase(highest + 1) == 1) ++highest;
    ASSERT_EQ(counter.last(), highest) << step;
  }
}

TEST(AcknowledgedCounter, ManyThreads_LoseNothing) {
  AcknowledgedCounter counter(1, 64);
  constexpr uint64_t kEach = 50'000;
  constexpr uint64_t kThreads = 4;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&counter] {
      for (uint64_t done = 0; done < kEach;) {
        const auto number = counter.next();
        if (!number) {
          std::this_thread::yield();
          continue;
        }
        counter.acknowledge(*number);
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.next(), kThreads * kEach + 1);
  counter.acknowledge(kThreads * kEach + 1);
  EXPECT_EQ(counter.last(), kThreads * kEach + 1);
}

}  // namespace
}  // namespace skua::ycsb
