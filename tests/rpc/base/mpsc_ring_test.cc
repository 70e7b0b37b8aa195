#include "rpc/base/mpsc_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "rpc/base/rng.h"

namespace skua {
namespace {

TEST(MpscRing, Constructor_RoundsCapacityUp) {
  EXPECT_EQ(MpscRing<int>(0).capacity(), 2u);
  EXPECT_EQ(MpscRing<int>(2).capacity(), 2u);
  EXPECT_EQ(MpscRing<int>(3).capacity(), 4u);
  EXPECT_EQ(MpscRing<int>(1000).capacity(), 1024u);
}

TEST(MpscRing, TryPush_FullLeavesTheValueUntouched) {
  MpscRing<std::unique_ptr<int>> ring(2);
  std::vector<std::unique_ptr<int>> values(3);
  for (int i = 0; i < 3; ++i) values[static_cast<size_t>(i)] = std::make_unique<int>(i);
  ASSERT_TRUE(ring.try_push(std::move(values[0])));
  ASSERT_TRUE(ring.try_push(std::move(values[1])));
  EXPECT_FALSE(ring.try_push(std::move(values[2])));
  ASSERT_NE(values[2], nullptr);
  std::unique_ptr<int> out;
  ASSERT_TRUE(ring.try_pop(out));
  EXPECT_EQ(*out, 0);
  EXPECT_TRUE(ring.try_push(std::move(values[2])));
}

TEST(MpscRing, TryFill_GetsAnElementAsItWasAtFirst) {
  MpscRing<std::unique_ptr<int>> ring(2);
  for (int i = 0; i < 5; ++i) {
    const auto fill = [i](std::unique_ptr<int>& element) {
      EXPECT_EQ(element, nullptr);
      element = std::make_unique<int>(i);
    };
    ASSERT_TRUE(ring.try_fill(fill));
    ASSERT_TRUE(ring.try_fill(fill));
    EXPECT_FALSE(ring.try_fill([](std::unique_ptr<int>&) { ADD_FAILURE() << "the ring is full"; }));
    for (int n = 0; n < 2; ++n) {
      std::unique_ptr<int> out;
      ASSERT_TRUE(ring.try_pop(out));
      EXPECT_EQ(*out, i);
    }
  }
}

TEST(MpscRing, TryPop_EmptyIsFalse) {
  MpscRing<int> ring(4);
  int out = 17;
  EXPECT_TRUE(ring.empty());
  EXPECT_FALSE(ring.try_pop(out));
  EXPECT_EQ(out, 17);
}

TEST(MpscRing, TryPop_DropsItsOwnReference) {
  MpscRing<std::shared_ptr<int>> ring(4);
  auto value = std::make_shared<int>(1);
  ASSERT_TRUE(ring.try_push(std::shared_ptr<int>(value)));
  EXPECT_EQ(value.use_count(), 2);
  std::shared_ptr<int> out;
  ASSERT_TRUE(ring.try_pop(out));
  out.reset();
  EXPECT_EQ(value.use_count(), 1);
}

TEST(MpscRing, RandomOperations_AgreeWithDeque) {
  Rng rng(7);
  MpscRing<uint64_t> ring(16);
  std::deque<uint64_t> twin;
  for (int i = 0; i < 100'000; ++i) {
    uint64_t value = rng.next();
    if (rng.chance(0.5)) {
      const bool pushed = ring.try_push(uint64_t{value});
      ASSERT_EQ(pushed, twin.size() < ring.capacity());
      if (pushed) twin.push_back(value);
    } else {
      const bool popped = ring.try_pop(value);
      ASSERT_EQ(popped, !twin.empty());
      if (popped) {
        ASSERT_EQ(value, twin.front());
        twin.pop_front();
      }
    }
    ASSERT_EQ(ring.empty(), twin.empty());
  }
}

// Run under TSan this also shows that the value's bytes are handed over, not only its turn.
TEST(MpscRing, TryPush_FromManyThreadsNothingLostAndEachInOrder) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kPerThread = 20'000;
  MpscRing<std::unique_ptr<uint64_t>> ring(64);
  std::vector<std::thread> producers;
  producers.reserve(kThreads);
  for (uint64_t t = 0; t < kThreads; ++t) {
    producers.emplace_back([&ring, t] {
      for (uint64_t i = 0; i < kPerThread; ++i) {
        auto value = std::make_unique<uint64_t>(t << 32 | i);
        while (!ring.try_push(std::move(value))) std::this_thread::yield();
      }
    });
  }
  std::vector<uint64_t> next(kThreads, 0);
  for (uint64_t taken = 0; taken < kThreads * kPerThread;) {
    std::unique_ptr<uint64_t> value;
    if (!ring.try_pop(value)) {
      std::this_thread::yield();
      continue;
    }
    ++taken;
    const uint64_t thread = *value >> 32;
    ASSERT_LT(thread, kThreads);
    ASSERT_EQ(*value & UINT32_MAX, next[thread]++);
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace skua
