#include "rpc/base/line_pace.h"

#include <gtest/gtest.h>

namespace skua {
namespace {

TEST(LinePace, TheFirstEventIsToldAtOnce_FurtherOnesOnceASecond) {
  LinePace pace;
  const TimeNs start = 100 * kSecond;
  EXPECT_EQ(pace.due_ns(), kTimeNever);
  EXPECT_EQ(pace.note(start), 1u);
  EXPECT_EQ(pace.due_ns(), kTimeNever);
  for (int i = 1; i <= 500; ++i) EXPECT_EQ(pace.note(start + i * kMillisecond), std::nullopt);
  EXPECT_EQ(pace.note(start + kSecond), 501u);
  EXPECT_EQ(pace.note(start + 60 * kSecond), 1u);
}

TEST(LinePace, TheLastEventsAreToldWhenTheLineIsDue) {
  LinePace pace;
  const TimeNs start = 100 * kSecond;
  EXPECT_EQ(pace.note(start), 1u);
  EXPECT_EQ(pace.note(start + 1), std::nullopt);
  EXPECT_EQ(pace.note(start + 2), std::nullopt);
  EXPECT_EQ(pace.due_ns(), start + kSecond);
  EXPECT_EQ(pace.take(start + kSecond - 1), std::nullopt);
  EXPECT_EQ(pace.take(start + kSecond), 2u);
  EXPECT_EQ(pace.take(start + 2 * kSecond), std::nullopt);
}

}  // namespace
}  // namespace skua
