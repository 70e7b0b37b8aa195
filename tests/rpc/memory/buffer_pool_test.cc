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

/// As many as there is memory for.
std::vector<Buffer> take_all(BufferPool& pool, size_t bytes) {
  std::vector<Buffer> all;
  for (auto buffer = pool.allocate(bytes); buffer.ok(); buffer = pool.allocate(bytes)) {
    all.push_back(*std::move(buffer));
  }
  return all;
}

TEST(BufferPool, Allocate_MemoryOfEachSizeServesAllOthers) {
  Arena arena({.limit_bytes = 8 * kMiB, .try_huge_pages = false});
  BufferPool pool(arena);
  for (const size_t before : {size_t{256}, size_t{5000}, 128 * size_t{1024}, kMiB, 2 * kMiB}) {
    for (const size_t after : {size_t{256}, size_t{5000}, 128 * size_t{1024}, kMiB, 2 * kMiB}) {
      take_all(pool, before).clear();
      EXPECT_EQ(take_all(pool, after).size(), 8 * kMiB / std::bit_ceil(after)) << before << ", then " << after;
    }
  }
}

TEST(BufferPool, Allocate_TheLargestFindsRoomAfterAllOthers) {
  Arena arena({.limit_bytes = 128 * kMiB, .try_huge_pages = false});
  BufferPool pool(arena);
  for (size_t bytes = 4096; bytes < BufferPool::kLargest; bytes *= 2) take_all(pool, bytes).clear();
  EXPECT_TRUE(pool.allocate(BufferPool::kLargest).ok());
  for (size_t bytes = BufferPool::kLargest / 2; bytes >= 4096; bytes /= 2) {
    // Small roots, three quarters of all, are of 2 MiB.
    EXPECT_EQ(take_all(pool, bytes).size(), (bytes > 2 * kMiB ? 32 : 128) * kMiB / bytes) << bytes;
  }
}

TEST(BufferPool, Allocate_OneThatIsInUseKeepsItsNeighbourhoodOnly) {
  Arena arena({.limit_bytes = 4 * kMiB, .try_huge_pages = false});
  BufferPool pool(arena);
  const auto kept = pool.allocate(256);
  take_all(pool, 256).clear();
  EXPECT_EQ(take_all(pool, 2 * kMiB).size(), 1u);
  EXPECT_EQ(take_all(pool, kMiB).size(), 3u);
}

/// A first message of each small size takes a whole root, and nothing else happens after that.
TEST(BufferPool, Allocate_AFewSmallOnesLeaveRoomForALargeOne) {
  Arena arena({.limit_bytes = 8 * kMiB});
  BufferPool pool(arena);
  for (const size_t bytes : {256u, 512u, 1024u, 2048u}) EXPECT_TRUE(pool.allocate(bytes).ok());
  EXPECT_TRUE(pool.allocate(256 << 10).ok());
}

/// What others keep for long does not put off the moment when two that are free become a large one.
TEST(BufferPool, Allocate_ManyThatAreKeptDoNotKeepALargeOneWaiting) {
  Arena arena({.limit_bytes = 8 * kMiB});
  BufferPool pool(arena);
  std::vector<Buffer> large = take_all(pool, 128 << 10);
  large.resize(16);
  std::vector<Buffer> small = take_all(pool, 256);
  for (size_t i = 0; i < small.size(); i += 2) small[i].reset();
  EXPECT_FALSE(pool.allocate(256 << 10).ok());
  large[0].reset();
  large[1].reset();
  bool found = false;
  for (int tries = 0; tries < 10 && !found; ++tries) found = pool.allocate(256 << 10).ok();
  EXPECT_TRUE(found);
}

constexpr size_t kMessageMax = 16 * kMiB + (size_t{64} << 10);

/// Of each size all that there are, one size after the other.
void use_all_sizes(BufferPool& pool) {
  for (size_t bytes = 4096; bytes <= pool.message_bytes_max(); bytes *= 2) take_all(pool, bytes).clear();
}

