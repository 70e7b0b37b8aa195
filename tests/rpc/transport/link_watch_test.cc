#include "rpc/transport/link_watch.h"

#include <gtest/gtest.h>

namespace skua::rpc {
namespace {

TEST(LinkWatch, Up_NothingIsDue) {
  LinkWatch watch;
  for (TimeNs now = 1; now < 10 * kSecond; now += 100 * kMillisecond) {
    const LinkWatch::Due due = watch.look(true, now);
    EXPECT_FALSE(due.restart || due.complaint || watch.is_down());
  }
}

TEST(LinkWatch, Down_RestartsAndComplaintsHaveTheirDistances) {
  LinkWatch watch;
  int restarts = 0;
  int complaints = 0;
  // Looks come every 20 ms; the first one sees the link go down.
  for (int look = 0; look <= 100; ++look) {
    const TimeNs now = kSecond + look * 20 * kMillisecond;
    const LinkWatch::Due due = watch.look(false, now);
    EXPECT_TRUE(watch.is_down());
    EXPECT_EQ(watch.down_ns(now), look * 20 * kMillisecond);
    restarts += due.restart ? 1 : 0;
    complaints += due.complaint ? 1 : 0;
    EXPECT_EQ(restarts, look * 20 / 200) << look;
    EXPECT_EQ(complaints, look * 20 / 500) << look;
  }
}

TEST(LinkWatch, Down_APortThatARestartDoesNotHelpIsLeftAlone) {
  LinkWatch watch;
  int complaints = 0;
  for (TimeNs now = kSecond; now <= 11 * kSecond; now += 20 * kMillisecond) {
    const LinkWatch::Due due = watch.look(false, now, false);
    EXPECT_FALSE(due.restart);
    complaints += due.complaint ? 1 : 0;
  }
  EXPECT_GT(complaints, 10);
}

TEST(LinkWatch, ShortFlap_BeginsAnew) {
  LinkWatch watch;
  TimeNs now = kSecond;
  for (int flap = 0; flap < 10; ++flap) {
    for (int look = 0; look < 5; ++look, now += 30 * kMillisecond) {
      const LinkWatch::Due due = watch.look(false, now);
      EXPECT_FALSE(due.restart || due.complaint);
    }
    const LinkWatch::Due due = watch.look(true, now);
    EXPECT_FALSE(due.restart || due.complaint || watch.is_down());
  }
}

}  // namespace
}  // namespace skua::rpc
