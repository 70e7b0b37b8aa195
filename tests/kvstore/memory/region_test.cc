#include "kvstore/memory/region.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <thread>

namespace skua::kv {
namespace {

TEST(RegionTest, Pins_OfTheOwnerAndOfOthersAddUp) {
  size_t pinned_slots = 0;
  Region run;
  run.owner_mark = this_thread_mark();
  run.pinned_slots = &pinned_slots;
  run.slots = 3;
  run.pin();
  run.pin();
  EXPECT_EQ(run.pins(), 2U);
  EXPECT_EQ(pinned_slots, 3U);
  Region::unpin(&run);
  std::thread([&] { Region::unpin(&run); }).join();
  EXPECT_TRUE(run.is_unpinned());
  EXPECT_EQ(pinned_slots, 3U) << "what another thread returned is counted later";
  run.count_returns();
  EXPECT_TRUE(run.is_unpinned());
  EXPECT_EQ(pinned_slots, 0U);
  run.count_returns();
  EXPECT_EQ(pinned_slots, 0U);
}

TEST(RegionTest, IsEvictable_OnlySealedCleanAndUnpinned) {
  size_t pinned_slots = 0;
  Region region;
  region.owner_mark = this_thread_mark();
  region.pinned_slots = &pinned_slots;
  for (const auto state : {Region::State::kFree, Region::State::kOpen, Region::State::kScanning,
                           Region::State::kCondemned, Region::State::kRunTail}) {
    region.state = state;
    EXPECT_FALSE(region.is_evictable());
  }
  region.state = Region::State::kSealed;
  EXPECT_TRUE(region.is_evictable());
  region.dirty_segments = 1;
  EXPECT_FALSE(region.is_evictable());
  region.dirty_segments = 0;
  region.pin();
  EXPECT_FALSE(region.is_evictable());
  Region::unpin(&region);
  EXPECT_TRUE(region.is_evictable());
}

}  // namespace
}  // namespace skua::kv
