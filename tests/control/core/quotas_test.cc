#include "control/core/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/shard_map.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Quota kSome = {.operations_per_s = 1000, .bytes_per_s = 0, .sessions = 4, .client_ids = 0};
constexpr Quota kOther = {.operations_per_s = 0, .bytes_per_s = 1 << 20, .sessions = 0, .client_ids = 7};

class QuotasTest : public testing::Test {
 protected:
  absl::Status set(const std::string& principal, const Quota& quota) {
    return cluster_.step(SetQuota{principal, quota}).status;
  }
  absl::Status remove(const std::string& principal) { return cluster_.step(RemoveQuota{principal}).status; }
  std::vector<MapQuota> in_map() {
    const ShardMap map = build_shard_map(cluster_.core.state());
    EXPECT_TRUE(map.valid());
    return map.quotas;
  }

  TestCluster cluster_;
};

TEST_F(QuotasTest, AreInTheNextMapUntilTheyAreRemoved) {
  EXPECT_THAT(in_map(), IsEmpty());
  const uint64_t before = cluster_.revision();
  ASSERT_TRUE(set("client/b", kSome).ok());
  ASSERT_TRUE(set("client/a", kOther).ok());
  EXPECT_EQ(cluster_.revision(), before + 2);
  EXPECT_THAT(in_map(), ElementsAre(MapQuota{"client/a", kOther}, MapQuota{"client/b", kSome}));
  ASSERT_TRUE(remove("client/a").ok());
  EXPECT_THAT(in_map(), ElementsAre(MapQuota{"client/b", kSome}));
  ASSERT_TRUE(remove("client/b").ok());
  EXPECT_THAT(in_map(), IsEmpty());
  EXPECT_EQ(cluster_.revision(), before + 4);
}

TEST_F(QuotasTest, ReplaceTheOneBefore) {
  ASSERT_TRUE(set("client/a", kSome).ok());
  const uint64_t revision = cluster_.revision();
  EXPECT_TRUE(set("client/a", kSome).ok());
  EXPECT_EQ(cluster_.revision(), revision) << "the same again changes nothing";
  EXPECT_TRUE(set("client/a", kOther).ok());
  EXPECT_THAT(in_map(), ElementsAre(MapQuota{"client/a", kOther})) << "what the new one does not limit is not limited";
}

TEST_F(QuotasTest, ThatAreNotThereCannotBeRemoved) {
  ASSERT_TRUE(set("client/a", kSome).ok());
  for (const char* principal : {"client/b", "", "node/x"}) {
    const absl::Status refused = remove(principal);
    EXPECT_EQ(refused.code(), StatusCode::kNotFound);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("skuactl quota list"));
  }
}

TEST_F(QuotasTest, AreForClientsOnly) {
  const std::string long_name = absl::StrCat("client/", std::string(kPrincipalMax, 'a'));
  for (const std::string& principal :
       {std::string(), std::string("app"), std::string("client/"), std::string("admin/ada"),
        absl::StrCat("node/", test_uuid(1)), std::string("control/c1"), std::string("clients/a"), long_name}) {
    const absl::Status refused = set(principal, kSome);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << principal;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("Quotas limit clients only"));
  }
  EXPECT_THAT(in_map(), IsEmpty());
}

TEST_F(QuotasTest, LimitSomethingAndNotBeyondTheBounds) {
  EXPECT_THAT(std::string(set("client/a", {}).message()), HasSubstr("at least one of operations, bytes, sessions"));
  Quota most = {kQuotaOperationsMax, kQuotaBytesMax, kQuotaSessionsMax, kQuotaClientIdsMax};
  EXPECT_TRUE(set("client/a", most).ok());
  EXPECT_THAT(in_map(), ElementsAre(MapQuota{"client/a", most}));
  for (Quota beyond : {Quota{kQuotaOperationsMax + 1, 0, 0, 0}, Quota{0, kQuotaBytesMax + 1, 0, 0},
                       Quota{0, 0, kQuotaSessionsMax + 1, 0}, Quota{0, 0, 0, kQuotaClientIdsMax + 1}}) {
    const absl::Status refused = set("client/a", beyond);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("is too much for a quota: the most is"));
  }
  EXPECT_THAT(in_map(), ElementsAre(MapQuota{"client/a", most}));
}

TEST_F(QuotasTest, HaveABound) {
  ClusterState state = cluster_.core.state();
  for (size_t i = 0; i < kQuotasMax; ++i) state.quotas[absl::StrCat("client/", i)] = kSome;
  cluster_.core.reload(state, cluster_.now);
  EXPECT_EQ(set("client/new", kSome).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(set("client/7", kOther).ok()) << "it has one already";
  ASSERT_TRUE(remove("client/7").ok());
  EXPECT_TRUE(set("client/new", kSome).ok());
}

TEST(QuotaText, NamesWhatIsLimited) {
  EXPECT_EQ(quota_text(kSome), "1000 operations/s, 4 sessions");
  EXPECT_EQ(quota_text(kOther), "1048576 bytes/s, 7 client ids");
}

TEST(ShardMapOfQuotas, IsCheckedBeforeUse) {
  ShardMap map = build_shard_map(empty_cluster());
  std::vector<MapQuota>& quotas = map.quotas;
  quotas = {{"client/a", kSome}, {"client/b", {}}};
  EXPECT_TRUE(map.valid()) << "a later version may limit something else";
  quotas = {{"client/b", kSome}, {"client/a", kSome}};
  EXPECT_FALSE(map.valid()) << "not sorted";
  quotas = {{"client/a", kSome}, {"client/a", kOther}};
  EXPECT_FALSE(map.valid()) << "twice";
  quotas = {{std::string(kPrincipalMax + 1, 'a'), kSome}};
  EXPECT_FALSE(map.valid()) << "too long";
  for (Quota beyond : {Quota{kQuotaOperationsMax + 1, 0, 0, 0}, Quota{0, kQuotaBytesMax + 1, 0, 0},
                       Quota{0, 0, kQuotaSessionsMax + 1, 0}, Quota{0, 0, 0, kQuotaClientIdsMax + 1}}) {
    quotas = {{"client/a", beyond}};
    EXPECT_FALSE(map.valid());
  }
  quotas.clear();
  for (size_t i = 0; i <= kQuotasMax; ++i) quotas.push_back({absl::StrCat("client/", 10'000 + i), kSome});
  EXPECT_FALSE(map.valid()) << "too many";
  quotas.pop_back();
  EXPECT_TRUE(map.valid());
}

}  // namespace
}  // namespace skua::control
