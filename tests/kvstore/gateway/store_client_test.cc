#include "kvstore/gateway/store_client.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/store_outcome.h"
#include "tests/kvstore/gateway/groups_testing.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;
using Status = StoreResult::Status;

Outcome outcome(absl::Status status) {
  Outcome out;
  out.status = std::move(status);
  return out;
}

TEST(StoreStatus, WhatTheStoreAnswered) {
  EXPECT_EQ(store_status(Kind::kGet, outcome(absl::OkStatus())), Status::kOk);
  EXPECT_EQ(store_status(Kind::kGet, outcome(absl::NotFoundError(""))), Status::kNotFound);
  EXPECT_EQ(store_status(Kind::kPut, outcome(absl::AlreadyExistsError(""))), Status::kExists);
  EXPECT_EQ(store_status(Kind::kPut, outcome(absl::FailedPreconditionError(""))), Status::kOtherVersion);
  EXPECT_EQ(store_status(Kind::kAdd, outcome(absl::FailedPreconditionError(""))), Status::kNotANumber);
  EXPECT_EQ(store_status(Kind::kAdd, outcome(absl::OutOfRangeError(""))), Status::kOverflow);
  EXPECT_EQ(store_status(Kind::kPut, outcome(absl::InvalidArgumentError(""))), Status::kRefused);
  EXPECT_EQ(store_status(Kind::kPut, outcome(absl::PermissionDeniedError(""))), Status::kNoRight);
}

TEST(StoreStatus, WhatNobodyAnswered) {
  // A table that does not exist is no key that does not exist.
  Outcome failed = outcome(absl::NotFoundError("no such table"));
  failed.detail = std::make_shared<FailureDetail>();
  EXPECT_EQ(store_status(Kind::kGet, failed), Status::kNotApplied);
  // What stays as it is however often a client asks.
  for (const absl::Status& status : {absl::FailedPreconditionError(""), absl::UnimplementedError("")}) {
    failed.status = status;
    EXPECT_EQ(store_status(Kind::kPut, failed), Status::kRefused) << status;
  }
  for (const absl::Status& status : {absl::PermissionDeniedError(""), absl::UnauthenticatedError("")}) {
    failed.status = status;
    EXPECT_EQ(store_status(Kind::kGet, failed), Status::kNoRight) << status;
  }
  failed.may_have_been_applied = true;
  EXPECT_EQ(store_status(Kind::kPut, failed), Status::kUnknown);
  // The client has too many operations: it refuses, and nothing began.
  EXPECT_EQ(store_status(Kind::kPut, outcome(absl::ResourceExhaustedError(""))), Status::kNotApplied);
  Outcome cancelled = outcome(absl::CancelledError(""));
  cancelled.may_have_been_applied = true;
  EXPECT_EQ(store_status(Kind::kAdd, cancelled), Status::kUnknown);
}

TEST(StoreStatus, ABatchOfManyShardsIsRefusedByTheClientAndALargeOneByTheNode) {
  Outcome refused = outcome(absl::InvalidArgumentError(""));
  FailureDetail detail;
  refused.detail = std::make_shared<FailureDetail>(detail);
  EXPECT_EQ(store_status(Kind::kBatch, refused), Status::kManyShards);
  detail.attempt_count = 1;
  refused.detail = std::make_shared<FailureDetail>(detail);
  EXPECT_EQ(store_status(Kind::kBatch, refused), Status::kRefused);
}

/// There is no cluster, so operations stay under way until the client ends.
TEST(StoreClient, CountsAreBoundedAndOtherOperationsAreNot) {
  auto client = AsyncClient::create({.control_address = "127.0.0.1:1"});
  ASSERT_TRUE(client.ok()) << client.status();
  const std::map<uint32_t, std::string> tables = {{0, "t"}};
  std::vector<Status> results;
  StoreClient store(**client, tables,
                    [&](uint64_t /*connection*/, const StoreTicket& /*ticket*/, StoreResult&& result) {
                      results.push_back(result.status);
                    });
  const IssuedRequest count{.ticket = {}, .request = {.kind = Kind::kScan, .count_only = true}};
  for (uint64_t connection = 0; connection < kCountsMax; ++connection) store.run(connection, count);
  EXPECT_TRUE(results.empty());
  store.run(kCountsMax, count);
  EXPECT_EQ(results, std::vector<Status>{Status::kNotApplied}) << "-TRYAGAIN";
  store.run(kCountsMax, {.ticket = {}, .request = {.kind = Kind::kGet, .key = "key"}});
  EXPECT_EQ(results.size(), 1u);
  client->reset();
  EXPECT_EQ(results.size(), kCountsMax + 2);
}

