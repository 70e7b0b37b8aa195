#include "kvstore/service/session_owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SessionOwners, NamesTheSessionsOfWhoIsRevokedOnce) {
  SessionOwners owners;
  owners.add({1, 10}, "client/a");
  owners.add({2, 20}, "client/b");
  owners.add({3, 30}, "client/a");
  owners.add({4, 40}, "");
  EXPECT_THAT(owners.deny({"client/a", "client/c"}), ElementsAre(rpc::SessionId{1, 10}, rpc::SessionId{3, 30}));
  EXPECT_THAT(owners.deny({"client/a"}), IsEmpty());
  EXPECT_EQ(owners.size(), 1u);
}

/// An offer that passed the gRPC server just before the list came is refused by the list.
TEST(SessionOwners, RefusesWhoIsOnTheList) {
  SessionOwners owners;
  EXPECT_TRUE(owners.admit("client/a").ok());
  EXPECT_THAT(owners.deny({"client/a"}), IsEmpty());
  EXPECT_EQ(owners.admit("client/a").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(owners.admit("client/b").ok());
  EXPECT_TRUE(owners.admit("").ok());
  EXPECT_THAT(owners.deny({}), IsEmpty());
  EXPECT_TRUE(owners.admit("client/a").ok());
}

TEST(SessionOwners, ARepeatedOfferDoesNotChangeTheOwner) {
  SessionOwners owners;
  owners.add({1, 10}, "client/a");
  owners.add({1, 10}, "client/b");
  EXPECT_THAT(owners.deny({"client/b"}), IsEmpty());
  EXPECT_THAT(owners.deny({"client/a"}), ElementsAre(rpc::SessionId{1, 10}));
}

TEST(SessionOwners, AnIndexThatIsUsedAgainHasTheNewOwner) {
  SessionOwners owners;
  owners.add({1, 10}, "client/a");
  owners.add({1, 11}, "client/b");
  EXPECT_THAT(owners.deny({"client/a"}), IsEmpty());
  EXPECT_THAT(owners.deny({"client/b"}), ElementsAre(rpc::SessionId{1, 11}));
}

TEST(SessionOwners, SessionsThatEndedAreForgotten) {
  SessionOwners owners;
  for (uint32_t i = 0; i < 10'000; ++i) {
    owners.forget_ended(1, [&](rpc::SessionId session) { return session.index + 1 != i; });
    owners.add({i, 1}, "client/a");
    ASSERT_LE(owners.size(), 100u);
  }
  EXPECT_THAT(owners.deny({"client/a"}), ::testing::Contains(rpc::SessionId{9'999, 1}));
}

/// Rows are numbered anew with each Grants: what is left of a session must not become somebody else's rights.
TEST(SessionOwners, WhatIsForgottenHasNoRights) {
  const std::vector<TableGrants> tables = {{7, "t", {{"client/a", kRightRead}}}};
  const auto grants = std::make_shared<const Grants>(tables);
  SessionOwners owners;
  owners.set_grants(grants);
  const ClosedTable& table = *grants->find(7);
  for (uint32_t i = 0; i < 100; ++i) owners.add({i, 1}, "client/a");
  EXPECT_TRUE(owners.may({0, 1}, table, kRightRead));
  owners.forget_ended(1, [](rpc::SessionId session) { return session.index == 0; });
  EXPECT_FALSE(owners.may({0, 1}, table, kRightRead));
  owners.add({1, 2}, "");
  owners.set_grants(grants);
  EXPECT_FALSE(owners.may({1, 2}, table, kRightRead));
  EXPECT_TRUE(owners.may({2, 1}, table, kRightRead));
}

/// A session that nobody added, because it came without a certificate, may have the index of one that ended.
TEST(SessionOwners, TheNextSessionAtAnIndexDoesNotInheritRights) {
  const std::vector<TableGrants> tables = {{7, "t", {{"client/a", kRightRead}}}};
  const auto grants = std::make_shared<const Grants>(tables);
  SessionOwners owners;
  owners.set_grants(grants);
  owners.add({1, 10}, "client/a");
  EXPECT_TRUE(owners.may({1, 10}, *grants->find(7), kRightRead));
  EXPECT_FALSE(owners.may({1, 11}, *grants->find(7), kRightRead));
}

/// Of this worker's sessions "client/a" may have two.
class LimitedOwnersTest : public ::testing::Test {
 protected:
  LimitedOwnersTest() { owners_.set_quotas(two_sessions(), 0); }
  static std::shared_ptr<const Quotas> two_sessions() {
    return std::make_shared<const Quotas>(std::vector<ClientQuota>{{"client/a", 0, 0, 2, 0}}, 4);
  }
  absl::Status open(SessionOwners& owners, rpc::SessionId session, const std::string& owner = "client/a") {
    auto place = owners.admit(owner);
    if (!place.ok()) return place.status();
    owners.add(session, owner, *std::move(place));
    return absl::OkStatus();
  }
  void tick(TimeNs now) {
    owners_.tick(now, [this](rpc::SessionId session) { return ended_.contains(session.index); });
  }

  SessionOwners owners_;
  std::set<uint32_t> ended_;
};

TEST_F(LimitedOwnersTest, OneSessionTooManyIsRefusedUntilAnotherEnds) {
  EXPECT_TRUE(open(owners_, {1, 1}).ok());
  EXPECT_TRUE(open(owners_, {2, 1}).ok());
  const absl::Status refused = open(owners_, {3, 1});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      refused.message(),
      "client/a has used up its quota of this node: 2 sessions; try again later, or have it raised (skuactl quota "
      "set)");
  EXPECT_EQ(owners_.ledger().refusals()[static_cast<size_t>(QuotaKind::kSessions)], 1u);
  for (uint32_t i = 10; i < 20; ++i) EXPECT_TRUE(open(owners_, {i, 1}, "client/b").ok());
  tick(0);
  EXPECT_FALSE(open(owners_, {3, 1}).ok());
  ended_.insert(1);
  tick(kSecond - 1);
  EXPECT_FALSE(open(owners_, {3, 1}).ok()) << "looked at once a second";
  tick(kSecond);
  EXPECT_TRUE(open(owners_, {3, 1}).ok());
  EXPECT_FALSE(open(owners_, {4, 1}).ok());
}

TEST_F(LimitedOwnersTest, AnOfferThatComesAgainCountsOnce) {
  EXPECT_TRUE(open(owners_, {1, 1}).ok());
  EXPECT_TRUE(open(owners_, {1, 1}).ok());
  EXPECT_TRUE(open(owners_, {2, 1}).ok());
  EXPECT_FALSE(open(owners_, {3, 1}).ok());
}

TEST_F(LimitedOwnersTest, SessionsThatAreGoneOtherwiseGiveTheirPlaceBack) {
  EXPECT_TRUE(open(owners_, {1, 1}).ok());
  EXPECT_TRUE(open(owners_, {2, 1}).ok());
  EXPECT_TRUE(open(owners_, {1, 2}, "client/b").ok()) << "the index is used again, so the session has ended";
  EXPECT_TRUE(open(owners_, {3, 1}).ok());
  EXPECT_EQ(owners_.deny({"client/a"}).size(), 2u);
  EXPECT_THAT(owners_.deny({}), IsEmpty());
  EXPECT_TRUE(open(owners_, {4, 1}).ok());
  EXPECT_TRUE(open(owners_, {5, 1}).ok());
}

TEST_F(LimitedOwnersTest, AllWorkersCountTogether) {
  const auto quotas = two_sessions();
  SessionOwners other;
  owners_.set_quotas(quotas, 0);
  other.set_quotas(quotas, 0);
  EXPECT_TRUE(open(owners_, {1, 1}).ok());
  EXPECT_TRUE(open(other, {1, 1}).ok());
  EXPECT_FALSE(open(owners_, {2, 1}).ok());
  EXPECT_FALSE(open(other, {2, 1}).ok());
}

TEST_F(LimitedOwnersTest, SessionsThatStandCountInTheNextQuotas) {
  SessionOwners owners;
  for (uint32_t i = 1; i <= 3; ++i) EXPECT_TRUE(open(owners, {i, 1}).ok()) << "nobody is limited";
  owners.set_quotas(two_sessions(), 0);
  EXPECT_FALSE(open(owners, {4, 1}).ok()) << "three stand, and nobody closes them";
  owners.tick(0, [](rpc::SessionId session) { return session.index <= 2; });
  EXPECT_TRUE(open(owners, {4, 1}).ok());
  EXPECT_FALSE(open(owners, {5, 1}).ok());
  owners.set_quotas(std::make_shared<const Quotas>(), 0);
  EXPECT_TRUE(open(owners, {5, 1}).ok());
}

TEST_F(LimitedOwnersTest, AccountsAreThoseOfTheSessionsAndTheirClients) {
  EXPECT_TRUE(open(owners_, {1, 1}).ok());
  EXPECT_TRUE(open(owners_, {2, 1}).ok());
  EXPECT_TRUE(open(owners_, {3, 1}, "client/b").ok());
  ASSERT_NE(owners_.account({1, 1}), nullptr);
  EXPECT_EQ(owners_.account({1, 1}), owners_.account({2, 1}));
  EXPECT_EQ(owners_.account({3, 1}), nullptr);
  EXPECT_EQ(owners_.account({1, 2}), nullptr) << "a later session";
  EXPECT_EQ(owners_.account({9, 1}), nullptr);
  owners_.set_quotas(std::make_shared<const Quotas>(std::vector<ClientQuota>{{"client/b", 1, 0, 0, 0}}, 4), 0);
  EXPECT_EQ(owners_.account({1, 1}), nullptr);
  EXPECT_NE(owners_.account({3, 1}), nullptr);
}

}  // namespace
}  // namespace skua::kv
