// FramePool: who has which buffer.
#include "rpc/transport/tcp/frame_pool.h"

#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::tcp {
namespace {

TEST(FramePool, AllCanBeTakenAndWrittenToTheirEnds) {
  FramePool pool(1000);
  std::set<std::byte*> seen;
  for (uint32_t i = 0; i < kFramesTakenMax; ++i) {
    ASSERT_TRUE(pool.has_one());
    std::byte* const frame = pool.at(pool.take());
    EXPECT_TRUE(seen.insert(frame).second);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame) % 64, 0U);
    std::memset(frame - kFrameBytesMax, 1, kFrameBytesMax + 1000 + kFrameSlack);
  }
  EXPECT_FALSE(pool.has_one());
  pool.give_back(7);
  EXPECT_TRUE(pool.has_one());
  EXPECT_EQ(pool.take(), 7U) << "the one that was used last";
}

TEST(FramePoolDeathTest, GivenBackTwice_IsAnInvariantBroken) {
  FramePool pool(1000);
  const uint32_t number = pool.take();
  pool.give_back(number);
  EXPECT_DEATH(pool.give_back(number), "sent twice");
  EXPECT_DEATH((void)pool.at(number), "sent twice");
}

}  // namespace
}  // namespace skua::rpc::tcp
