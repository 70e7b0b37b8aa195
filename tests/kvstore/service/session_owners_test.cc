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
  EXPECT_TRUE(owners.check("client/a").ok());
  EXPECT_THAT(owners.deny({"client/a"}), IsEmpty());
  EXPECT_EQ(owners.check("client/a").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(owners.check("client/b").ok());
  EXPECT_TRUE(owners.check("").ok());
  EXPECT_THAT(owners.deny({}), IsEmpty());
  EXPECT_TRUE(owners.check("client/a").ok());
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

}  // namespace
}  // namespace skua::kv
