#include "rpc/notice_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <set>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

using Ring = std::array<std::byte, NoticeRing::kBytes>;

TEST(NoticeRing, NumbersNameSlotAndEntry) {
  const uint32_t number = NoticeRing::number_of(NoticeRing::kSlotsMax - 1, 31);
  EXPECT_EQ(NoticeRing::slot_of(number), NoticeRing::kSlotsMax - 1);
  EXPECT_EQ(NoticeRing::entry_of(number), 31u);
  EXPECT_EQ(NoticeRing::offset_of(NoticeRing::kEntries), NoticeRing::kBytes);
}

TEST(NoticeRing, Golden) {
  Ring ring{};
  NoticeRing::Entry{0x1122334455667788, 0x99, 0xfeed}.write(ring.data() + NoticeRing::offset_of(1));
  EXPECT_EQ(ring[48], std::byte{0x88});
  EXPECT_EQ(ring[55], std::byte{0x11});
  EXPECT_EQ(ring[56], std::byte{0x99});
  EXPECT_EQ(ring[60], std::byte{0xed});
  EXPECT_EQ(ring[61], std::byte{0xfe});
}

TEST(NoticeRing, Take_CountsAndRefusesWhatIsNone) {
  Ring ring{};
  const NoticeRing::Entry entry{7, 8, 9};
  entry.write(ring.data() + NoticeRing::offset_of(3));
  EXPECT_EQ(NoticeRing::take(ring, NoticeRing::number_of(5, 3)), entry);
  EXPECT_EQ(ring[3], std::byte{1});
  for (const uint32_t number : {32u, 255u}) EXPECT_EQ(NoticeRing::take(ring, number), std::nullopt);
  EXPECT_EQ(std::count(ring.begin(), ring.begin() + NoticeRing::kTakenBytes, std::byte{0}), 31);
}

TEST(NoticeEntries, WhatALyingOwnerSaysFreesNoMoreThanWasUsed) {
  NoticeEntries entries;
  std::array<std::byte, NoticeRing::kTakenBytes> taken;
  taken.fill(std::byte{1});
  entries.on_taken(taken);
  EXPECT_EQ(entries.free_count(), NoticeRing::kEntries);
  for (uint32_t i = 0; i < NoticeRing::kEntries; ++i) ASSERT_TRUE(entries.take().has_value());
  EXPECT_EQ(entries.take(), std::nullopt);
  EXPECT_TRUE(entries.is_short());
  entries.on_taken(ByteSpan(taken).first(5));
  EXPECT_EQ(entries.free_count(), 5u);
  entries.on_taken(taken);
  EXPECT_EQ(entries.free_count(), NoticeRing::kEntries);
  EXPECT_DEATH(entries.give_back(0), "free");
}

/// Posted in any order, some not at all, heard of late: no entry is written before it was taken, and none is lost.
TEST(NoticeEntries, EntriesAreWrittenAgainOnlyOnceTaken) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    Ring ring{};
    NoticeEntries entries;
    std::vector<uint32_t> to_post;
    std::deque<uint32_t> posted;  // at the owner, not taken yet
    std::set<uint32_t> in_use;
    uint32_t next_notice = 0;
    for (int step = 0; step < 20'000; ++step) {
      switch (rng.below(4)) {
        case 0:
          if (const auto entry = entries.take(); entry.has_value()) {
            ASSERT_TRUE(in_use.insert(*entry).second) << "the owner may still read it";
            to_post.push_back(*entry);
          }
          break;
        case 1: {
          if (to_post.empty()) break;
          std::swap(to_post[rng.below(to_post.size())], to_post.back());
          const uint32_t entry = to_post.back();
          to_post.pop_back();
          if (rng.chance(0.2)) {
            entries.give_back(entry);
            in_use.erase(entry);
            break;
          }
          NoticeRing::Entry{entry, entry, next_notice++}.write(ring.data() + NoticeRing::offset_of(entry));
          posted.push_back(entry);
          break;
        }
        case 2: {
          if (posted.empty()) break;
          const auto taken = NoticeRing::take(ring, NoticeRing::number_of(1, posted.front()));
          ASSERT_TRUE(taken.has_value());
          ASSERT_EQ(taken->offset, posted.front());
          in_use.erase(posted.front());
          posted.pop_front();
          break;
        }
        default:
          if (entries.is_short()) entries.on_taken(ByteSpan(ring).first(NoticeRing::kTakenBytes));
      }
    }
    for (; !posted.empty(); posted.pop_front()) {
      ASSERT_TRUE(NoticeRing::take(ring, NoticeRing::number_of(1, posted.front())).has_value());
    }
    for (const uint32_t entry : to_post) entries.give_back(entry);
    entries.on_taken(ByteSpan(ring).first(NoticeRing::kTakenBytes));
    EXPECT_EQ(entries.free_count(), NoticeRing::kEntries);
  }
}

}  // namespace
}  // namespace skua::rpc
