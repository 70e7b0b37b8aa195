#include "app/signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

namespace skua::app {
namespace {

TEST(Signals, WaitFor_NothingYet) {
  auto stop = StopSignal::install();
  ASSERT_TRUE(stop.ok()) << stop.status();
  EXPECT_EQ((*stop)->wait_for(0), std::nullopt);
  EXPECT_EQ((*stop)->wait_for(kMillisecond), std::nullopt);
}

TEST(Signals, Wait_SignalsAreDelivered) {
  for (const int signal : {SIGINT, SIGTERM}) {
    auto stop = StopSignal::install();
    ASSERT_TRUE(stop.ok()) << stop.status();
    kill(getpid(), signal);
    pollfd poll_fd{.fd = (*stop)->fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&poll_fd, 1, 10'000), 1);
    EXPECT_EQ((*stop)->wait(), signal);
    EXPECT_EQ((*stop)->wait_for(0), signal);
  }
}

TEST(Signals, RequestStop_EndsTheWaitFromAnotherThread) {
  auto stop = StopSignal::install();
  ASSERT_TRUE(stop.ok()) << stop.status();
  std::thread other([&] { (*stop)->request_stop(); });
  EXPECT_EQ((*stop)->wait(), 0);
  other.join();
}

TEST(Signals, Wait_RemindsUntilTheStop) {
  auto stop = StopSignal::install();
  ASSERT_TRUE(stop.ok()) << stop.status();
  int reminders = 0;
  EXPECT_EQ((*stop)->wait(kMillisecond,
                          [&] {
                            if (++reminders == 3) (*stop)->request_stop();
                          }),
            0);
  EXPECT_EQ(reminders, 3);
}

TEST(Signals, Install_BrokenPipeIsAnErrorCode) {
  auto stop = StopSignal::install();
  ASSERT_TRUE(stop.ok()) << stop.status();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(SignalsDeathTest, Wait_SecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        auto stop = StopSignal::install();
        kill(getpid(), SIGTERM);
        (*stop)->wait();
        kill(getpid(), SIGTERM);
        for (;;) pause();
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace skua::app
