#include "tests/kvstore/replication/linearizability.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rpc/base/rng.h"

namespace skua::kv::sim {
namespace {

constexpr uint64_t kNever = HistoryOp::kNever;

HistoryOp put(int64_t value, uint64_t called, uint64_t answered) {
  return {OpKind::kPut, value, 0, called, answered, 0};
}
HistoryOp get(int64_t value, uint64_t called, uint64_t answered) {
  return {OpKind::kGet, 0, 0, called, answered, value};
}
HistoryOp add(int64_t by, int64_t sum, uint64_t called, uint64_t answered) {
  return {OpKind::kAdd, by, 0, called, answered, sum};
}
HistoryOp cas(int64_t expected, int64_t value, bool done, uint64_t called, uint64_t answered) {
  return {OpKind::kCas, value, expected, called, answered, done ? 1 : 0};
}

TEST(Linearizability, OneAfterTheOther) {
  EXPECT_EQ(check_linearizable({}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({put(5, 1, 2), get(5, 3, 4), add(2, 7, 5, 6), get(7, 7, 8)}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({put(5, 1, 2), get(0, 3, 4)}), Linearizable::kNo);
  EXPECT_EQ(check_linearizable({get(1, 1, 2)}), Linearizable::kNo);
}

TEST(Linearizability, OverlappingMayGoEitherWay) {
  EXPECT_EQ(check_linearizable({put(5, 1, 4), get(0, 2, 3)}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({put(5, 1, 4), get(5, 2, 3)}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({put(1, 1, 10), put(2, 2, 9), get(1, 3, 4), get(2, 5, 6)}), Linearizable::kYes);
}

TEST(Linearizability, ReadsDoNotGoBack) {
  size_t culprit = 0;
  EXPECT_EQ(check_linearizable({put(5, 1, 10), get(5, 2, 3), get(0, 4, 5)}, &culprit), Linearizable::kNo);
  EXPECT_EQ(culprit, 2U);
  EXPECT_EQ(check_linearizable({put(1, 1, 20), put(2, 2, 19), get(1, 3, 4), get(2, 5, 6), get(1, 7, 8)}),
            Linearizable::kNo);
}

TEST(Linearizability, UnansweredMayHaveTakenPlaceOrNot) {
  EXPECT_EQ(check_linearizable({put(5, 1, kNever), get(0, 2, 3), get(5, 4, 5)}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({put(5, 1, kNever), get(0, 2, 3), get(0, 4, 5)}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({put(5, 1, kNever), get(5, 2, 3), get(0, 4, 5)}), Linearizable::kNo);
  EXPECT_EQ(check_linearizable({put(5, 3, kNever), get(5, 1, 2)}), Linearizable::kNo);
  EXPECT_EQ(check_linearizable({add(1, 0, 1, kNever), get(1, 2, 3), get(2, 4, 5)}), Linearizable::kNo);
}

TEST(Linearizability, CountersAreExact) {
  EXPECT_EQ(check_linearizable({add(1, 1, 1, 4), add(1, 2, 2, 3)}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({add(1, 1, 1, 4), add(1, 1, 2, 3)}), Linearizable::kNo);
  EXPECT_EQ(check_linearizable({add(1, 1, 1, 2), get(2, 3, 4)}), Linearizable::kNo) << "executed twice";
  EXPECT_EQ(check_linearizable({add(1, 1, 1, 2), get(0, 3, 4)}), Linearizable::kNo) << "lost";
}

TEST(Linearizability, Conditions) {
  EXPECT_EQ(check_linearizable({cas(0, 3, true, 1, 2), cas(0, 4, false, 3, 4), get(3, 5, 6)}), Linearizable::kYes);
  EXPECT_EQ(check_linearizable({cas(0, 3, true, 1, 4), cas(0, 4, true, 2, 3)}), Linearizable::kNo);
  EXPECT_EQ(check_linearizable({put(3, 1, 2), cas(3, 4, false, 3, 4)}), Linearizable::kNo);
  EXPECT_EQ(check_linearizable({put(3, 1, 2), cas(3, 4, false, 3, kNever), get(4, 5, 6)}), Linearizable::kYes);
}

/// Histories made from an order in which everything does take effect are accepted; with one result changed to what was
/// never there they are not.
TEST(Linearizability, RandomHistories) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    std::vector<HistoryOp> history;
    int64_t value = 0;
    for (uint64_t i = 1; i <= 300; ++i) {
      const uint64_t effect = i * 1000;  // operations overlap with a few neighbours
      HistoryOp op;
      op.called = effect - 1 - rng.below(3000) * 2 % (effect - 1);
      op.answered = effect + 1 + rng.below(3000);
      op.argument = static_cast<int64_t>(rng.below(5));
      op.expected = value + static_cast<int64_t>(rng.below(2));
      switch (rng.below(4)) {
        case 0: op.kind = OpKind::kPut, value = op.argument; break;
        case 1: op.kind = OpKind::kGet, op.result = value; break;
        case 2: op.kind = OpKind::kAdd, value += op.argument, op.result = value; break;
        default:
          op.kind = OpKind::kCas;
          op.result = value == op.expected ? 1 : 0;
          if (op.result == 1) value = op.argument;
      }
      if (op.kind != OpKind::kGet && rng.chance(0.01)) op.answered = kNever;
      history.push_back(op);
    }
    ASSERT_EQ(check_linearizable(history), Linearizable::kYes) << seed;
    const auto read =
        std::find_if(history.begin() + 100, history.end(), [](const HistoryOp& op) { return op.kind == OpKind::kGet; });
    ASSERT_NE(read, history.end());
    read->result = -1;
    ASSERT_EQ(check_linearizable(history), Linearizable::kNo) << seed;
  }
}

}  // namespace
}  // namespace skua::kv::sim