TEST(Reserve, TheLargestMessageFindsRoomAfterAllOthers) {
  for (const size_t limit : {16 * kMiB, 34 * kMiB, 66 * kMiB, 125 * kMiB, 512 * kMiB}) {
    Arena arena({.limit_bytes = limit, .try_huge_pages = false});
    BufferPool pool(arena, {.message_bytes_max = kMessageMax, .keeps_reserve = true});
    const size_t largest = pool.message_bytes_max();
    EXPECT_EQ(largest, BufferPool::message_bytes_max(limit, kMessageMax));
    EXPECT_GE(largest, std::min(limit / 8, kMessageMax));
    use_all_sizes(pool);
    const auto general = pool.allocate(largest);
    ASSERT_TRUE(general.ok()) << limit << ": " << general.status();
    const auto reserve = pool.allocate_reserve(largest);
    ASSERT_TRUE(reserve.ok()) << limit << ": " << reserve.status();
    std::memset(general->data(), 1, largest);
    std::memset(reserve->data(), 2, largest);
    if (largest < kMessageMax) {
      EXPECT_FALSE(pool.allocate(largest + 1).ok()) << "never, though there may be room now";
    }
    EXPECT_LE(arena.mapped_bytes(), limit);
  }
}

TEST(Reserve, MessagesOfSixteenMebibytesNeedNoTwiceAsMuch) {
  EXPECT_EQ(BufferPool::message_bytes_max(66 * kMiB, kMessageMax), kMessageMax);
  EXPECT_EQ(BufferPool::message_bytes_max(34 * kMiB, kMessageMax), 8 * kMiB);
}

TEST(Reserve, IsThereWhenAllElseIsTaken) {
  Arena arena({.limit_bytes = 34 * kMiB, .try_huge_pages = false});
  BufferPool pool(arena, {.message_bytes_max = kMessageMax, .keeps_reserve = true});
  const std::vector<Buffer> all = take_all(pool, 4096);
  EXPECT_FALSE(pool.allocate(256).ok());
  for (int i = 0; i < 3; ++i) {
    const auto reserve = pool.allocate_reserve(8 * kMiB);
    ASSERT_TRUE(reserve.ok()) << reserve.status();
    EXPECT_FALSE(pool.allocate_reserve(256).ok()) << "it serves one at a time";
  }
  EXPECT_FALSE(pool.allocate_reserve(8 * kMiB + 1).ok());
  EXPECT_EQ(pool.outstanding_count(), all.size());
}

TEST(Reserve, IsNotKeptWithoutTheOption) {
  Arena arena({.limit_bytes = 34 * kMiB, .try_huge_pages = false});
  BufferPool pool(arena);
  EXPECT_FALSE(pool.allocate_reserve(256).ok());
  EXPECT_EQ(pool.message_bytes_max(), BufferPool::kLargest);
}

/// A message that takes a large root as a whole, and smaller ones that are cut from it, in turn.
TEST(Reserve, ALargeRootIsUsedAsAWholeAndInPieces) {
  Arena arena({.limit_bytes = 66 * kMiB, .try_huge_pages = false});
  BufferPool pool(arena, {.message_bytes_max = kMessageMax, .keeps_reserve = true});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pool.allocate(kMessageMax).ok());
    EXPECT_GE(take_all(pool, 16 * kMiB).size(), 1u);
    EXPECT_GE(take_all(pool, 8 * kMiB).size(), 2u);
    EXPECT_GE(take_all(pool, kMiB).size(), 16u);
  }
  EXPECT_EQ(pool.outstanding_count(), 0u);
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
// With little memory, pieces are split and joined.
void run_random_operations(size_t limit_bytes, uint64_t seed, const BufferPool::Options& options = {}) {
  Arena arena({.limit_bytes = limit_bytes});
  BufferPool pool(arena, options);
  Rng rng(seed);
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
      const bool is_large = options.keeps_reserve && rng.chance(0.02);
      const size_t wanted = is_large ? pool.message_bytes_max() : rng.below(size_t{1} << rng.between(1, 16));
      auto buffer = options.keeps_reserve && rng.chance(0.05) ? pool.allocate_reserve(wanted) : pool.allocate(wanted);
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
  held.clear();
  if (options.keeps_reserve) {
    EXPECT_TRUE(pool.allocate(pool.message_bytes_max()).ok());
    EXPECT_TRUE(pool.allocate_reserve(pool.message_bytes_max()).ok());
  } else {
    EXPECT_EQ(take_all(pool, 2 * kMiB).size(), limit_bytes / (2 * kMiB));
  }
}

TEST(BufferPool, RandomOperations_BuffersNeverOverlapAndCountsAgree) {
  run_random_operations(64 * kMiB, 1);
  for (uint64_t seed = 2; seed < 6; ++seed) run_random_operations(4 * kMiB, seed);
  run_random_operations(10 * kMiB, 6);
  // 4 MiB and a little more: large roots have 6 MiB.
  for (uint64_t seed = 7; seed < 10; ++seed) {
    run_random_operations(22 * kMiB, seed, {.message_bytes_max = 4 * kMiB + 1000, .keeps_reserve = true});
  }
}

}  // namespace
}  // namespace skua::rpc
