#include "rpc/base/wake_up.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace skua {
namespace {

TEST(WakeUpTest, Wait_ReturnsForAnEarlierSignal) {
  WakeUp wake_up;
  wake_up.signal();
  wake_up.signal();
  wake_up.wait();
}

TEST(WakeUpTest, PingPong_LosesNoSignal) {
  constexpr int kRounds = 20'000;
  WakeUp ping;
  WakeUp pong;
  int ball = 0;  // handed over by the signals; a data race if they did not order it
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      ping.wait();
      ++ball;
      pong.signal();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ++ball;
    ping.signal();
    pong.wait();
  }
  other.join();
  EXPECT_EQ(ball, 2 * kRounds);
}

TEST(WakeUpTest, ManySignallers_TheLastCountIsSeen) {
  constexpr int kEach = 20'000;
  WakeUp wake_up;
  std::atomic<int> count{0};
  std::thread signallers[2];
  for (std::thread& thread : signallers) {
    thread = std::thread([&] {
      for (int i = 0; i < kEach; ++i) {
        count.fetch_add(1, std::memory_order_relaxed);
        wake_up.signal();
      }
    });
  }
  while (count.load(std::memory_order_relaxed) < 2 * kEach) wake_up.wait();
  for (std::thread& thread : signallers) thread.join();
}

}  // namespace
}  // namespace skua
