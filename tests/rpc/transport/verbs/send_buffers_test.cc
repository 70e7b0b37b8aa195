#include "rpc/transport/verbs/send_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc::verbs {
namespace {

TEST(SendBuffers, AFrameTakesThePlaceOfTheSlotsOwnBuffer) {
  SendBuffers buffers(4, 2);
  EXPECT_EQ(buffers.count(), 6u);
  const uint32_t first = buffers.take().value();
  const uint32_t second = buffers.take().value();
  EXPECT_EQ(buffers.take(), std::nullopt);
  EXPECT_EQ(buffers.out_count(), 2u);
  const uint32_t own = buffers.of_slot(3);
  buffers.exchange(3, second);
  EXPECT_EQ(buffers.of_slot(3), second);
  EXPECT_FALSE(buffers.is_out(second));
  EXPECT_EQ(buffers.take(), own) << "there is one for the next frame at once";
  EXPECT_TRUE(buffers.is_out(first));
}

TEST(SendBuffers, OnlyWhatIsOutComesBack) {
  SendBuffers buffers(4, 2);
  const uint32_t frame = buffers.take().value();
  EXPECT_FALSE(buffers.is_out(0));
  EXPECT_FALSE(buffers.is_out(6));
  EXPECT_FALSE(buffers.is_out(UINT64_MAX));
  EXPECT_DEATH(buffers.give_back(0), "not out");
  buffers.give_back(frame);
  EXPECT_DEATH(buffers.give_back(frame), "not out");
  EXPECT_DEATH(buffers.exchange(0, frame), "not out");
}

/// The twin has sets: each buffer is in one slot, spare, or out.
TEST(SendBuffers, NoBufferIsInTwoPlaces) {
  constexpr uint32_t kSlots = 16;
  constexpr uint32_t kSpares = 7;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    SendBuffers buffers(kSlots, kSpares);
    std::vector<uint32_t> in_slots(kSlots);
    for (uint32_t i = 0; i < kSlots; ++i) in_slots[i] = buffers.of_slot(i);
    std::set<uint32_t> spares;
    for (uint32_t i = kSlots; i < kSlots + kSpares; ++i) spares.insert(i);
    std::vector<uint32_t> out;
    for (int step = 0; step < 2000; ++step) {
      if (out.empty() || rng.chance(0.4)) {
        const std::optional<uint32_t> taken = buffers.take();
        ASSERT_EQ(taken.has_value(), !spares.empty());
        if (!taken.has_value()) continue;
        ASSERT_EQ(spares.erase(*taken), 1u);
        out.push_back(*taken);
        continue;
      }
      std::swap(out[rng.below(out.size())], out.back());
      const uint32_t frame = out.back();
      out.pop_back();
      if (rng.chance(0.3)) {
        buffers.give_back(frame);
        ASSERT_TRUE(spares.insert(frame).second);
      } else {
        const auto slot = static_cast<uint32_t>(rng.below(kSlots));
        buffers.exchange(slot, frame);
        ASSERT_TRUE(spares.insert(in_slots[slot]).second);
        in_slots[slot] = frame;
      }
      ASSERT_EQ(buffers.out_count(), out.size());
      for (uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(buffers.of_slot(i), in_slots[i]);
      for (uint32_t i = 0; i < buffers.count(); ++i) ASSERT_EQ(buffers.is_out(i), std::ranges::count(out, i) == 1);
    }
  }
}

}  // namespace
}  // namespace skua::rpc::verbs
