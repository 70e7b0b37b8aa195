#include "rpc/memory/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace skua::rpc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(Arena, Map_RoundsUpToTwoMebibytesOfZeros) {
  Arena arena({});
  const auto small = arena.map(1);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->size(), 2 * kMiB);
  EXPECT_TRUE(std::all_of(small->begin(), small->end(), [](std::byte b) { return b == std::byte{}; }));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small->data()) % 4096, 0u);
  std::fill(small->begin(), small->end(), std::byte{1});  // writable to the end
  const auto larger = arena.map(2 * kMiB + 1);
  ASSERT_TRUE(larger.ok());
  EXPECT_EQ(larger->size(), 4 * kMiB);
  EXPECT_EQ(arena.mapped_bytes(), 6 * kMiB);
}

TEST(Arena, Map_PlainPagesWhenHugePagesAreNotWanted) {
  Arena arena({.try_huge_pages = false});
  ASSERT_TRUE(arena.map(1).ok());
  EXPECT_NE(arena.page_kind(), PageKind::kHuge);
}

TEST(Arena, Map_LimitIsExact) {
  Arena arena({.limit_bytes = 6 * kMiB});
  ASSERT_TRUE(arena.map(4 * kMiB).ok());
  const auto refused = arena.map(2 * kMiB + 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("raise"), absl::string_view::npos);
  EXPECT_EQ(arena.mapped_bytes(), 4 * kMiB);
  EXPECT_TRUE(arena.map(2 * kMiB).ok());  // a refusal uses nothing up
  EXPECT_FALSE(arena.map(1).ok());
}

TEST(Arena, Map_SizesThatOverflowAreRefused) {
  Arena arena({.limit_bytes = SIZE_MAX});
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 2 * kMiB, SIZE_MAX - 2 * kMiB + 2}) {
    const auto refused = arena.map(bytes);
    ASSERT_FALSE(refused.ok()) << bytes;
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(arena.mapped_bytes(), 0u);
}

TEST(Arena, OnMap_SeesEachMappingBeforeItsUseAndOnUnmapItsEnd) {
  std::vector<MutableByteSpan> mapped;
  std::vector<MutableByteSpan> unmapped;
  std::vector<const std::byte*> returned;
  returned.reserve(3);
  {
    Arena arena({.on_map =
                     [&](MutableByteSpan region) {
                       mapped.push_back(region);
                       return absl::OkStatus();
                     },
                 .on_unmap =
                     [&](MutableByteSpan region) {
                       region[0] = std::byte{1};  // still mapped
                       unmapped.push_back(region);
                     }});
    for (int i = 0; i < 3; ++i) returned.push_back(arena.map(1)->data());
    EXPECT_TRUE(unmapped.empty());
  }
  ASSERT_EQ(mapped.size(), 3u);
  ASSERT_EQ(unmapped.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(mapped[i].data(), returned[i]);
    EXPECT_EQ(unmapped[i].data(), returned[i]);
    EXPECT_EQ(unmapped[i].size(), 2 * kMiB);
  }
}

TEST(Arena, OnMap_FailureIsPassedOnAndNothingIsKept) {
  int unmapped = 0;
  bool fail = true;
  {
    Arena arena(
        {.on_map = [&](MutableByteSpan) { return fail ? absl::ResourceExhaustedError("memlock") : absl::OkStatus(); },
         .on_unmap = [&](MutableByteSpan) { ++unmapped; }});
    const auto refused = arena.map(1);
    EXPECT_EQ(refused.status(), absl::ResourceExhaustedError("memlock"));
    EXPECT_EQ(arena.mapped_bytes(), 0u);
    fail = false;
    EXPECT_TRUE(arena.map(1).ok());
  }
  EXPECT_EQ(unmapped, 1);
}

}  // namespace
}  // namespace skua::rpc
