#include "kvstore/types/task_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace skua::kv {
namespace {

TEST(TaskThread, RunsTasksInOrder) {
  std::vector<int> ran;
  TaskThread thread({.queue_max = 1000});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(thread.submit([&ran, i] { ran.push_back(i); }));
  }
  thread.stop();
  ASSERT_EQ(ran.size(), 1000U) << "those that waited when it was stopped, too";
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

TEST(TaskThread, RefusesMoreThanMayWait_AndAllOnceStopped) {
  std::promise<void> gate;
  std::promise<void> started;
  TaskThread thread({.queue_max = 2});
  ASSERT_TRUE(thread.submit([&] {
    started.set_value();
    gate.get_future().wait();
  }));
  started.get_future().wait();
  EXPECT_TRUE(thread.submit([] {}));
  EXPECT_TRUE(thread.submit([] {}));
  bool ran = false;
  EXPECT_FALSE(thread.submit([&ran] { ran = true; }));
  gate.set_value();
  thread.stop();
  EXPECT_FALSE(thread.submit([&ran] { ran = true; }));
  thread.stop();
  EXPECT_FALSE(ran);
}

TEST(TaskThread, DoesItsWorkAtIntervals_BetweenTasksToo) {
  std::promise<void> twice;
  int times = 0;
  std::promise<void> gate;
  TaskThread thread({.at_intervals =
                         [&] {
                           if (++times == 2) twice.set_value();
                         },
                     .interval_ns = kMillisecond});
  EXPECT_TRUE(thread.submit([&] { gate.get_future().wait(); }));
  gate.set_value();
  twice.get_future().wait();
  thread.stop();
  EXPECT_GE(times, 2);
}

}  // namespace
}  // namespace skua::kv
