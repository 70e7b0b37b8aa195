#include "rpc/transport/dpdk/driver_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace skua::rpc::dpdk {
namespace {

/// A polling thread that is inside a call until told to leave.
class Poller {
 public:
  Poller()
      : thread_([this] {
          watch_driver_calls();
          {
            const DriverCall call;
            inside_ = true;
            while (!leave_) std::this_thread::yield();
            left_ = true;
          }
          while (!end_) std::this_thread::yield();
        }) {
    while (!inside_) std::this_thread::yield();
  }
  ~Poller() {
    leave_ = end_ = true;
    thread_.join();
  }
  void leave() { leave_ = true; }
  [[nodiscard]] bool left() const { return left_; }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> leave_{false};
  std::atomic<bool> left_{false};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

TEST(WaitForDriverCalls, NobodyInside_ReturnsAtOnce) {
  watch_driver_calls();
  { const DriverCall call; }
  wait_for_driver_calls();
}

TEST(WaitForDriverCalls, SomebodyInside_WaitsUntilTheyLeft) {
  Poller first;
  Poller second;
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    wait_for_driver_calls();
    EXPECT_TRUE(first.left());
    EXPECT_TRUE(second.left());
    waited = true;
  });
  first.leave();
  while (!first.left()) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(waited);
  second.leave();
  waiter.join();
  EXPECT_TRUE(waited);
}

TEST(WaitForDriverCalls, EndedThread_IsNotWaitedFor) {
  std::thread([] {
    watch_driver_calls();
    const DriverCall call;
  }).join();
  wait_for_driver_calls();
}

}  // namespace
}  // namespace skua::rpc::dpdk
