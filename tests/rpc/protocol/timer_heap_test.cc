#include "rpc/protocol/timer_heap.h"

#include <gtest/gtest.h>

#include <map>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

TEST(TimerHeap, Next_EmptyIsNever) {
  TimerHeap timers;
  uint32_t id;
  EXPECT_EQ(timers.next(), kTimeNever);
  EXPECT_EQ(timers.when(12345), kTimeNever);
  EXPECT_FALSE(timers.pop_due(kTimeNever, id));
  timers.set(3, kTimeNever);  // cancelling what is not armed
  EXPECT_EQ(timers.next(), kTimeNever);
}

TEST(TimerHeap, PopDue_OnlyWhatIsDueEarliestFirst) {
  TimerHeap timers;
  timers.set(7, 30);
  timers.set(1, 10);
  timers.set(4, 20);
  uint32_t id;
  EXPECT_FALSE(timers.pop_due(9, id));
  ASSERT_TRUE(timers.pop_due(25, id));
  EXPECT_EQ(id, 1u);
  ASSERT_TRUE(timers.pop_due(25, id));
  EXPECT_EQ(id, 4u);
  EXPECT_FALSE(timers.pop_due(25, id));
  EXPECT_EQ(timers.next(), 30);
}

TEST(TimerHeap, SetEarlier_NeverPostpones) {
  TimerHeap timers;
  timers.set_earlier(1, 100);
  timers.set_earlier(1, 200);
  EXPECT_EQ(timers.when(1), 100);
  timers.set_earlier(1, 50);
  EXPECT_EQ(timers.when(1), 50);
  timers.set(1, 70);
  EXPECT_EQ(timers.when(1), 70);
}

TEST(TimerHeap, RandomOperations_AgreeWithMultimap) {
  Rng rng(1);
  TimerHeap timers;
  std::multimap<TimeNs, uint32_t> by_time;
  std::map<uint32_t, TimeNs> by_id;
  const auto disarm = [&](uint32_t id) {
    const auto [from, to] = by_time.equal_range(by_id[id]);
    for (auto it = from; it != to; ++it) {
      if (it->second == id) {
        by_time.erase(it);
        break;
      }
    }
    by_id.erase(id);
  };
  const auto arm = [&](uint32_t id, TimeNs when) {
    if (by_id.count(id) > 0) disarm(id);
    by_id[id] = when;
    by_time.emplace(when, id);
  };
  for (int i = 0; i < 200'000; ++i) {
    const auto id = static_cast<uint32_t>(rng.below(100));
    const auto when = static_cast<TimeNs>(rng.below(500));  // many equal times
    switch (rng.below(5)) {
      case 0:
      case 1:
        timers.set(id, when);
        arm(id, when);
        break;
      case 2:
        timers.set_earlier(id, when);
        if (by_id.count(id) == 0 || when < by_id[id]) arm(id, when);
        break;
      case 3:
        timers.set(id, kTimeNever);
        if (by_id.count(id) > 0) disarm(id);
        break;
      default: {
        const auto now = static_cast<TimeNs>(rng.below(100));
        uint32_t popped = 0;
        const bool due = timers.pop_due(now, popped);
        ASSERT_EQ(due, !by_time.empty() && by_time.begin()->first <= now);
        if (due) {
          ASSERT_EQ(by_id.at(popped), by_time.begin()->first);  // any of the earliest
          disarm(popped);
        }
      }
    }
    ASSERT_EQ(timers.when(id), by_id.count(id) > 0 ? by_id[id] : kTimeNever);
    ASSERT_EQ(timers.next(), by_time.empty() ? kTimeNever : by_time.begin()->first);
  }
}

}  // namespace
}  // namespace skua::rpc
