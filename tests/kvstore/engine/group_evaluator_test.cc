#include "kvstore/engine/group_evaluator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/codec/limits.h"
#include "tests/kvstore/engine/engine_testing.h"

namespace skua::kv {
namespace {

using testing::MutationMaker;
using testing::TwinShard;

absl::Status nothing_there(std::string_view, GroupEvaluator::Current&) {
  return absl::OkStatus();
}

TEST(GroupEvaluatorTest, Evaluate_LaterSeeEarlier) {
  GroupEvaluator evaluator;
  const std::vector<Mutation> group = {
      Mutation::put("a", as_byte_span("1")),
      Mutation::put("b", as_byte_span("2"), Condition::if_absent()),
      Mutation::put("a", as_byte_span("3"), Condition::if_version(41)),
      Mutation::put("b", as_byte_span("4"), Condition::if_absent()),
      Mutation::remove("c"),
      Mutation::remove("b"),
      Mutation::put("b", as_byte_span("5"), Condition::if_version(42)),
  };
  std::vector<MutationResult> results(group.size());
  EXPECT_EQ(evaluator.evaluate(group, 40, nothing_there, results), 44U);
  const std::vector<MutationResult> expected = {
      {KvStatus::kOk, 41},
      {KvStatus::kOk, 42},
      {KvStatus::kOk, 43},
      {KvStatus::kAlreadyExists, 42},
      {KvStatus::kNotFound, 0},
      {KvStatus::kOk, 44},
      {KvStatus::kVersionMismatch, 0},
  };
  EXPECT_EQ(results, expected);

  std::vector<std::string> written;
  for (const auto& effect : evaluator.effects()) {
    if (effect.superseded) continue;
    written.push_back(std::string(effect.key) + "@" + std::to_string(effect.version) +
                      (effect.value ? "=" + std::string(as_string_view(*effect.value)) : " deleted"));
  }
  EXPECT_EQ(written, (std::vector<std::string>{"a@43=3", "b@44 deleted"}));
}

TEST(GroupEvaluatorTest, Evaluate_UnconditionalPutsReadNothing) {
  GroupEvaluator evaluator;
  const std::vector<Mutation> group = {Mutation::put("a", as_byte_span("1"))};
  std::vector<MutationResult> results(1);
  evaluator.evaluate(
      group, 0,
      [](std::string_view, GroupEvaluator::Current&) -> absl::Status {
        ADD_FAILURE() << "read";
        return absl::OkStatus();
      },
      results);
}

TEST(GroupEvaluatorTest, Evaluate_BadInputFailsItsMutationAlone) {
  GroupEvaluator evaluator;
  const std::string long_key(kKeyBytesMax + 1, 'k');
  const std::string large(kValueBytesMax + 1, 'v');
  const std::vector<Mutation> group = {
      Mutation::put("", as_byte_span("1")),     Mutation::put(long_key, as_byte_span("1")),
      Mutation::put("a", as_byte_span(large)),  Mutation::patch("a", as_byte_span("no row"), true),
      Mutation::put("good", as_byte_span("1")),
  };
  std::vector<MutationResult> results(group.size());
  EXPECT_EQ(evaluator.evaluate(group, 0, nothing_there, results), 1U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(results[i].status, KvStatus::kInvalidArgument) << i;
  EXPECT_EQ(results[4], (MutationResult{KvStatus::kOk, 1}));
}

TEST(GroupEvaluatorTest, Evaluate_FailedReadFailsItsMutationAlone) {
  GroupEvaluator evaluator;
  const std::vector<Mutation> group = {Mutation::remove("a"), Mutation::put("b", as_byte_span("1"))};
  std::vector<MutationResult> results(group.size());
  evaluator.evaluate(
      group, 0, [](std::string_view, GroupEvaluator::Current&) { return absl::DataLossError("bad block"); }, results);
  EXPECT_EQ(results[0], (MutationResult{KvStatus::kDataLoss, 0}));
  EXPECT_EQ(results[1], (MutationResult{KvStatus::kOk, 1}));
}

TEST(GroupEvaluatorTest, Evaluate_AgreesWithTwin) {
  MutationMaker maker(Rng(1));
  GroupEvaluator evaluator;
  TwinShard twin;                                             // applies one by one
  std::map<std::string, TwinShard::Row, std::less<>> stored;  // built from the effects
  uint64_t last_index = 0;
  for (int round = 0; round < 3000; ++round) {
    maker.clear();
    std::vector<Mutation> group;
    for (uint64_t n = maker.rng().between(1, 12); n > 0; --n) {
      group.push_back(maker.make([&](std::string_view key) {
        const auto* row = twin.find(key);
        return row == nullptr ? 0 : row->version;
      }));
    }
    std::vector<MutationResult> results(group.size());
    last_index = evaluator.evaluate(
        group, last_index,
        [&](std::string_view key, GroupEvaluator::Current& current) {
          const auto it = stored.find(key);
          if (it != stored.end()) current = {it->second.version, as_byte_span(it->second.value)};
          return absl::OkStatus();
        },
        results);
    for (size_t i = 0; i < group.size(); ++i) ASSERT_EQ(results[i], twin.apply(group[i])) << round;
    for (const auto& effect : evaluator.effects()) {
      if (effect.superseded) continue;
      if (effect.value) {
        stored[std::string(effect.key)] = {effect.version, std::string(as_string_view(*effect.value))};
      } else {
        stored.erase(std::string(effect.key));
      }
    }
    ASSERT_EQ(last_index, twin.last_index());
    ASSERT_EQ(stored.size(), twin.rows().size());
    for (const auto& [key, row] : twin.rows()) {
      ASSERT_EQ(stored[key].version, row.version) << key;
      ASSERT_EQ(stored[key].value, row.value) << key;
    }
  }
}

}  // namespace
}  // namespace skua::kv
