#include "rpc/protocol/packet_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

// Sizes around every boundary of the representation: the inline word, whole words, a snapshot's reach.
constexpr uint32_t kSizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 320, 321, 1000, 65535};

class SetTwin {
 public:
  explicit SetTwin(uint32_t size) : size_(size) {}
  bool insert(uint32_t index) { return set_.insert(index).second; }
  void extend(uint32_t size) { size_ = size; }
  bool contains(uint32_t index) const { return set_.count(index) > 0; }
  size_t count() const { return set_.size(); }
  bool all() const { return set_.size() == size_; }
  uint32_t size() const { return size_; }
  uint32_t base() const {
    uint32_t out = 0;
    while (out < size_ && contains(out)) ++out;
    return out;
  }

 private:
  uint32_t size_;
  std::set<uint32_t> set_;
};

void expect_same(const ReceivedSet& set, const SetTwin& twin) {
  ASSERT_EQ(set.size(), twin.size());
  ASSERT_EQ(set.count(), twin.count());
  ASSERT_EQ(set.all(), twin.all());
  ASSERT_EQ(set.base(), twin.base());
  const PacketSet snapshot = set.snapshot();
  ASSERT_EQ(snapshot.base, set.base());
  ASSERT_LE(snapshot.word_count, PacketSet::kWordsMax);
  if (snapshot.word_count > 0) {
    ASSERT_NE(snapshot.words[snapshot.word_count - 1], 0u);  // no longer than needed
  }
  for (uint32_t i = 0; i < 64 * PacketSet::kWordsMax; ++i) {
    const bool bit = (snapshot.words[i / 64] >> (i % 64) & 1) != 0;
    ASSERT_EQ(bit, twin.contains(snapshot.base + i)) << snapshot.base << " + " << i;
  }
}

TEST(ReceivedSet, Insert_InOrderAndReverse) {
  for (const uint32_t size : kSizes) {
    if (size > 1000) continue;
    ReceivedSet forward;
    ReceivedSet backward;
    forward.reset(size);
    backward.reset(size);
    for (uint32_t i = 0; i < size; ++i) {
      EXPECT_FALSE(forward.all());
      EXPECT_EQ(forward.base(), i);
      EXPECT_TRUE(forward.insert(i));
      EXPECT_EQ(backward.base(), 0u);
      EXPECT_TRUE(backward.insert(size - 1 - i));
    }
    EXPECT_TRUE(forward.all());
    EXPECT_TRUE(backward.all());
    EXPECT_EQ(forward.base(), size);
    EXPECT_EQ(backward.base(), size);
  }
}

TEST(ReceivedSet, Insert_DuplicateIsFalseAndCountsOnce) {
  ReceivedSet set;
  set.reset(100);
  EXPECT_TRUE(set.insert(70));
  EXPECT_FALSE(set.insert(70));
  EXPECT_EQ(set.count(), 1u);
  EXPECT_EQ(set.base(), 0u);
}

TEST(ReceivedSet, Contains_BeyondTheSizeIsFalse) {
  ReceivedSet set;
  set.reset(3);
  EXPECT_FALSE(set.contains(3));
  EXPECT_FALSE(set.contains(UINT32_MAX));
}

TEST(ReceivedSet, Insert_RandomOperationsAgreeWithStdSet) {
  Rng rng(1);
  ReceivedSet set;  // one object all along: reset() must forget, whatever the sizes before
  for (uint32_t operations = 0; operations < 50'000;) {
    const uint32_t size = kSizes[rng.below(std::size(kSizes) - 1)];
    set.reset(size);
    SetTwin twin(size);
    const uint64_t steps = 1 + rng.below(2 * size);
    for (uint64_t step = 0; step < steps; ++step, ++operations) {
      // Mostly near the base, as packets arrive.
      const uint64_t index = rng.chance(0.7) ? twin.base() + rng.below(8) : rng.below(size);
      if (index >= size) continue;
      const auto i = static_cast<uint32_t>(index);
      ASSERT_EQ(set.contains(i), twin.contains(i));
      uint32_t missing = 0;
      while (missing < 64 && i + missing < size && !twin.contains(i + missing)) ++missing;
      ASSERT_EQ(set.missing_from(i), missing);
      if (rng.chance(0.2)) {
        const uint32_t end = i + static_cast<uint32_t>(rng.below(std::min(size - i, 150u) + 1));
        uint32_t fresh = 0;
        for (uint32_t j = i; j < end; ++j) fresh += twin.insert(j) ? 1 : 0;
        ASSERT_EQ(set.insert_range(i, end), fresh);
      } else {
        ASSERT_EQ(set.insert(i), twin.insert(i));
      }
      if (step % 16 == 0) expect_same(set, twin);
    }
    expect_same(set, twin);
  }
}

