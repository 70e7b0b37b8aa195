#include "kvstore/types/status.h"

#include <gtest/gtest.h>

#include <string>

#include "kvstore/codec/methods.h"

namespace skua::kv {
namespace {

TEST(MethodsTest, MethodName_EachAndNone) {
  EXPECT_STREQ(method_name(Method::kGet), "GET");
  EXPECT_STREQ(method_name(Method::kMultiGet), "MULTI_GET");
  EXPECT_STREQ(method_name(Method::kBatch), "BATCH");
  EXPECT_STREQ(method_name(static_cast<Method>(11)), "?");
}

TEST(StatusTest, ToStatusCode_GrpcCodesKeepTheirNumber) {
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(static_cast<int>(to_status_code(static_cast<KvStatus>(code))), code);
    EXPECT_EQ(from_status_code(static_cast<absl::StatusCode>(code)), static_cast<KvStatus>(code));
    EXPECT_STREQ(status_name(static_cast<KvStatus>(code)),
                 absl::StatusCodeToString(static_cast<absl::StatusCode>(code)).c_str());
  }
}

TEST(StatusTest, StatusText_NamesWhatTheCodeDoesNotSay) {
  EXPECT_EQ(status_text(KvStatus::kUnavailable, "stopping"), "stopping");
  EXPECT_EQ(status_text(KvStatus::kUnavailable, ""), "the node gives no reason");
  EXPECT_EQ(status_text(KvStatus::kWrongShard, "epoch 7"), "WRONG_SHARD: epoch 7");
  EXPECT_EQ(status_text(KvStatus::kWrongShard, ""), "WRONG_SHARD");
}

TEST(StatusTest, ToStatusCode_OwnCodes) {
  EXPECT_EQ(to_status_code(KvStatus::kWrongShard), absl::StatusCode::kUnavailable);
  EXPECT_EQ(to_status_code(KvStatus::kVersionMismatch), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(to_status_code(KvStatus::kNotARow), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(to_status_code(KvStatus::kIsARow), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(rests_on_state(KvStatus::kIsARow));
  EXPECT_EQ(to_status_code(KvStatus::kStorageFailed), absl::StatusCode::kDataLoss);
  EXPECT_EQ(to_status_code(KvStatus::kShardReadOnly), absl::StatusCode::kUnavailable);
  EXPECT_EQ(to_status_code(KvStatus::kNotANumber), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(to_status_code(KvStatus::kCounterOverflow), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(to_status_code(KvStatus::kStaleRetry), absl::StatusCode::kAborted);
  EXPECT_EQ(to_status_code(KvStatus::kTooManyIncomplete), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(to_status_code(KvStatus::kBehindToken), absl::StatusCode::kFailedPrecondition);
  EXPECT_STREQ(status_name(KvStatus::kBehindToken), "BEHIND_TOKEN");
}

TEST(StatusTest, EachOwnCodeHasAName) {
  for (int code = static_cast<int>(KvStatus::kWrongShard); code <= static_cast<int>(KvStatus::kIsARow); ++code) {
    EXPECT_STRNE(status_name(static_cast<KvStatus>(code)), "UNKNOWN") << code;
  }
}

TEST(StatusTest, ToStatusCode_UnknownBytes) {
  EXPECT_EQ(to_status_code(static_cast<KvStatus>(17)), absl::StatusCode::kUnknown);
  EXPECT_EQ(to_status_code(static_cast<KvStatus>(255)), absl::StatusCode::kUnknown);
  EXPECT_STREQ(status_name(static_cast<KvStatus>(255)), "UNKNOWN");
  EXPECT_EQ(from_status_code(static_cast<absl::StatusCode>(99)), KvStatus::kUnknown);
}

TEST(StatusTest, CertainlyNotApplied_OnlyWhereNothingCanHaveHappened) {
  EXPECT_TRUE(certainly_not_applied(KvStatus::kWrongShard));
  EXPECT_TRUE(certainly_not_applied(KvStatus::kShardReadOnly));
  EXPECT_TRUE(certainly_not_applied(KvStatus::kVersionMismatch));
  EXPECT_TRUE(certainly_not_applied(KvStatus::kCounterOverflow));
  EXPECT_FALSE(certainly_not_applied(KvStatus::kStaleRetry));
  EXPECT_FALSE(certainly_not_applied(KvStatus::kOk));
  EXPECT_FALSE(certainly_not_applied(KvStatus::kStorageFailed));
  EXPECT_FALSE(certainly_not_applied(KvStatus::kUnavailable));
  EXPECT_FALSE(certainly_not_applied(static_cast<KvStatus>(200)));
}

}  // namespace
}  // namespace skua::kv
