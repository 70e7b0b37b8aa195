#include "kvstore/shard/evaluate.h"

#include <gtest/gtest.h>

#include "kvstore/codec/size_limits.h"
#include "tests/kvstore/shard/engine_testing.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::MutationMaker;
using testing::TwinShard;

TEST(Evaluate, NeedsCurrent_AllButUnconditionalPuts) {
  EXPECT_FALSE(needs_current(mutations::put("k", {})));
  EXPECT_TRUE(needs_current(mutations::put("k", {}, Condition::if_absent())));
  EXPECT_TRUE(needs_current(mutations::put("k", {}, Condition::if_present())));
  EXPECT_TRUE(needs_current(mutations::put_keeping_ttl("k", {})));
  EXPECT_TRUE(needs_current(mutations::remove("k")));
  EXPECT_TRUE(needs_current(mutations::patch("k", {}, true)));
}

TEST(Evaluate, Evaluate_RefusesWhatIsOutsideOfTheLimits) {
  std::string scratch;
  EXPECT_EQ(evaluate(mutations::put("", {}), {}, 0, scratch).result.status, KvStatus::kInvalidArgument);
  EXPECT_EQ(evaluate(mutations::put(std::string(kKeyBytesMax + 1, 'k'), {}), {}, 0, scratch).result.status,
            KvStatus::kInvalidArgument);
}

TEST(Evaluate, Add_CountsInDecimalAndRefusesWhatIsNone) {
  std::string scratch;
  const auto add = [&](std::string_view value, int64_t delta) {
    const Evaluated evaluated = evaluate(mutations::add("k", delta), {7, as_byte_span(value), 99}, 1, scratch);
    if (evaluated.result.status == KvStatus::kOk) {
      EXPECT_EQ(as_string_view(*evaluated.value), std::to_string(evaluated.result.value));
      EXPECT_EQ(evaluated.expires_at, 99u) << "the expiry stays";
    }
    return evaluated.result;
  };
  EXPECT_EQ(add("41", 1), (MutationResult{KvStatus::kOk, 0, 42}));
  EXPECT_EQ(add("-9223372036854775808", 1).value, INT64_MIN + 1);
  EXPECT_EQ(add("9223372036854775807", 1), (MutationResult{KvStatus::kCounterOverflow, 7}));
  EXPECT_EQ(add("-9223372036854775808", -1), (MutationResult{KvStatus::kCounterOverflow, 7}));
  for (const char* none : {"", "x", "1x", " 1", "1 ", "+1", "007", "-0", "9223372036854775808", "1.0"}) {
    EXPECT_EQ(add(none, 1), (MutationResult{KvStatus::kNotANumber, 7})) << none;
  }
  EXPECT_EQ(evaluate(mutations::add("k", 5), {}, 0, scratch).result.value, 5);
}

TEST(Evaluate, Append_IsBounded) {
  std::string scratch;
  const std::string large(kValueBytesMax - 1, 'x');
  EXPECT_EQ(evaluate(mutations::append("k", as_byte_span("y")), {1, as_byte_span(large)}, 0, scratch).value->size(),
            kValueBytesMax);
  EXPECT_EQ(evaluate(mutations::append("k", as_byte_span("yz")), {1, as_byte_span(large)}, 0, scratch).result,
            (MutationResult{KvStatus::kInvalidArgument, 1}));
}

TEST(Evaluate, Put_KeepsTheTimeToLiveIfAsked) {
  std::string scratch;
  const CurrentState current = {5, as_byte_span("old"), 100};
  const Mutation put = mutations::put_keeping_ttl("k", as_byte_span("new"));
  EXPECT_EQ(evaluate(put, current, 99, scratch).expires_at, 100u);
  EXPECT_EQ(as_string_view(*evaluate(put, current, 99, scratch).value), "new");
  EXPECT_EQ(evaluate(put, current, 100, scratch).expires_at, 0u) << "a new key does not expire";
  EXPECT_EQ(evaluate(put, {}, 1, scratch).expires_at, 0u);
}