TEST(ReceivedSet, Extend_KeepsWhatIsThereAndAddsHoles) {
  Rng rng(2);
  for (const uint32_t first : kSizes) {
    for (const uint32_t more : kSizes) {
      if (first + more > 3000) continue;
      ReceivedSet set;
      set.reset(1000);
      for (uint32_t i = 0; i < 1000; ++i) set.insert(i);  // dirt that reset() must clear
      set.reset(first);
      SetTwin twin(first);
      const bool whole = rng.chance(0.7);  // a request is whole when its response begins
      for (uint32_t i = 0; i < first; ++i) {
        if (!whole && rng.chance(0.3)) continue;
        set.insert(i);
        twin.insert(i);
      }
      set.extend(first + more);
      twin.extend(first + more);
      expect_same(set, twin);
      for (uint32_t i = first; i < first + more; i += 1 + static_cast<uint32_t>(rng.below(3))) {
        ASSERT_EQ(set.insert(i), twin.insert(i));
      }
      expect_same(set, twin);
    }
  }
}

TEST(ReceivedSet, Snapshot_LargestMessage) {
  ReceivedSet set;
  set.reset(65535);
  for (uint32_t i = 0; i < 65535; ++i) set.insert(i);
  EXPECT_TRUE(set.all());
  EXPECT_EQ(set.snapshot().base, 65535);
  EXPECT_EQ(set.snapshot().word_count, 0);
}

TEST(WantedSet, PopLowest_RandomOperationsAgreeWithStdSet) {
  Rng rng(3);
  WantedSet set;
  uint64_t longest = 0;
  for (uint32_t operations = 0; operations < 50'000;) {
    const uint32_t size = kSizes[rng.below(std::size(kSizes))];
    set.reset(size);
    std::set<uint32_t> twin;
    for (int step = 0; step < 400; ++step, ++operations) {
      const auto index = static_cast<uint32_t>(rng.below(size));
      if (rng.chance(0.3)) {
        set.insert(index);
        twin.insert(index);
      } else if (rng.chance(0.3)) {
        PacketSet some;
        some.base = static_cast<uint16_t>(index);
        const uint32_t reach = std::min<uint32_t>(size - index, 64 * PacketSet::kWordsMax);
        const auto from = static_cast<uint32_t>(rng.below(reach));
        some.add(from, 1 + static_cast<uint32_t>(rng.below(std::min(reach - from, 20u))));
        set.insert(some);
        some.for_each([&](uint32_t i) { twin.insert(i); });
      } else if (!twin.empty()) {
        const auto count_max = static_cast<uint32_t>(1 + rng.below(70));
        const WantedSet::Run run = set.pop_lowest(count_max);
        ASSERT_EQ(run.first, *twin.begin());
        ASSERT_GE(run.count, 1u);
        ASSERT_LE(run.count, count_max);
        longest = std::max<uint64_t>(longest, run.count);
        for (uint32_t i = 0; i < run.count; ++i) ASSERT_EQ(twin.erase(run.first + i), 1u);
        // It ends where there is a reason.
        const uint32_t next = run.first + run.count;
        ASSERT_TRUE(run.count == count_max || next % 64 == 0 || twin.count(next) == 0)
            << run.first << " + " << run.count;
      }
      ASSERT_EQ(set.empty(), twin.empty());
      ASSERT_EQ(set.count(), twin.size());
    }
  }
  EXPECT_GT(longest, 10u);
}

TEST(WantedSet, Insert_BelowWhatWasPopped) {
  WantedSet set;
  set.reset(1000);
  set.insert(900);
  EXPECT_EQ(set.pop_lowest(9), (WantedSet::Run{900, 1}));
  set.insert(3);
  set.insert(4);
  set.insert(900);
  EXPECT_EQ(set.pop_lowest(9), (WantedSet::Run{3, 2}));
  EXPECT_EQ(set.pop_lowest(9), (WantedSet::Run{900, 1}));
  EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace skua::rpc
