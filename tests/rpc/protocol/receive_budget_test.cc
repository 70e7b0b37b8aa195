#include "rpc/protocol/receive_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace skua::rpc {
namespace {

struct Recorder final : ReceiveBudget::Waiter {
  Recorder(std::vector<int>& log, int id) : log(log), id(id) {}
  void on_budget_room() override { log.push_back(id); }
  std::vector<int>& log;
  int id;
};

TEST(ReceiveBudget, Take_UpToPackets) {
  ReceiveBudget budget(2, 1'000'000);
  EXPECT_TRUE(budget.may_take(5));
  budget.take(1000);
  EXPECT_TRUE(budget.may_take(5));
  budget.take(1000);
  EXPECT_FALSE(budget.may_take(5));
  budget.give(1, 1000);
  EXPECT_TRUE(budget.may_take(5));
  budget.give(1, 1000);
  EXPECT_EQ(budget.packets_out(), 0u);
  EXPECT_EQ(budget.bytes_out(), 0u);
}

TEST(ReceiveBudget, Take_UpToBytes) {
  ReceiveBudget budget(1000, 3000);
  for (int i = 0; i < 3; ++i) budget.take(1000);
  EXPECT_FALSE(budget.may_take(3));
  budget.give(3, 1000);
}

TEST(ReceiveBudget, Floor_OneForWhoHasNone) {
  ReceiveBudget budget(0, 0);
  EXPECT_TRUE(budget.may_take(0));
  budget.take(1000);
  EXPECT_FALSE(budget.may_take(1));
  EXPECT_TRUE(budget.may_take(0));
  budget.give(1, 1000);
}

TEST(ReceiveBudget, Give_WakesInOrderAsManyAsCameBack) {
  std::vector<int> log;
  ReceiveBudget budget(4, 1'000'000);
  Recorder a(log, 1), b(log, 2), c(log, 3);
  for (int i = 0; i < 4; ++i) budget.take(10);
  budget.wait(a);
  budget.wait(b);
  budget.wait(a);  // is in line already
  budget.wait(c);
  budget.give(2, 10);
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
  budget.give(2, 10);
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
}

TEST(ReceiveBudget, Give_WakesNobodyWhileFloorsExceedIt) {
  std::vector<int> log;
  ReceiveBudget budget(2, 1'000'000);
  Recorder a(log, 1);
  for (int i = 0; i < 5; ++i) budget.take(10);
  budget.wait(a);
  budget.give(3, 10);
  EXPECT_TRUE(log.empty());
  budget.give(1, 10);
  EXPECT_EQ(log, std::vector<int>{1});
  budget.give(1, 10);
}

}  // namespace
}  // namespace skua::rpc
