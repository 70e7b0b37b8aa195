#include "kvstore/gateway/get_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kvstore/gateway/groups_testing.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;
using Status = StoreResult::Status;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class GetGroupsTest : public GroupsTest {
 protected:
  struct Got {
    Status status;
    std::string value;
    uint64_t version;
    uint32_t tag;
    bool is_borrowed;
    std::string text;
  };

  void start(uint32_t shard_count) {
    start_cluster(shard_count);
    groups_.emplace(
        *client_,
        [this](uint32_t place, StoreResult&& got) {
          results_[place] = {got.status, std::string(got.value.bytes()), got.version, got.mark.tag, got.is_borrowed,
                             got.text};
        },
        [this](const std::string& table, std::string_view key, uint32_t place) {
          EXPECT_EQ(&table, &table_);
          alone_[place] = key;
        });
  }

  void put(std::string_view key, std::string_view value, const WriteOptions& options = {}) {
    bool is_done = false;
    EXPECT_TRUE(client_->put(table_, key, value, options, [&](WriteResult&& done) { is_done = done.ok(); }).ok());
    while (!is_done) client_->poll(std::chrono::milliseconds(10));
  }
  bool add(std::string_view key) {
    return groups_->add(table_, {.kind = Kind::kGet, .key = key, .with_mark = true, .borrows_value = true},
                        next_place_++);
  }
  void wait_for(size_t results) {
    while (results_.size() < results) client_->poll(std::chrono::milliseconds(10));
  }
  std::map<Method, size_t> reads() {
    std::map<Method, size_t> calls = this->calls();
    calls.erase(Method::kPut);
    return calls;
  }

  std::map<uint32_t, Got> results_;
  std::map<uint32_t, std::string> alone_;  // keys that are to be asked for alone
  std::optional<GetGroups> groups_;
  uint32_t next_place_ = 0;
};

TEST_F(GetGroupsTest, GetsThatComeTogetherAreOneCallForEachShard) {
  start(2);
  warm_up();
  for (int i = 0; i < 20; i += 2) put(absl::StrCat("key", i), absl::StrCat("value", i), {.mark = {.tag = 7}});
  for (int i = 0; i < 20; ++i) {
    // The group must not look at the request's words later.
    const std::string key = absl::StrCat("key", i);
    EXPECT_TRUE(add(key));
  }
  groups_->flush();
  EXPECT_TRUE(results_.empty());
  wait_for(20);
  for (uint32_t i = 0; i < 20; ++i) {
    const bool is_there = i % 2 == 0;
    EXPECT_EQ(results_[i].status, is_there ? Status::kOk : Status::kNotFound) << i;
    EXPECT_EQ(results_[i].value, is_there ? absl::StrCat("value", i) : "");
    EXPECT_EQ(results_[i].version > 0, is_there);
    EXPECT_EQ(results_[i].tag, is_there ? 7U : 0U);
    EXPECT_TRUE(results_[i].is_borrowed);
  }
  EXPECT_THAT(reads(), UnorderedElementsAre(std::pair(Method::kMultiGet, size_t{2})));
}

TEST_F(GetGroupsTest, AGetByItselfGoesAlone) {
  start(1);
  warm_up();
  EXPECT_TRUE(add("a"));
  EXPECT_TRUE(alone_.empty());
  groups_->flush();
  groups_->flush();  // nothing is left
  EXPECT_THAT(alone_, UnorderedElementsAre(std::pair(0U, "a")));
  EXPECT_THAT(reads(), IsEmpty());
}

TEST_F(GetGroupsTest, WhatMemoryDoesNotHaveGoesAlone) {
  start(1);
  warm_up();
  put("a", "1");
  put("b", "2");
  cluster_->on_node(0, [](FakeNode& node) { node.cold_keys = {"cold"}; });
  for (const std::string_view key : {"a", "cold", "b"}) EXPECT_TRUE(add(key));
  groups_->flush();
  wait_for(2);
  EXPECT_EQ(results_[0].value, "1");
  EXPECT_EQ(results_[2].value, "2");
  EXPECT_THAT(alone_, UnorderedElementsAre(std::pair(1U, "cold")));
  EXPECT_TRUE(add("a")) << "one of three keys went alone";
  EXPECT_TRUE(add("cold"));
  EXPECT_TRUE(add("cold"));
  groups_->flush();
  wait_for(3);
  EXPECT_THAT(alone_, SizeIs(3));
  EXPECT_FALSE(add("a")) << "two of three did";
}

