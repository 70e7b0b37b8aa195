#include "kvstore/replication/replica_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kvstore/replication/replica_parts.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using testing::find_message;
using ::testing::IsEmpty;
using testing::kBegan;
using testing::kOptions;
using testing::receivers;
using testing::StateOfOne;
using testing::view_of;
constexpr TimeNs kLaterOn = kBegan + kSecond;

std::vector<NodeId> suspects(const ReplicaState& state, TimeNs now) {
  ReplicaOutput out;
  state.report_silent(now, out);
  std::vector<NodeId> nodes;
  for (const ReplicaReport& report : out.reports) {
    EXPECT_EQ(report.kind, ReplicaReport::Kind::kSuspect);
    nodes.push_back(report.node);
  }
  return nodes;
}

TEST(ReplicaState, TheRoleFollowsFromTheView) {
  StateOfOne state(view_of(1, 1, {1, 2}));
  EXPECT_EQ(state.role, ReplicaRole::kPrimary);
  EXPECT_EQ(state.role_in(view_of(2, 2, {1, 2})), ReplicaRole::kBackup);
  EXPECT_EQ(state.role_in(view_of(2, 2, {2, 3})), ReplicaRole::kInactive);
  View learns = view_of(2, 2, {2, 3});
  learns.learners = {{{1, 1}, 0}};
  EXPECT_EQ(state.role_in(learns), ReplicaRole::kLearner);
  learns.learners = {{{1, 2}, 0}};
  EXPECT_EQ(state.role_in(learns), ReplicaRole::kInactive) << "that is this node with other storage";
}

TEST(ReplicaState, APrimaryThatCannotLeadIsInactive) {
  StateOfOne state(view_of(1, 2, {1, 2}));
  state.given_up_epoch = 7;
  EXPECT_EQ(state.role_in(view_of(7, 1, {1, 2})), ReplicaRole::kInactive);
  EXPECT_EQ(state.role_in(view_of(8, 1, {1, 2})), ReplicaRole::kPrimary);
  state.doubt = 3;
  EXPECT_EQ(state.role_in(view_of(8, 1, {1, 2})), ReplicaRole::kInactive);
  EXPECT_EQ(state.role_in(view_of(8, 2, {1, 2})), ReplicaRole::kBackup) << "it may follow";
}

TEST(ReplicaState, AMessageOfThisEpochIsAdmittedAndHeard) {
  StateOfOne state(view_of(4, 1, {1, 2}));
  ReplicaOutput out;
  PeerReplica* const sender = state.admit({2, 1}, 4, kLaterOn, out);
  ASSERT_NE(sender, nullptr);
  EXPECT_EQ(sender->id.node, 2U);
  EXPECT_EQ(sender->heard_ns, kLaterOn);
  EXPECT_EQ(state.admit({3, 1}, 4, kLaterOn, out), nullptr) << "the view does not have this node";
  EXPECT_EQ(state.admit({2, 2}, 4, kLaterOn, out), nullptr) << "nor this one's storage";
  EXPECT_THAT(out.messages, IsEmpty());
  EXPECT_FALSE(out.fetch_view);
}

TEST(ReplicaState, WhoHasTheOlderViewIsToldToGetANewerOne) {
  StateOfOne state(view_of(4, 1, {1, 2}));
  ReplicaOutput out;
  EXPECT_EQ(state.admit({2, 1}, 3, kLaterOn, out), nullptr);
  ASSERT_THAT(receivers<StaleEpoch>(out), ElementsAre(2));
  EXPECT_EQ(find_message<StaleEpoch>(out)->view, state.view);
  EXPECT_FALSE(out.fetch_view);
  EXPECT_EQ(state.peers.find(NodeId{2})->heard_ns, kBegan) << "a message of a former epoch is no sign of life";
  out.clear();
  EXPECT_EQ(state.admit({2, 1}, 5, kLaterOn, out), nullptr);
  EXPECT_TRUE(out.fetch_view);
  EXPECT_THAT(out.messages, IsEmpty());
}

TEST(ReplicaState, BeforeTheEpochIsDurableNothingIsAdmittedOrSaid) {
  StateOfOne state(view_of(4, 1, {1, 2}));
  state.persisted_epoch = 3;
  EXPECT_FALSE(state.has_durable_epoch());
  ReplicaOutput out;
  EXPECT_EQ(state.admit({2, 1}, 4, kLaterOn, out), nullptr);
  EXPECT_EQ(state.admit({2, 1}, 3, kLaterOn, out), nullptr);
  EXPECT_THAT(out.messages, IsEmpty());
}

TEST(ReplicaState, APeersViewIsOnlyAHint) {
  const StateOfOne state(view_of(4, 1, {1, 2}));
  View hint = state.view;
  ReplicaOutput out;
  state.hear_of(hint, out);
  EXPECT_FALSE(out.fetch_view);
  hint.change += 1;
  state.hear_of(hint, out);
  EXPECT_TRUE(out.fetch_view);
  EXPECT_FALSE(out.persist_view.has_value());
}

TEST(ReplicaState, APrimaryReportsThePeersThatItWaitsFor) {
  View view = view_of(1, 1, {1, 2, 3});
  view.learners = {{{4, 1}, 0}, {{5, 1}, 9}};
  StateOfOne state(view);
  state.peers.find(NodeId{3})->heard_ns = kLaterOn;
  EXPECT_THAT(suspects(state, kBegan + kOptions.suspect_after_ns), IsEmpty());
  EXPECT_THAT(suspects(state, kBegan + kOptions.suspect_after_ns + 1), ElementsAre(2, 5)) << "4 only follows";
}

TEST(ReplicaState, APrimaryThatHearsNobodyWaitsLonger) {
  StateOfOne state(view_of(1, 1, {1, 2, 3}));
  const DurationNs patience = kOptions.suspect_after_ns + kOptions.suspect_after_ns / 2;
  EXPECT_THAT(suspects(state, kBegan + patience), IsEmpty()) << "the others accuse it first";
  EXPECT_THAT(suspects(state, kBegan + patience + 1), ElementsAre(2, 3));
}

TEST(ReplicaState, ABackupWatchesItsPrimaryAndALearnerNobody) {
  const TimeNs silent = kBegan + kOptions.suspect_after_ns + 1;
  EXPECT_THAT(suspects(StateOfOne(view_of(1, 2, {1, 2, 3})), silent), ElementsAre(2));
  View learns = view_of(1, 2, {2, 3});
  learns.learners = {{{1, 1}, 0}};
  EXPECT_THAT(suspects(StateOfOne(learns), silent), IsEmpty());
}

}  // namespace
}  // namespace skua::kv
