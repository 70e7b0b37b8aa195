#include "kvstore/types/pinned_value.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

void count_release(void* owner) {
  ++*static_cast<int*>(owner);
}

TEST(PinnedValueTest, ReleasesOnce_OnDestructionMoveAndReset) {
  int released = 0;
  {
    PinnedValue value(as_byte_span("bytes"), 7, &released, count_release);
    EXPECT_EQ(as_string_view(value.bytes()), "bytes");
    EXPECT_EQ(value.version(), 7U);
    PinnedValue moved = std::move(value);
    EXPECT_EQ(moved.version(), 7U);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);

  PinnedValue target(as_byte_span("old"), 1, &released, count_release);
  target = PinnedValue(as_byte_span("new"), 2, &released, count_release);
  EXPECT_EQ(released, 2);
  EXPECT_EQ(as_string_view(target.bytes()), "new");
  target.reset();
  target.reset();
  EXPECT_EQ(released, 3);
  EXPECT_TRUE(target.bytes().empty());
}

TEST(PinnedValueTest, Detach_HandsTheDutyOver) {
  int released = 0;
  PinnedValue::Pin pin{};
  {
    PinnedValue value(as_byte_span("bytes"), 7, &released, count_release);
    pin = value.detach();
    EXPECT_TRUE(value.bytes().empty());
  }
  EXPECT_EQ(released, 0);
  pin.release(pin.owner);
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace skua::kv
