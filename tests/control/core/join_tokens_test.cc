#include "control/core/join_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/core/cluster_limits.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kNow = 1'800'000'000;
constexpr int64_t kHour = 3600;

/// Hashes of secrets and of keys.
std::string hash(int n) {
  std::string text = absl::StrFormat("%012d", n);
  text.resize(64, 'f');
  return text;
}

Decision add(TestCluster& cluster, int secret, const std::string& principal, int64_t now = kNow, int64_t ttl = kHour) {
  return cluster.step(AddJoinToken{hash(secret), principal, now + ttl, now});
}

Decision use(TestCluster& cluster, int secret, int key, int64_t now = kNow, const std::string& role = "",
             const std::string& name = "") {
  return cluster.step(UseJoinToken{hash(secret), hash(key), role, name, now});
}

const std::string& refusal(const Decision& decision) {
  static std::string text;
  EXPECT_EQ(decision.status.code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(decision.changes.empty());
  EXPECT_EQ(decision.principal, "");
  return text = std::string(decision.status.message());
}

TEST(JoinTokens, GiveOneIdentityToOneKey) {
  TestCluster cluster;
  ASSERT_TRUE(add(cluster, 1, "client/app-7").status.ok());
  const Decision used = use(cluster, 1, 100);
  ASSERT_TRUE(used.status.ok()) << used.status;
  EXPECT_EQ(used.principal, "client/app-7");
  EXPECT_FALSE(used.changes.empty()) << "the use is stored before anybody gets anything";
  EXPECT_EQ(cluster.core.state().join_tokens.at(hash(1)).used_key, hash(100));
  EXPECT_THAT(refusal(use(cluster, 1, 101)), HasSubstr("skuactl cert join-token"));
}

TEST(JoinTokens, TheSameKeyMayAskAgainUntilTheTokenExpires) {
  TestCluster cluster;
  ASSERT_TRUE(add(cluster, 1, "client/app-7").status.ok());
  ASSERT_TRUE(use(cluster, 1, 100).status.ok());
  const uint64_t revision = cluster.revision();
  for (const int64_t at : {kNow, kNow + kHour - 1}) {
    const Decision again = use(cluster, 1, 100, at);
    EXPECT_TRUE(again.status.ok()) << again.status;
    EXPECT_EQ(again.principal, "client/app-7");
  }
  EXPECT_EQ(cluster.revision(), revision) << "nothing is left to store";
  EXPECT_FALSE(use(cluster, 1, 100, kNow + kHour).status.ok());
}

/// Two leaders, or two joiners at once: the change is decided on a state that another one has changed meanwhile.
TEST(JoinTokens, OfTwoKeysOneWins) {
  TestCluster cluster;
  ASSERT_TRUE(add(cluster, 1, "client/app-7").status.ok());
  const Decision one = cluster.core.step(UseJoinToken{hash(1), hash(100), "", "", kNow}, cluster.now);
  const Decision two = cluster.core.step(UseJoinToken{hash(1), hash(101), "", "", kNow}, cluster.now);
  ASSERT_TRUE(one.status.ok() && two.status.ok());
  cluster.core.committed(one.changes, cluster.now);
  // The store refuses the other, because the map's record has changed: it is decided anew.
  EXPECT_FALSE(use(cluster, 1, 101).status.ok());
  EXPECT_TRUE(use(cluster, 1, 100).status.ok());
}

TEST(JoinTokens, AStrangerHearsTheSameWhateverIsWrong) {
  TestCluster cluster;
  const std::string unknown = refusal(use(cluster, 1, 100));
  ASSERT_TRUE(add(cluster, 2, "client/a").status.ok());
  EXPECT_EQ(refusal(use(cluster, 2, 100, kNow + kHour)), unknown) << "expired";
  ASSERT_TRUE(use(cluster, 2, 100).status.ok());
  EXPECT_EQ(refusal(use(cluster, 2, 101)), unknown) << "used by another key";
  ASSERT_TRUE(add(cluster, 3, "client/b").status.ok());
  ASSERT_TRUE(cluster.step(RevokeIdentity{"client/b"}).status.ok());
  EXPECT_EQ(refusal(use(cluster, 3, 100)), unknown) << "revoked";
  ASSERT_TRUE(add(cluster, 4, "client/c").status.ok());
  ASSERT_TRUE(cluster.step(RemoveJoinToken{join_token_id(hash(4)), kNow}).status.ok());
  EXPECT_EQ(refusal(use(cluster, 4, 100)), unknown) << "taken back";
  EXPECT_EQ(refusal(cluster.step(UseJoinToken{"", hash(100), "", "", kNow})), unknown);
  EXPECT_EQ(refusal(cluster.step(UseJoinToken{hash(2).substr(0, 63), hash(100), "", "", kNow})), unknown);
}

TEST(JoinTokens, WhoKnowsTheSecretHearsThatItIsForAnother_AndItStaysGood) {
  TestCluster cluster;
  ASSERT_TRUE(add(cluster, 1, "client/app-7").status.ok());
  for (const Decision& refused : {use(cluster, 1, 100, kNow, "node"), use(cluster, 1, 100, kNow, "client", "app-8")}) {
    EXPECT_EQ(refused.status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("is for client/app-7"));
  }
  EXPECT_TRUE(use(cluster, 1, 101, kNow, "client", "app-7").status.ok());
}

TEST(JoinTokens, AreForIdentitiesThatMayJoin) {
  TestCluster cluster;
  const std::string long_name = absl::StrCat("client/", std::string(kPrincipalMax, 'a'));
  for (const std::string& principal : {std::string(), std::string("app"), std::string("/app"), std::string("client/"),
                                       std::string("control/c1"), long_name}) {
    EXPECT_EQ(add(cluster, 1, principal).status.code(), StatusCode::kInvalidArgument) << principal;
  }
  ASSERT_TRUE(cluster.step(RevokeIdentity{"client/a"}).status.ok());
  EXPECT_EQ(add(cluster, 1, "client/a").status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(add(cluster, 1, "client/b", kNow, 0).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(add(cluster, 1, "client/b", kNow, kJoinTokenSecondsMax + 1).status.code(), StatusCode::kInvalidArgument);
}

TEST(JoinTokens, AreBounded_AndExpiredOnesGo) {
  TestCluster cluster;
  for (int i = 0; i < static_cast<int>(kJoinTokensMax); ++i) {
    ASSERT_TRUE(add(cluster, i, "client/a", kNow, i < 10 ? kHour : 2 * kHour).status.ok()) << i;
  }
  const Decision refused = add(cluster, 1000, "client/a");
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("drop-token"));
  EXPECT_TRUE(add(cluster, 1000, "client/a", kNow + kHour).status.ok());
  EXPECT_THAT(cluster.core.state().join_tokens, SizeIs(kJoinTokensMax - 10 + 1));
}

TEST(JoinTokens, ThatAreTakenBackAreNamedByTheirNumber) {
  TestCluster cluster;
  ASSERT_TRUE(add(cluster, 1, "client/a").status.ok());
  EXPECT_EQ(cluster.step(RemoveJoinToken{"0123456789ab", kNow}).status.code(), StatusCode::kNotFound);
  const absl::Status pasted = cluster.step(RemoveJoinToken{"skua-join-secret", kNow}).status;
  EXPECT_EQ(pasted.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(pasted.message()), testing::Not(HasSubstr("skua-join-secret")));
  const Decision removed = cluster.step(RemoveJoinToken{join_token_id(hash(1)), kNow});
  ASSERT_TRUE(removed.status.ok()) << removed.status;
  EXPECT_EQ(removed.principal, "client/a");
  EXPECT_THAT(cluster.core.state().join_tokens, SizeIs(0));
}

}  // namespace
}  // namespace skua::control