TEST(Evaluate, Mark_IsSetByPutsAndKeptByTheOthers) {
  std::string scratch;
  std::string fields;
  append_field(fields, {"f", as_byte_span("v")});
  const RecordMark mark = {7, true};
  const CurrentState counter = {5, as_byte_span("7"), 0, mark};
  const CurrentState row = {5, as_byte_span(fields), 0, mark};
  EXPECT_EQ(evaluate(mutations::put("k", {}), counter, 1, scratch).mark, RecordMark());
  Mutation put = mutations::put_keeping_ttl("k", {});
  put.mark = {1, false};
  EXPECT_EQ(evaluate(put, counter, 1, scratch).mark, (RecordMark{1, false}));
  EXPECT_EQ(evaluate(mutations::add("k", 1), counter, 1, scratch).mark, mark);
  const CurrentState text = {5, as_byte_span("7"), 0, {7, false}};
  EXPECT_EQ(evaluate(mutations::append("k", {}), text, 1, scratch).mark, (RecordMark{7, false}));
  EXPECT_EQ(evaluate(mutations::expire("k", 1), counter, 1, scratch).mark, mark);
  EXPECT_EQ(evaluate(mutations::patch("k", as_byte_span(fields), false), row, 1, scratch).mark, mark);
  EXPECT_EQ(evaluate(mutations::add("k", 1), {}, 1, scratch).mark, RecordMark());
}

TEST(Evaluate, Patch_OfRowsOnlyTakesWhatIsMarked) {
  std::string scratch;
  std::string fields;
  append_field(fields, {"f", as_byte_span("v")});
  Mutation patch = mutations::patch("k", as_byte_span(fields), true);
  patch.mark.row = true;
  EXPECT_EQ(evaluate(patch, {}, 1, scratch).mark, (RecordMark{0, true}));
  EXPECT_EQ(evaluate(patch, {5, as_byte_span(fields), 0, {3, true}}, 1, scratch).mark, (RecordMark{3, true}));
  EXPECT_EQ(evaluate(patch, {5, as_byte_span(fields), 0, {3, false}}, 1, scratch).result,
            (MutationResult{KvStatus::kNotARow, 5}));
}

TEST(Evaluate, Edit_CountsAndTakesTheKeyWithTheLastField) {
  std::string scratch;
  std::string fields;
  append_field(fields, {"f", as_byte_span("v")});
  append_field(fields, {"g", as_byte_span("w")});
  const CurrentState row = {5, as_byte_span(fields), 99, {3, true}};
  std::string remove_f;
  append_field(remove_f, {.name = "f", .is_removed = true});
  const Evaluated one = evaluate(mutations::edit("k", as_byte_span(remove_f), false), row, 1, scratch);
  EXPECT_EQ(one.result, (MutationResult{KvStatus::kOk, 0, PatchCounts{0, 1, 1}.word()}));
  EXPECT_EQ(one.expires_at, 99u);
  EXPECT_EQ(one.mark, (RecordMark{3, true}));
  EXPECT_EQ(as_string_view(*find_field(*one.value, "g")), "w");
  std::string remove_all = remove_f;
  append_field(remove_all, {.name = "g", .is_removed = true});
  const Evaluated all = evaluate(mutations::edit("k", as_byte_span(remove_all), true), row, 1, scratch);
  EXPECT_EQ(all.result, (MutationResult{KvStatus::kOk, 0, PatchCounts{0, 2, 0}.word()}));
  EXPECT_FALSE(all.value.has_value());
  const Evaluated made = evaluate(mutations::edit("k", as_byte_span(fields), true), {}, 1, scratch);
  EXPECT_EQ(made.result.value, (PatchCounts{2, 0, 2}.word()));
}

TEST(Evaluate, Edit_ThatChangesNothingHasNoEffect) {
  std::string scratch;
  std::string fields;
  append_field(fields, {"f", as_byte_span("v")});
  const CurrentState row = {5, as_byte_span(fields), 0, {0, true}};
  std::string edit;
  append_field(edit, {.name = "none", .is_removed = true});
  const Evaluated none = evaluate(mutations::edit("k", as_byte_span(edit), true), row, 1, scratch);
  EXPECT_TRUE(none.is_unchanged);
  EXPECT_EQ(none.result, (MutationResult{KvStatus::kOk, 5, PatchCounts{0, 0, 1}.word()}));
  for (const bool creates : {false, true}) {
    EXPECT_EQ(evaluate(mutations::edit("k", as_byte_span(edit), creates), {}, 1, scratch).result.status,
              KvStatus::kNotFound);
  }
  Mutation marked = mutations::edit("k", as_byte_span(edit), true);
  marked.mark.row = true;
  EXPECT_EQ(evaluate(marked, {5, as_byte_span(fields), 0, {}}, 1, scratch).result.status, KvStatus::kNotARow);
}

TEST(Evaluate, Edit_BeyondTheLimitsSaysWhich) {
  std::string scratch;
  std::string fields;
  for (size_t i = 0; i < kFieldsMax; ++i) append_field(fields, {std::to_string(i), {}});
  std::string edit;
  append_field(edit, {"f", as_byte_span("v")});
  const Evaluated evaluated =
      evaluate(mutations::edit("k", as_byte_span(edit), true), {5, as_byte_span(fields), 0, {}}, 1, scratch);
  EXPECT_EQ(evaluated.result, (MutationResult{KvStatus::kInvalidArgument, 5}));
  EXPECT_NE(evaluated.why.find("1,024"), std::string_view::npos);
}

