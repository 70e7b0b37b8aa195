#include "kvstore/engine/evaluate.h"

#include <gtest/gtest.h>

#include "kvstore/codec/limits.h"
#include "tests/kvstore/engine/engine_testing.h"

namespace skua::kv {
namespace {

using testing::MutationMaker;
using testing::TwinShard;

TEST(Evaluate, NeedsCurrent_AllButUnconditionalPuts) {
  EXPECT_FALSE(needs_current(Mutation::put("k", {})));
  EXPECT_TRUE(needs_current(Mutation::put("k", {}, Condition::if_absent())));
  EXPECT_TRUE(needs_current(Mutation::remove("k")));
  EXPECT_TRUE(needs_current(Mutation::patch("k", {}, true)));
}

TEST(Evaluate, Evaluate_RefusesWhatIsOutsideOfTheLimits) {
  std::string scratch;
  EXPECT_EQ(evaluate(Mutation::put("", {}), {}, scratch).result.status, KvStatus::kInvalidArgument);
  EXPECT_EQ(evaluate(Mutation::put(std::string(kKeyBytesMax + 1, 'k'), {}), {}, scratch).result.status,
            KvStatus::kInvalidArgument);
}

TEST(Evaluate, Evaluate_AgreesWithTwin) {
  TwinShard twin;
  MutationMaker maker(Rng(3));
  std::string scratch;
  for (int i = 0; i < 20'000; ++i) {
    maker.clear();
    const Mutation mutation = maker.make([&](std::string_view key) {
      const auto* row = twin.find(key);
      return row == nullptr ? uint64_t{1} : row->version;
    });
    CurrentState current;
    const TwinShard::Row* row = twin.find(mutation.key);
    const TwinShard::Row before = row == nullptr ? TwinShard::Row{} : *row;
    if (row != nullptr) current = {before.version, as_byte_span(before.value)};
    Evaluated evaluated = evaluate(mutation, current, scratch);
    if (evaluated.result.status == KvStatus::kOk) evaluated.result.version = twin.last_index() + 1;
    ASSERT_EQ(evaluated.result, twin.apply(mutation));
    if (evaluated.result.status != KvStatus::kOk) continue;
    const TwinShard::Row* after = twin.find(mutation.key);
    ASSERT_EQ(evaluated.value.has_value(), after != nullptr);
    if (after != nullptr) {
      ASSERT_EQ(as_string_view(*evaluated.value), after->value);
    }
  }
}

}  // namespace
}  // namespace skua::kv
