#include "kvstore/gateway/store_client.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/gateway/store_outcome.h"

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

}  // namespace
}  // namespace skua::kv::gateway
