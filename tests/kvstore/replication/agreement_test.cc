#include "kvstore/replication/agreement.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

TEST(Agreement, OnlyCommittedEntriesAgreeWhenAnEpochBegins) {
  Agreement agreement(3);
  EXPECT_EQ(agreement.acknowledged({9, 8, 2}), (LogLevels{3, 3, 2}));
  agreement.prove(7);
  EXPECT_EQ(agreement.acknowledged({9, 8, 2}), (LogLevels{7, 7, 2}));
  EXPECT_TRUE(agreement.is_proven());
  agreement.begin(5);
  EXPECT_EQ(agreement.verified(), 5U);
  EXPECT_FALSE(agreement.is_proven());
}

TEST(Agreement, CommitsWhatAgreesAndIsWritten) {
  Agreement agreement(3);
  agreement.hear_of_commit(9);
  EXPECT_EQ(agreement.commit_index(8), 3U) << "nothing has proven that the entries behind 3 are the primary's";
  agreement.prove(7);
  EXPECT_EQ(agreement.commit_index(8), 7U);
  EXPECT_EQ(agreement.commit_index(5), 5U) << "the others may be lost in a restart";
  agreement.prove(12);
  EXPECT_EQ(agreement.commit_index(12), 9U) << "the primary has committed no more";
  agreement.hear_of_commit(4);
  EXPECT_EQ(agreement.known_commit(), 9U);
}

TEST(Agreement, EntriesThatTheLogHasLostDoNotAgree) {
  Agreement agreement(3);
  agreement.prove(7);
  agreement.cut(5);
  EXPECT_EQ(agreement.verified(), 5U);
  agreement.install_snapshot(9, 9);
  EXPECT_EQ(agreement.verified(), 9U) << "a snapshot is committed";
  EXPECT_EQ(agreement.known_commit(), 9U);
  agreement.prove(14);
  agreement.install_snapshot(10, 12);
  EXPECT_EQ(agreement.verified(), 12U);
}

TEST(Agreement, IsWithdrawnOnce) {
  Agreement agreement(3);
  agreement.prove(7);
  EXPECT_TRUE(agreement.withdraw());
  EXPECT_FALSE(agreement.withdraw());
  EXPECT_EQ(agreement.verified(), 7U) << "what was proven stays true";
}

TEST(Agreement, AGapIsToldOnceInATime) {
  Agreement agreement(3);
  EXPECT_TRUE(agreement.may_tell_gap(100, 10));
  EXPECT_FALSE(agreement.may_tell_gap(109, 10));
  EXPECT_TRUE(agreement.may_tell_gap(110, 10));
  agreement.begin(3);
  EXPECT_TRUE(agreement.may_tell_gap(111, 10)) << "another primary has not heard of it";
}

}  // namespace
}  // namespace skua::kv
