#include "rpc/memory/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(BufferPool, Allocate_SmallestPowerOfTwoThatFits) {
  Arena arena({});
  BufferPool pool(arena);
  for (const auto& [bytes, capacity] : std::map<size_t, size_t>{{0, 256},
                                                                {1, 256},
                                                                {256, 256},
                                                                {257, 512},
                                                                {4096, 4096},
                                                                {4097, 8192},
                                                                {kMiB + 1, 2 * kMiB},
                                                                {32 * kMiB, 32 * kMiB}}) {
    const auto buffer = pool.allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(buffer->capacity(), capacity) << bytes;
    buffer->data()[0] = std::byte{1};
    buffer->data()[capacity - 1] = std::byte{2};
  }
}

TEST(BufferPool, Allocate_AboveTheLargest) {
  Arena arena({});
  BufferPool pool(arena);
  for (const size_t bytes : {BufferPool::kLargest + 1, SIZE_MAX}) {
    EXPECT_EQ(pool.allocate(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(arena.mapped_bytes(), 0u);
}

TEST(BufferPool, Allocate_SmallBuffersShareOneMapping) {
  Arena arena({});
  BufferPool pool(arena);
  std::vector<Buffer> held;
  held.reserve(8193);
  for (int i = 0; i < 8192; ++i) held.push_back(*pool.allocate(256));
  EXPECT_EQ(arena.mapped_bytes(), 2 * kMiB);
  std::set<std::byte*> distinct;
  for (const Buffer& buffer : held) distinct.insert(buffer.data());
  EXPECT_EQ(distinct.size(), held.size());
  held.push_back(*pool.allocate(256));
  EXPECT_EQ(arena.mapped_bytes(), 4 * kMiB);
}

TEST(BufferPool, Allocate_SteadyStateMapsNothing) {
  Arena arena({});
  BufferPool pool(arena);
  std::byte* first;
  {
    const auto buffer = pool.allocate(20'000);
    first = buffer->data();
  }
  const size_t mapped = arena.mapped_bytes();
  for (int i = 0; i < 10'000; ++i) {
    const auto buffer = pool.allocate(16'385 + static_cast<size_t>(i));
    ASSERT_EQ(buffer->data(), first);  // the one freed last is the warmest
  }
  EXPECT_EQ(arena.mapped_bytes(), mapped);
}

TEST(BufferPool, Allocate_ExhaustionIsARefusalAndFreedBuffersCure) {
  Arena arena({.limit_bytes = 4 * kMiB});
  BufferPool pool(arena);
  auto a = pool.allocate(2 * kMiB);
  auto b = pool.allocate(2 * kMiB);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(pool.allocate(2 * kMiB).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.allocate(1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.outstanding_count(), 2u);
  b->reset();
  EXPECT_TRUE(pool.allocate(2 * kMiB).ok());
}

TEST(Buffer, Move_OneOwnerAtATime) {
  Arena arena({});
  BufferPool pool(arena);
  Buffer a = *pool.allocate(100);
  std::byte* data = a.data();
  Buffer b(std::move(a));
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what a moved-from buffer is
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(pool.outstanding_count(), 1u);
  Buffer c = *pool.allocate(300);
  c = std::move(b);
  EXPECT_EQ(pool.outstanding_count(), 1u);
  Buffer& self = c;
  c = std::move(self);
  EXPECT_EQ(c.data(), data);
  c.reset();
  c.reset();
  EXPECT_EQ(pool.outstanding_count(), 0u);
  EXPECT_EQ(pool.outstanding_bytes(), 0u);
}

TEST(BufferPoolDeathTest, Destructor_BufferOutlivesIt) {
  EXPECT_DEATH(
      {
        Arena arena({});
        Buffer buffer;
        BufferPool pool(arena);
        buffer = *pool.allocate(1);
      },
      "outlives its pool");
}

// Every live buffer is filled with its own number; an overlap would show as a foreign number.
TEST(BufferPool, RandomOperations_BuffersNeverOverlapAndCountsAgree) {
  Arena arena({.limit_bytes = 64 * kMiB});
  BufferPool pool(arena);
  Rng rng(1);
  struct Held {
    Buffer buffer;
    std::byte fill;
  };
  std::vector<Held> held;
  size_t bytes = 0;
  const auto intact = [](const Held& h) {
    const ByteSpan all(h.buffer.data(), h.buffer.capacity());
    return std::all_of(all.begin(), all.end(), [&](std::byte b) { return b == h.fill; });
  };
  for (int i = 0; i < 6000; ++i) {
    if (held.empty() || rng.chance(0.55)) {
      auto buffer = pool.allocate(rng.below(size_t{1} << rng.between(1, 16)));
      if (!buffer.ok()) {
        ASSERT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      const auto fill = static_cast<std::byte>(rng.next());
      std::memset(buffer->data(), static_cast<int>(fill), buffer->capacity());
      bytes += buffer->capacity();
      held.push_back({*std::move(buffer), fill});
    } else {
      std::swap(held[rng.below(held.size())], held.back());
      ASSERT_TRUE(intact(held.back()));
      bytes -= held.back().buffer.capacity();
      held.pop_back();
    }
    ASSERT_EQ(pool.outstanding_count(), held.size());
    ASSERT_EQ(pool.outstanding_bytes(), bytes);
  }
  for (const Held& h : held) EXPECT_TRUE(intact(h));
}

}  // namespace
}  // namespace skua::rpc
