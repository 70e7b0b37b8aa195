#include "control/core/view_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// Led by node 1, with backups 2 and 3 and learner 4.
ShardRecord sample() {
  ShardRecord record{1, 0, 5, Replica{test_uuid(1), 0}, {{test_uuid(2), 0}, {test_uuid(3), 1}}};
  record.learners = {{{test_uuid(4), 0}, 0}};
  record.change = 9;
  record.primary_incarnation = 1;
  return record;
}

TEST(CheckSuccessor, AllowsWhatTheRulesMake) {
  const ShardRecord record = sample();
  const ShardRecord joining = with_join(record, test_uuid(4));
  EXPECT_THAT(check_successor(record, joining), IsEmpty());
  EXPECT_THAT(check_successor(joining, promoted(joining, test_uuid(4), 1)), IsEmpty());
  EXPECT_THAT(check_successor(joining, without_join(joining, test_uuid(4))), IsEmpty());
  EXPECT_THAT(check_successor(joining, next_view(joining, test_uuid(2), 1, {test_uuid(1)})), IsEmpty());
  EXPECT_THAT(check_successor(record, next_view(record, test_uuid(1), 2, {})), IsEmpty());
  EXPECT_THAT(check_successor(record, without_learner(record, test_uuid(4))), IsEmpty());
  EXPECT_THAT(check_successor(record, with_learner(record, {test_uuid(5), 0})), IsEmpty());
  EXPECT_THAT(check_successor(record, with_move(record, test_uuid(1), {test_uuid(5), 0})), IsEmpty());
  EXPECT_THAT(check_successor(record, with_worker(record, test_uuid(1), 3)), IsEmpty());
  EXPECT_THAT(check_successor(record, with_worker(record, test_uuid(4), 3)), IsEmpty());
  EXPECT_THAT(check_successor(record, forked(record, {test_uuid(9), 0, 4}, 1)), IsEmpty());
  EXPECT_THAT(check_successor(record, orphaned(record)), IsEmpty());
}

TEST(CheckSuccessor, NamesTheRuleThatIsBroken) {
  const ShardRecord record = sample();
  const auto broken = [&](auto&& spoil) {
    ShardRecord after = next_view(record, test_uuid(2), 1, {});
    spoil(after);
    return check_successor(record, after);
  };
  EXPECT_THAT(broken([](ShardRecord&) {}), IsEmpty());
  EXPECT_THAT(broken([](ShardRecord& r) { r.primary->node_uuid = test_uuid(9); }), HasSubstr("was no member"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.primary->storage_incarnation = 1; }), HasSubstr("was no member"));
  EXPECT_THAT(broken([](ShardRecord& r) {
                r.backups.push_back({test_uuid(4), 0});
                r.learners.clear();
              }),
              HasSubstr("not joining"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.epoch -= 1; }), HasSubstr("epoch"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.epoch += 1; }), HasSubstr("epoch"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.change -= 1; }), HasSubstr("change"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.fork += 2; }), HasSubstr("fork"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.learners[0].join = 1; }), HasSubstr("outlived"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.learners[0].replica = r.backups[0]; }), HasSubstr("two parts"));
  EXPECT_THAT(broken([](ShardRecord& r) { r.leaving.push_back(test_uuid(8)); }), HasSubstr("two parts"));
}

TEST(CheckSuccessor, JoinNumbersAreNeverUsedAgain) {
  const ShardRecord once = without_join(with_join(sample(), test_uuid(4)), test_uuid(4));
  EXPECT_EQ(once.next_join, 2u);
  ShardRecord again = with_join(once, test_uuid(4));
  EXPECT_EQ(again.learners[0].join, 2u);
  again.learners[0].join = 1;
  EXPECT_THAT(check_successor(once, again), HasSubstr("used number"));
}

TEST(NextView, EndsAttemptsToJoinAndForgetsMarksOfThoseWhoWent) {
  ShardRecord record = with_join(with_move(sample(), test_uuid(2), {test_uuid(5), 0}), test_uuid(4));
  record = next_view(record, test_uuid(3), 7, {test_uuid(2)});
  EXPECT_EQ(record.epoch, 6u);
  EXPECT_EQ(record.primary->node_uuid, test_uuid(3));
  EXPECT_EQ(record.primary_incarnation, 7u);
  EXPECT_EQ(member_count(record), 2u);
  EXPECT_EQ(record.learners[0].join, 0u);
  EXPECT_THAT(record.leaving, IsEmpty());
}

TEST(Orphaned, ForgetsFormerMembers) {
  ShardRecord record = sample();
  record.former = {test_uuid(8)};
  EXPECT_THAT(orphaned(record).former, IsEmpty());
}

}  // namespace
}  // namespace skua::control
