#include "control/server/status_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/server/controller_limits.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

StatusMessage status_at(uint64_t revision) {
  auto status = std::make_shared<v1::GetStatusReply>();
  status->set_map_revision(revision);
  return status;
}

class StatusBoardTest : public testing::Test {
 protected:
  void ask(TimeNs now, uint64_t generation) {
    board_.ask(now, generation, [this](const absl::StatusOr<StatusMessage>& status) {
      status.ok() ? answers_.push_back((*status)->map_revision()) : refusals_.push_back(status.status().code());
    });
  }

  absl::Status can_make_;
  size_t made_ = 0;
  StatusBoard board_{[this] {
    ++made_;
    return can_make_;
  }};
  std::vector<uint64_t> answers_;
  std::vector<StatusCode> refusals_;
};

TEST_F(StatusBoardTest, AFloodOfQuestionsIsMadeOnce) {
  for (size_t i = 0; i < kStatusWaitersMax; ++i) ask(0, 1);
  EXPECT_EQ(made_, 1u);
  EXPECT_THAT(answers_, IsEmpty());
  board_.post(status_at(7), 0, 1);
  EXPECT_EQ(answers_.size(), kStatusWaitersMax);
  for (int i = 0; i < 1000; ++i) ask(kStatusAge - 1, 1);
  EXPECT_EQ(answers_.size(), kStatusWaitersMax + 1000);
  EXPECT_EQ(made_, 1u);
}

TEST_F(StatusBoardTest, AnOldCopyIsMadeAnew) {
  ask(0, 1);
  board_.post(status_at(7), 0, 1);
  ask(kStatusAge, 1);
  EXPECT_EQ(made_, 2u);
  board_.post(status_at(7), kStatusAge, 1);
  EXPECT_THAT(answers_, ElementsAre(7, 7));
}

TEST_F(StatusBoardTest, WhoeverChangedSomethingFindsIt) {
  ask(0, 1);
  board_.post(status_at(7), 0, 1);
  ask(1, 2);
  EXPECT_EQ(made_, 2u);
  board_.post(status_at(8), 1, 2);
  EXPECT_THAT(answers_, ElementsAre(7, 8));
}

TEST_F(StatusBoardTest, SoManyMayWait) {
  for (size_t i = 0; i < kStatusWaitersMax; ++i) ask(0, 1);
  ask(0, 1);
  EXPECT_THAT(refusals_, ElementsAre(StatusCode::kResourceExhausted));
  board_.post(status_at(7), 0, 1);
  EXPECT_EQ(answers_.size(), kStatusWaitersMax);
}

TEST_F(StatusBoardTest, WhatCannotBeMadeIsSaidAndTriedAgain) {
  can_make_ = absl::ResourceExhaustedError("full");
  ask(0, 1);
  EXPECT_THAT(refusals_, ElementsAre(StatusCode::kResourceExhausted));
  can_make_ = absl::OkStatus();
  ask(0, 1);
  board_.post(absl::UnavailableError("another leads"), 0, 1);
  EXPECT_THAT(refusals_, ElementsAre(StatusCode::kResourceExhausted, StatusCode::kUnavailable));
  ask(0, 1);
  EXPECT_EQ(made_, 3u) << "an error is not kept";
}

}  // namespace
}  // namespace skua::control
