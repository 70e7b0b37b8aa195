#include "kvstore/gateway/put_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "tests/kvstore/gateway/groups_testing.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;
using Status = StoreResult::Status;
using ::testing::UnorderedElementsAre;

StoreRequest put_of(std::string_view key, std::string_view value) {
  return {.kind = Kind::kPut, .key = key, .value = value};
}

class PutGroupsTest : public GroupsTest {
 protected:
  void start(uint32_t shard_count) {
    start_cluster(shard_count);
    groups_.emplace(*client_, [this](std::span<const PutGroups::Member> members, const StoreResult& result) {
      for (const PutGroups::Member& member : members) {
        EXPECT_EQ(member.place, members.front().place);
        EXPECT_EQ(member.index, member.place + 7);
        results_[member.place] = result.status;
      }
      last_text_ = result.text;
    });
  }

  bool add(const StoreRequest& request) {
    const uint32_t place = next_place_++;
    return groups_->add(table_, request, {.place = place, .index = place + 7});
  }
  void wait_for(size_t results) {
    while (results_.size() < results) client_->poll(std::chrono::milliseconds(10));
  }
  std::string get(std::string_view key) {
    std::optional<std::string> value;
    EXPECT_TRUE(client_->get(table_, key, {}, [&](GetResult&& got) { value = std::string(got.value.bytes()); }).ok());
    while (!value.has_value()) client_->poll(std::chrono::milliseconds(10));
    return *value;
  }

  std::map<uint32_t, Status> results_;
  std::string last_text_;
  std::optional<PutGroups> groups_;
  uint32_t next_place_ = 0;
};

TEST_F(PutGroupsTest, PutsOfOneTurnAreOneBatchForEachShard) {
  start(2);
  warm_up();
  for (int i = 0; i < 20; ++i) {
    // The group must not look at the request's words later.
    const std::string key = absl::StrCat("key", i);
    const std::string value = absl::StrCat("value", i);
    EXPECT_TRUE(add(put_of(key, value)));
  }
  groups_->flush();
  EXPECT_TRUE(results_.empty());
  wait_for(20);
  for (const auto& [place, status] : results_) EXPECT_EQ(status, Status::kOk) << place;
  EXPECT_THAT(calls(), UnorderedElementsAre(std::pair(Method::kBatch, size_t{2})));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get(absl::StrCat("key", i)), absl::StrCat("value", i));
}

TEST_F(PutGroupsTest, APutAloneIsNoBatch) {
  start(1);
  warm_up();
  EXPECT_TRUE(add(put_of("a", "1")));
  groups_->flush();
  wait_for(1);
  groups_->flush();  // nothing is left
  EXPECT_THAT(calls(), UnorderedElementsAre(std::pair(Method::kPut, size_t{1})));
  EXPECT_EQ(get("a"), "1");
}

TEST_F(PutGroupsTest, AFullGroupDoesNotWaitForTheTurnsEnd) {
  start(1);
  warm_up();
  for (size_t i = 0; i < kGroupPutsMax; ++i) EXPECT_TRUE(add(put_of("key", absl::StrCat(i))));
  wait_for(kGroupPutsMax);
  const std::string value(kGroupedValueBytesMax, 'x');
  const size_t large = kGroupBytesMax / kGroupedValueBytesMax;
  for (size_t i = 0; i < large; ++i) EXPECT_TRUE(add(put_of("large", value)));
  wait_for(kGroupPutsMax + large);
  EXPECT_THAT(calls(), UnorderedElementsAre(std::pair(Method::kBatch, size_t{2})));
  EXPECT_EQ(get("key"), absl::StrCat(kGroupPutsMax - 1)) << "the last one";
}

TEST_F(PutGroupsTest, WhatDependsOnTheKeyOrIsLargeGoesAlone) {
  start(1);
  EXPECT_FALSE(add(put_of("a", "1"))) << "the table is not known yet";
  warm_up();
  const std::string large(kGroupedValueBytesMax + 1, 'x');
  EXPECT_FALSE(add(put_of("a", large)));
  EXPECT_FALSE(add(put_of("", "1"))) << "the client says what is wrong with it";
  EXPECT_FALSE(add({.kind = Kind::kPut, .key = "a", .if_version = 1}));
  EXPECT_FALSE(add({.kind = Kind::kPut, .key = "a", .if_absent = true}));
  EXPECT_FALSE(add({.kind = Kind::kPut, .key = "a", .if_present = true}));
  EXPECT_FALSE(add({.kind = Kind::kPut, .key = "a", .keep_ttl = true}));
  EXPECT_FALSE(add({.kind = Kind::kPut, .key = "a", .tells_version = true})) << "a batch has one version for all";
  EXPECT_FALSE(add({.kind = Kind::kRemove, .key = "a"}));
  EXPECT_TRUE(add({.kind = Kind::kPut, .key = "a", .value = "1", .ttl_ms = 60'000}));
}

TEST_F(PutGroupsTest, EachPutOfAGroupThatFailsIsTold) {
  start(1);
  warm_up();
  refuses_ = true;
  EXPECT_TRUE(add(put_of("a", "1")));
  EXPECT_TRUE(add(put_of("b", "2")));
  groups_->flush();
  wait_for(2);
  EXPECT_EQ(results_, (std::map<uint32_t, Status>{{0, Status::kNoRight}, {1, Status::kNoRight}}));
  EXPECT_FALSE(last_text_.empty());
  refuses_ = false;
  EXPECT_TRUE(add(put_of("a", "3")));
  EXPECT_TRUE(add(put_of("b", "4")));
  groups_->flush();
  wait_for(4);
  EXPECT_EQ(get("a"), "3") << "the group has forgotten the puts before";
}

TEST_F(PutGroupsTest, WhatIsUnderWayEndsWithTheClient) {
  start(1);
  warm_up();
  EXPECT_TRUE(add(put_of("a", "1")));
  EXPECT_TRUE(add(put_of("b", "2")));
  groups_->flush();
  client_.reset();
  EXPECT_EQ(results_.size(), 2u);
}

}  // namespace
}  // namespace skua::kv::gateway
