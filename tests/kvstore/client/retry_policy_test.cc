#include "kvstore/client/retry_policy.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

constexpr Repeat kRead = Repeat::kRead;
constexpr Repeat kWrite = Repeat::kUnidentified;
constexpr Repeat kIdentified = Repeat::kIdentified;
constexpr Repeat kAll[] = {kRead, kWrite, kIdentified};

rpc::CallResult failed_call(absl::StatusCode code, bool from_peer, bool may_have_executed) {
  return {
      .status = absl::Status(code, ""), .response = {}, .from_peer = from_peer, .may_have_executed = may_have_executed};
}

TEST(JudgeReply, AnswersAreAnswers) {
  for (KvStatus status :
       {KvStatus::kOk, KvStatus::kNotFound, KvStatus::kAlreadyExists, KvStatus::kVersionMismatch, KvStatus::kNotARow,
        KvStatus::kIsARow, KvStatus::kNotANumber, KvStatus::kCounterOverflow, KvStatus::kBehindToken}) {
    for (Repeat repeat : kAll) EXPECT_EQ(judge_reply(repeat, status).verdict, Verdict::kAnswer);
  }
}

TEST(JudgeReply, WrongShardRefreshesAndRetriesReadsAndWrites) {
  for (Repeat repeat : kAll) {
    const Judgement judgement = judge_reply(repeat, KvStatus::kWrongShard);
    EXPECT_EQ(judgement.verdict, Verdict::kRetry);
    EXPECT_TRUE(judgement.refresh_map);
  }
}

TEST(JudgeReply, OverloadRetriesWithoutRefreshing) {
  const Judgement judgement = judge_reply(kWrite, KvStatus::kResourceExhausted);
  EXPECT_EQ(judgement.verdict, Verdict::kRetry);
  EXPECT_FALSE(judgement.refresh_map);
}

TEST(JudgeReply, UncertainAnswersRetryReadsAndIdentifiedWrites) {
  for (KvStatus status : {KvStatus::kUnavailable, KvStatus::kAborted, KvStatus::kCancelled}) {
    EXPECT_EQ(judge_reply(kIdentified, status),
              (Judgement{.verdict = Verdict::kRetry, .refresh_map = true, .may_have_been_applied = true}));
    EXPECT_EQ(judge_reply(kRead, status).verdict, Verdict::kRetry);
    EXPECT_EQ(judge_reply(kWrite, status), (Judgement{.verdict = Verdict::kGiveUp, .may_have_been_applied = true}));
  }
}

TEST(JudgeReply, TooManyResultsKeptRetriesAndATooLateRetryEndsIt) {
  EXPECT_EQ(judge_reply(kIdentified, KvStatus::kTooManyIncomplete).verdict, Verdict::kRetry);
  const Judgement stale = judge_reply(kIdentified, KvStatus::kStaleRetry);
  EXPECT_EQ(stale.verdict, Verdict::kGiveUp);
  EXPECT_TRUE(stale.may_have_been_applied);
}

TEST(JudgeReply, FailedStorageMayHaveApplied) {
  EXPECT_TRUE(judge_reply(kWrite, KvStatus::kStorageFailed).may_have_been_applied);
  EXPECT_FALSE(judge_reply(kWrite, KvStatus::kShardReadOnly).may_have_been_applied);
  EXPECT_FALSE(judge_reply(kWrite, KvStatus::kNotARow).may_have_been_applied);
  EXPECT_FALSE(judge_reply(kRead, KvStatus::kStorageFailed).may_have_been_applied);
}

TEST(JudgeFailure, RepeatsAnIdentifiedWriteLikeARead) {
  for (int code = 1; code <= 16; ++code) {
    for (bool from_peer : {false, true}) {
      const rpc::CallResult failure = failed_call(static_cast<absl::StatusCode>(code), from_peer, true);
      const Judgement judgement = judge_failure(kIdentified, failure);
      EXPECT_EQ(judgement.verdict, judge_failure(kRead, failure).verdict) << code;
      EXPECT_TRUE(judgement.may_have_been_applied) << code;
    }
  }
}

/// The rule itself, over everything: a write that may have run and has no identity is never repeated, and always said
/// to be uncertain.
TEST(JudgeFailure, NeverRepeatsAWriteThatMayHaveRun) {
  for (int code = 1; code <= 16; ++code) {
    for (bool from_peer : {false, true}) {
      const rpc::CallResult failure = failed_call(static_cast<absl::StatusCode>(code), from_peer, true);
      const Judgement judgement = judge_failure(kWrite, failure);
      EXPECT_EQ(judgement.verdict, Verdict::kGiveUp) << code;
      EXPECT_TRUE(judgement.may_have_been_applied) << code;
    }
  }
}

TEST(JudgeFailure, NothingIsUncertainThatDidNotRun) {
  for (int code = 1; code <= 16; ++code) {
    for (Repeat repeat : kAll) {
      const rpc::CallResult failure = failed_call(static_cast<absl::StatusCode>(code), false, false);
      EXPECT_FALSE(judge_failure(repeat, failure).may_have_been_applied) << code;
    }
  }
}

TEST(JudgeFailure, LostSessionsRetryAndAreSuspect) {
  for (absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kAborted, absl::StatusCode::kCancelled}) {
    const Judgement read = judge_failure(kRead, failed_call(code, false, true));
    EXPECT_EQ(read.verdict, Verdict::kRetry);
    EXPECT_TRUE(read.session_suspect);
    EXPECT_EQ(judge_failure(kWrite, failed_call(code, false, false)).verdict, Verdict::kRetry);
  }
}

TEST(JudgeFailure, AFullQueueSaysNothingAgainstTheSession) {
  const Judgement judgement = judge_failure(kRead, failed_call(absl::StatusCode::kResourceExhausted, false, false));
  EXPECT_EQ(judgement.verdict, Verdict::kRetry);
  EXPECT_FALSE(judgement.session_suspect);
}

TEST(JudgeFailure, DeadlineAndBadArgumentsEndIt) {
  EXPECT_EQ(judge_failure(kRead, failed_call(absl::StatusCode::kDeadlineExceeded, false, true)).verdict,
            Verdict::kGiveUp);
  EXPECT_EQ(judge_failure(kRead, failed_call(absl::StatusCode::kInvalidArgument, false, false)).verdict,
            Verdict::kGiveUp);
  EXPECT_EQ(judge_failure(kRead, failed_call(absl::StatusCode::kInternal, true, true)).verdict, Verdict::kGiveUp);
}

TEST(RetryPause, DoublesWithJitterUpToItsMaximum) {
  Rng rng(5);
  for (int round = 0; round < 1000; ++round) {
    for (uint32_t attempt = 1; attempt <= 40; ++attempt) {
      const DurationNs whole = attempt < 10 ? 1000 << (attempt - 1) : 256'000;
      const DurationNs pause = retry_pause(attempt, 1000, 256'000, rng);
      EXPECT_GE(pause, std::min<DurationNs>(whole, 256'000) / 2);
      EXPECT_LE(pause, std::min<DurationNs>(whole, 256'000));
    }
  }
}

TEST(RetryPause, IsNeverZero) {
  Rng rng(5);
  EXPECT_GE(retry_pause(0, 1, 1, rng), 1);
}

}  // namespace
}  // namespace skua::kv
