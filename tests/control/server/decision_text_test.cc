#include "control/server/decision_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/grants.h"

namespace skua::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DecisionText, SaysWhoMayDoWhatNow) {
  EXPECT_EQ(access_text(RevokeIdentity{"client/app\n"}, {}), "revoked client/app\\x0a") << "names are escaped";
  EXPECT_EQ(access_text(UnrevokeIdentity{"client/app"}, {}), "no longer revoked: client/app");
  EXPECT_EQ(access_text(RemoveQuota{"client/app"}, {}), "no quota any more: client/app");
  EXPECT_EQ(access_text(Tick{}, {}), "");
  Decision decision;
  decision.table = Table{.id = 3, .name = "notes"};
  const Rights read = *parse_rights("read");
  EXPECT_EQ(access_text(AddGrant{"client/app", "notes", read}, decision), "granted client/app read of table notes");
  decision.changes.put_grants[3] = {};
  EXPECT_THAT(access_text(RemoveGrant{"client/app", "notes", read, true}, decision), HasSubstr("open to all clients"));
  decision.changes.put_grants[3] = {{"client/other", read}};
  EXPECT_THAT(access_text(RemoveGrant{"client/app", "notes", read}, decision), Not(HasSubstr("open to all")));
}

TEST(DecisionText, ShowsFourViewsAndCountsTheReasonsOfTheOthers) {
  ClusterState state;
  state.tables[1] = Table{.id = 1, .name = "notes"};
  Changes changes;
  for (uint32_t shard = 0; shard < 7; ++shard) {
    ShardRecord record{.table_id = 1, .shard = shard, .epoch = 9, .primary = {}};
    if (shard > 0) record.primary = Replica{"uuid-of-the-primary", 0, 1};
    changes.put_shards.push_back(record);
    changes.reasons.emplace_back(shard < 6 ? "its primary stops soon" : "repair");
  }
  const std::string text = views_text(changes, state);
  EXPECT_THAT(text, HasSubstr("views changed: notes/0 epoch 9 led by nobody with 0 backups"));
  EXPECT_THAT(text, HasSubstr("notes/3 epoch 9 led by uuid-of-the-primary"));
  EXPECT_THAT(text, HasSubstr(" and 3 more (2 because its primary stops soon, 1 because repair)"));
  EXPECT_THAT(text, Not(HasSubstr("notes/4")));
  changes.put_shards.resize(1);
  changes.put_shards[0].table_id = 2;
  EXPECT_THAT(views_text(changes, state), HasSubstr("views changed: ?/0")) << "a table that was just dropped";
}

}  // namespace
}  // namespace skua::control