class StoreClientPuts : public GroupsTest {
 protected:
  void SetUp() override {
    start_cluster(2);
    store_.emplace(*client_, tables_, [this](uint64_t connection, const StoreTicket& ticket, StoreResult&& result) {
      EXPECT_EQ(connection, 9U);
      EXPECT_EQ(ticket.command, 4U);
      EXPECT_TRUE(result.ok());
      failed_.emplace();
      for (const StoreResult::FailedPut& put : result.failed_puts) (*failed_)[put.index] = put.status;
    });
  }
  /// What failed of the PUTs, by their places.
  std::map<uint32_t, Status> run(const std::vector<std::string>& keys_and_values) {
    failed_.reset();
    {
      CommandArguments words;
      words.append("set");
      words.end_argument();
      for (const std::string& word : keys_and_values) {
        words.append(word);
        words.end_argument();
      }
      store_->run(9, {.ticket = {.command = 4}, .request = {.kind = Kind::kPuts, .puts = &words}});
    }  // the words need not live longer
    store_->flush_puts();
    while (!failed_.has_value()) client_->poll(std::chrono::milliseconds(10));
    return *failed_;
  }
  std::string get(std::string_view key) {
    std::optional<std::string> value;
    EXPECT_TRUE(client_->get(table_, key, {}, [&](GetResult&& got) { value = std::string(got.value.bytes()); }).ok());
    while (!value.has_value()) client_->poll(std::chrono::milliseconds(10));
    return *value;
  }
  using Failed = std::map<uint32_t, Status>;

  const std::map<uint32_t, std::string> tables_ = {{0, table_}};
  std::optional<StoreClient> store_;
  std::optional<Failed> failed_;
};

/// A command gives its words back when it has its result.
TEST_F(StoreClientPuts, ThatAreAllRefusedAtOnceNeedTheWordsNoLonger) {
  warm_up();
  auto words = std::make_unique<CommandArguments>();
  for (const std::string& word :
       {std::string("set"), std::string(), std::string("1"), std::string(), std::string("2")}) {
    words->append(word);
    words->end_argument();
  }
  size_t failed = 0;
  StoreClient store(*client_, tables_,
                    [&](uint64_t /*connection*/, const StoreTicket& /*ticket*/, StoreResult&& result) {
                      failed = result.failed_puts.size();
                      words.reset();
                    });
  store.run(9, {.ticket = {.command = 4}, .request = {.kind = Kind::kPuts, .puts = words.get()}});
  EXPECT_EQ(failed, 2U);
}

TEST_F(StoreClientPuts, OfSeveralShardsHaveOneResult) {
  warm_up();
  std::vector<std::string> words;
  for (int i = 0; i < 20; ++i) {
    words.push_back(absl::StrCat("key", i));
    words.push_back(absl::StrCat("value", i));
  }
  EXPECT_EQ(run(words), Failed{});
  EXPECT_EQ(calls(), (std::map<Method, size_t>{{Method::kBatch, 2}}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get(absl::StrCat("key", i)), absl::StrCat("value", i));
}

TEST_F(StoreClientPuts, OfATableThatIsNotKnownYetGoAlone) {
  EXPECT_EQ(run({"a", "1", "b", "2"}), Failed{});
  EXPECT_EQ(calls(), (std::map<Method, size_t>{{Method::kPut, 2}}));
  EXPECT_EQ(get("b"), "2");
}

TEST_F(StoreClientPuts, ThoseThatFailAreTold) {
  warm_up();
  const std::string long_key(kKeyBytesMax + 1, 'k');
  EXPECT_EQ(run({"a", "1", long_key, "2", "b", "3"}), (Failed{{1, Status::kRefused}}));
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(get("b"), "3");
  refuses_ = true;
  EXPECT_EQ(run({"a", "4", "b", "5"}), (Failed{{0, Status::kNoRight}, {1, Status::kNoRight}}));
  refuses_ = false;
  EXPECT_EQ(run({"a", "6"}), Failed{}) << "what failed before is forgotten";
}

}  // namespace
}  // namespace skua::kv::gateway
