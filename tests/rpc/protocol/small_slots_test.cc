#include "rpc/protocol/small_slots.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

class SmallSlotsTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  SmallSlotsTest() { hot_.mask = static_cast<uint16_t>(GetParam() - 1); }
  SessionHot hot_;
  SmallSlots slots_;
};

TEST_P(SmallSlotsTest, Make_AWindowOfFreeSlotsNumberedBeforeTheFirst) {
  EXPECT_FALSE(slots_.exists());
  EXPECT_FALSE(hot_.has_free_slot()) << "none are made yet";
  slots_.make(hot_);
  EXPECT_TRUE(slots_.exists());
  std::set<uint32_t> taken;
  for (uint32_t i = 0; i < GetParam(); ++i) {
    ASSERT_TRUE(hot_.has_free_slot());
    const uint32_t index = hot_.take_slot(ClientSlot::State::kLarge);
    EXPECT_TRUE(taken.insert(index).second);
    EXPECT_EQ(hot_.client[index].req_num, index) << "a first number is the sslot's index";
    EXPECT_EQ(hot_.client[index].state, ClientSlot::State::kLarge);
    EXPECT_EQ(hot_.server()[index].state, ServerSlot::State::kIdle);
    EXPECT_EQ(static_cast<int32_t>(index - hot_.server()[index].req_num), static_cast<int32_t>(GetParam()))
        << "which the peer takes for new";
  }
  EXPECT_FALSE(hot_.has_free_slot());
}

TEST_P(SmallSlotsTest, Numbers_RiseByTheWindowWithEachUse) {
  slots_.make(hot_);
  Rng rng(3);
  std::vector<uint32_t> next(GetParam());
  for (uint32_t i = 0; i < GetParam(); ++i) next[i] = i;
  std::vector<uint32_t> taken;
  for (int i = 0; i < 10'000; ++i) {
    if (!taken.empty() && (!hot_.has_free_slot() || rng.chance(0.5))) {
      const size_t which = rng.below(taken.size());
      hot_.free_slot(taken[which]);
      EXPECT_EQ(hot_.client[taken[which]].state, ClientSlot::State::kFree);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const uint32_t index = hot_.take_slot(ClientSlot::State::kLarge);
      ASSERT_EQ(hot_.client[index].req_num, next[index]);
      next[index] += GetParam();
      taken.push_back(index);
    }
    ASSERT_EQ(hot_.has_free_slot(), taken.size() < GetParam());
  }
}

TEST_P(SmallSlotsTest, Clear_LetsGoOfWhatTheSlotsHold) {
  MessagePool pool(4);
  slots_.make(hot_);
  hot_.client[0].request.message = pool.make().leak();
  hot_.server()[GetParam() - 1].response.message = pool.make().leak();
  bool was_kept = false;
  hot_.client[0].completion = [lease = std::make_shared<bool>(true), &was_kept](CallOutcome&&) { was_kept = *lease; };
  EXPECT_EQ(pool.outstanding_count(), 2u);
  slots_.clear();
  EXPECT_EQ(pool.outstanding_count(), 0u);
  EXPECT_FALSE(slots_.exists());
  EXPECT_EQ(hot_.client, nullptr);
  EXPECT_FALSE(hot_.has_free_slot());
  slots_.clear();  // nothing is left
  slots_.make(hot_);
  EXPECT_TRUE(hot_.has_free_slot());
  EXPECT_EQ(hot_.client[0].req_num, 0u - GetParam());
}

INSTANTIATE_TEST_SUITE_P(Windows, SmallSlotsTest, ::testing::Values(1u, 2u, 64u, 1024u));

TEST(SessionHot, Hinder_OneDoesNotTouchTheOthers) {
  SessionHot hot;
  EXPECT_NE(hot.hindrances & SessionHot::kClosed, 0) << "a new one is hindered";
  hot.hindrances = 0;
  hot.hinder(SessionHot::kQuiet, true);
  hot.hinder(SessionHot::kBusy, true);
  hot.hinder(SessionHot::kBusy, true);
  EXPECT_EQ(hot.hindrances, SessionHot::kQuiet | SessionHot::kBusy);
  hot.hinder(SessionHot::kBusy, false);
  EXPECT_EQ(hot.hindrances, SessionHot::kQuiet);
}

}  // namespace
}  // namespace skua::rpc