TEST(Evaluate, Append_LeavesRowsAlone) {
  std::string scratch;
  std::string fields;
  append_field(fields, {"f", as_byte_span("v")});
  const Mutation append = mutations::append("k", as_byte_span(fields));
  EXPECT_EQ(evaluate(append, {5, as_byte_span(fields), 0, {3, true}}, 1, scratch).result,
            (MutationResult{KvStatus::kIsARow, 5}));
  EXPECT_EQ(evaluate(append, {5, as_byte_span(fields), 0, {3, false}}, 1, scratch).result.status, KvStatus::kOk);
  EXPECT_EQ(evaluate(append, {5, as_byte_span(fields), 1, {3, true}}, 1, scratch).mark, RecordMark()) << "it expired";
}

TEST(Evaluate, IfPresent_WritesOnlyWhatIsThere) {
  std::string scratch;
  const CurrentState current = {5, as_byte_span("7"), 100};
  for (const Mutation& mutation :
       {mutations::put("k", {}, Condition::if_present()), mutations::add("k", 1, Condition::if_present()),
        mutations::append("k", {}, Condition::if_present()), mutations::remove("k", Condition::if_present())}) {
    EXPECT_EQ(evaluate(mutation, current, 99, scratch).result.status, KvStatus::kOk);
    EXPECT_EQ(evaluate(mutation, current, 100, scratch).result, (MutationResult{KvStatus::kNotFound, 0}));
    EXPECT_EQ(evaluate(mutation, {}, 1, scratch).result, (MutationResult{KvStatus::kNotFound, 0}));
  }
}

TEST(Evaluate, Any_WhatHasExpiredIsAbsent) {
  std::string scratch;
  const CurrentState current = {5, as_byte_span("7"), 100};
  EXPECT_EQ(evaluate(mutations::remove("k"), current, 99, scratch).result.status, KvStatus::kOk);
  EXPECT_EQ(evaluate(mutations::remove("k"), current, 100, scratch).result.status, KvStatus::kNotFound);
  EXPECT_EQ(evaluate(mutations::put("k", {}, Condition::if_absent()), current, 100, scratch).result.status,
            KvStatus::kOk);
  const Evaluated added = evaluate(mutations::add("k", 1), current, 100, scratch);
  EXPECT_EQ(added.result.value, 1);
  EXPECT_EQ(added.expires_at, 0u) << "a new key does not expire";
  EXPECT_EQ(evaluate(mutations::expire("k", 10), current, 99, scratch).expires_at, 109u);
  EXPECT_EQ(evaluate(mutations::expire("k", 0), current, 99, scratch).expires_at, 0u);
  EXPECT_EQ(evaluate(mutations::expire("k", 10), current, 100, scratch).result.status, KvStatus::kNotFound);
  EXPECT_EQ(evaluate(mutations::put("k", {}, {}, UINT64_MAX), {}, 100, scratch).expires_at, UINT64_MAX);
}

TEST(Evaluate, Evaluate_AgreesWithTwin) {
  TwinShard twin;
  MutationMaker maker(Rng(3));
  std::string scratch;
  size_t unchanged_count = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    maker.clear();
    const auto version_of = [&](std::string_view key) {
      const auto* row = twin.find(key);
      return row == nullptr ? uint64_t{1} : row->version;
    };
    const Mutation mutation = maker.make(version_of, true);
    CurrentState current;
    const TwinShard::Row* row = twin.find(mutation.key);
    const TwinShard::Row before = row == nullptr ? TwinShard::Row{} : *row;
    if (row != nullptr) current = {before.version, as_byte_span(before.value), before.expires_at, before.mark};
    Evaluated evaluated = evaluate(mutation, current, i, scratch);
    const bool has_effect = evaluated.result.status == KvStatus::kOk && !evaluated.is_unchanged;
    if (has_effect) evaluated.result.version = twin.last_index() + 1;
    ASSERT_EQ(evaluated.result, twin.apply(mutation, i));
    unchanged_count += evaluated.is_unchanged ? 1 : 0;
    if (!has_effect) continue;
    const TwinShard::Row* after = twin.find(mutation.key);
    ASSERT_EQ(evaluated.value.has_value(), after != nullptr);
    if (after != nullptr) {
      ASSERT_EQ(as_string_view(*evaluated.value), after->value);
      ASSERT_EQ(evaluated.expires_at, after->expires_at);
      ASSERT_EQ(evaluated.mark, after->mark);
    }
  }
  EXPECT_GT(unchanged_count, 50U);
}

}  // namespace
}  // namespace skua::kv
