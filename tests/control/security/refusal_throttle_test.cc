#include "control/security/refusal_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::Pair;

TEST(RefusalThrottle, OneASecondAndSourceAndACountOfTheOthers) {
  RefusalThrottle throttle;
  EXPECT_THAT(throttle.admit("a", 0), Optional(0U));
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(throttle.admit("a", i * kMillisecond), std::nullopt);
  EXPECT_THAT(throttle.admit("b", 6 * kMillisecond), Optional(0U));
  EXPECT_THAT(throttle.admit("a", kSecond), Optional(5U));
  EXPECT_EQ(throttle.admit("a", kSecond + 1), std::nullopt);
  EXPECT_THAT(throttle.admit("a", 2 * kSecond), Optional(1U));
}

TEST(RefusalThrottle, TellsWhatWasLeftOutOfWhoIsSilent) {
  RefusalThrottle throttle;
  (void)throttle.admit("a", 0);
  (void)throttle.admit("a", 1);
  (void)throttle.admit("a", 2);
  (void)throttle.admit("b", 0);
  EXPECT_THAT(throttle.take_overdue(9 * kSecond), IsEmpty());
  EXPECT_THAT(throttle.take_overdue(11 * kSecond), ElementsAre(Pair("a", 2U)));
  EXPECT_THAT(throttle.take_overdue(30 * kSecond), IsEmpty());
  EXPECT_THAT(throttle.admit("a", 31 * kSecond), Optional(0U));
}

TEST(RefusalThrottle, AtTheEndAllIsTold) {
  RefusalThrottle throttle;
  (void)throttle.admit("a", kSecond);
  (void)throttle.admit("a", kSecond);
  EXPECT_THAT(throttle.take_overdue(kTimeNever), ElementsAre(Pair("a", 1U)));
}

TEST(RefusalThrottle, ManySourcesShareAPlace) {
  RefusalThrottle throttle;
  uint64_t admitted = 0;
  for (size_t i = 0; i < 10 * RefusalThrottle::kSourcesMax; ++i) {
    if (throttle.admit(absl::StrCat("source ", i), 0)) ++admitted;
  }
  EXPECT_EQ(admitted, RefusalThrottle::kSourcesMax + 1);
  EXPECT_THAT(throttle.take_overdue(kTimeNever),
              ElementsAre(Pair("further sources", 9 * RefusalThrottle::kSourcesMax - 1)));
}

}  // namespace
}  // namespace skua::control
