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
  EXPECT_EQ(budget.may_take(1, 1000, 5), 1u);
  budget.take(1, 1000);
  EXPECT_EQ(budget.may_take(1, 1000, 5), 1u);
  budget.take(1, 1000);
  EXPECT_EQ(budget.may_take(1, 1000, 5), 0u);
  budget.give(1, 1000);
  EXPECT_EQ(budget.may_take(1, 1000, 5), 1u);
  budget.give(1, 1000);
  EXPECT_EQ(budget.packets_out(), 0u);
  EXPECT_EQ(budget.bytes_out(), 0u);
}

TEST(ReceiveBudget, Take_UpToBytes) {
  ReceiveBudget budget(1000, 3000);
  for (int i = 0; i < 3; ++i) budget.take(1, 1000);
  EXPECT_EQ(budget.may_take(1, 1000, 3), 0u);
  budget.give(3, 1000);
}

TEST(ReceiveBudget, MayTake_AsManyAsFit) {
  ReceiveBudget by_packets(5, 1'000'000);
  EXPECT_EQ(by_packets.may_take(7, 1000, 0), 5u);
  EXPECT_EQ(by_packets.may_take(3, 1000, 0), 3u);
  // The last one may reach over the end, as one at a time would.
  ReceiveBudget by_bytes(1000, 2500);
  EXPECT_EQ(by_bytes.may_take(7, 1000, 0), 3u);
  by_bytes.take(2, 1000);
  EXPECT_EQ(by_bytes.may_take(7, 1000, 2), 1u);
  by_bytes.give(2, 1000);
}

TEST(ReceiveBudget, Floor_OneForWhoHasNone) {
  ReceiveBudget budget(0, 0);
  EXPECT_EQ(budget.may_take(7, 1000, 0), 1u);
  budget.take(1, 1000);
  EXPECT_EQ(budget.may_take(7, 1000, 1), 0u);
  EXPECT_EQ(budget.may_take(7, 1000, 0), 1u);
  budget.give(1, 1000);
}

TEST(ReceiveBudget, Give_WakesInOrderAsManyAsCameBack) {
  std::vector<int> log;
  ReceiveBudget budget(4, 1'000'000);
  Recorder a(log, 1), b(log, 2), c(log, 3);
  for (int i = 0; i < 4; ++i) budget.take(1, 10);
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
  for (int i = 0; i < 5; ++i) budget.take(1, 10);
  budget.wait(a);
  budget.give(3, 10);
  EXPECT_TRUE(log.empty());
  budget.give(1, 10);
  EXPECT_EQ(log, std::vector<int>{1});
  budget.give(1, 10);
}

}  // namespace
}  // namespace skua::rpc