TEST_F(GetGroupsTest, NodesThatAreTooOldAreAskedForEachKey) {
  start(1);
  cluster_->on_node(0, [](FakeNode& node) { node.features = kNodeFeatures & ~kFeatureMemoryOnly; });
  warm_up();
  EXPECT_TRUE(add("a"));
  EXPECT_TRUE(add("b"));
  groups_->flush();
  while (alone_.size() < 2) client_->poll(std::chrono::milliseconds(10));
  EXPECT_TRUE(results_.empty());
  EXPECT_FALSE(add("a"));
}

TEST_F(GetGroupsTest, AFullGroupDoesNotWaitForMore) {
  start(1);
  warm_up();
  put("a", "1");
  for (size_t i = 0; i < kGroupGetsMax; ++i) EXPECT_TRUE(add("a"));
  wait_for(kGroupGetsMax);
  for (const auto& [place, got] : results_) EXPECT_EQ(got.value, "1") << place;
  EXPECT_THAT(reads(), UnorderedElementsAre(std::pair(Method::kMultiGet, size_t{1})));
}

TEST_F(GetGroupsTest, OfTooManyGetsTheRestGoesAlone) {
  start(1);
  warm_up();
  for (size_t i = 0; i < kGetsInGroupsMax; ++i) ASSERT_TRUE(add("a"));
  EXPECT_FALSE(add("a"));
  wait_for(kGetsInGroupsMax);
  EXPECT_TRUE(add("a"));
}

TEST_F(GetGroupsTest, WhatKeepsItsValueGoesAlone) {
  start(1);
  EXPECT_FALSE(add("a")) << "the table is not known yet";
  warm_up();
  EXPECT_FALSE(groups_->add(table_, {.kind = Kind::kGet, .key = "a", .with_mark = true}, 1));
  EXPECT_FALSE(groups_->add(table_, {.kind = Kind::kRemove, .key = "a"}, 2));
  EXPECT_FALSE(add(""));
}

TEST_F(GetGroupsTest, AfterLargeValuesGetsGoAloneForAWhile) {
  start(1);
  warm_up();
  const std::string large(3 * kGroupedGetValueBytesMax, 'x');
  put("large", large);
  put("small", "1");
  for (const std::string_view key : {"large", "small", "large"}) EXPECT_TRUE(add(key));
  groups_->flush();
  wait_for(3);
  EXPECT_EQ(results_[0].value, large);
  for (uint32_t i = 0; i < kGetsAlone; ++i) EXPECT_FALSE(add("small")) << i;
  EXPECT_TRUE(add("small"));
}

TEST_F(GetGroupsTest, EachGetOfAGroupThatFailsIsTold) {
  start(1);
  warm_up();
  put("b", "2");
  refuses_ = true;
  EXPECT_TRUE(add("a"));
  EXPECT_TRUE(add("b"));
  groups_->flush();
  wait_for(2);
  for (const auto& [place, got] : results_) {
    EXPECT_EQ(got.status, Status::kNoRight) << place;
    EXPECT_FALSE(got.text.empty());
  }
  refuses_ = false;
  EXPECT_TRUE(add("a"));
  EXPECT_TRUE(add("b"));
  groups_->flush();
  wait_for(4);
  EXPECT_EQ(results_[2].status, Status::kNotFound);
  EXPECT_EQ(results_[3].value, "2") << "the group has forgotten the GETs before";
}

TEST_F(GetGroupsTest, WhatIsUnderWayEndsWithTheClient) {
  start(1);
  warm_up();
  EXPECT_TRUE(add("a"));
  EXPECT_TRUE(add("b"));
  groups_->flush();
  client_.reset();
  EXPECT_EQ(results_.size(), 2u);
  for (const auto& [place, got] : results_) EXPECT_NE(got.status, Status::kOk) << place;
}

}  // namespace
}  // namespace skua::kv::gateway
