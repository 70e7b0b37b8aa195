// Registrations that wait for an answer: nobody else waits, and how many may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "absl/strings/str_cat.h"
#include "control/proto/redirect.h"
#include "control/server/controller.h"
#include "control/server/controller_limits.h"
#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/fake_probe.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class ControllerClaimsTest : public testing::Test {
 protected:
  ControllerClaimsTest() : states_(store_) {
    auto state = states_.load_or_create({}, kClusterId);
    controller_ = std::make_unique<Controller>(
        ControllerOptions{.core = {.suspect_after_ns = 3600 * kSecond}, .tick_ns = 2 * kMillisecond, .log = {}},
        states_, *std::move(state), clock_, hub_, std::make_unique<HeldProbe>(questions_));
    controller_->start();
  }

  using Future = std::future<absl::Status>;

  Future submit(Event event, const std::string& source = "") {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    Future future = promise->get_future();
    const auto status = controller_->submit(
        std::move(event),
        [promise](const Decision& decision, const ClusterCore&) { promise->set_value(decision.status); }, source);
    if (!status.ok()) promise->set_value(status);
    return future;
  }
  Future claim(const NodeInfo& node, const std::string& source = "") {
    return submit(RegisterNode{kClusterId, node, 0}, source);
  }
  HeldProbe::Question wait_for_question() {
    EXPECT_TRUE(eventually([&] { return questions_.size() > 0; }));
    return questions_.take();
  }
  /// Registers the node, its address answering as it says.
  void join(const NodeInfo& node) {
    Future joined = claim(node);
    HeldProbe::Question question = wait_for_question();
    question.done(answer_of(node));
    EXPECT_TRUE(joined.get().ok());
  }

  HeldProbe::Questions questions_;
  SteadyClock clock_;
  MemoryStore store_;
  StateStore states_;
  MapHub hub_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerClaimsTest, AsksTheAddressAndDecidesByTheAnswer) {
  join(test_node(1));
  Future forged = claim(test_node(1, 2));
  HeldProbe::Question question = wait_for_question();
  EXPECT_EQ(question.address, "host-1:7500");
  EXPECT_EQ(question.claimed, test_node(1, 2));
  question.done(answer_of(test_node(1, 1)));
  EXPECT_EQ(forged.get().code(), StatusCode::kAlreadyExists);

  Future restarted = claim(test_node(1, 2));
  question = wait_for_question();
  question.done(answer_of(test_node(1, 2)));
  EXPECT_TRUE(restarted.get().ok());
}

TEST_F(ControllerClaimsTest, AQuestionHoldsNobodyUp) {
  join(test_node(1));
  Future waiting = claim(test_node(1, 2));
  HeldProbe::Question question = wait_for_question();
  const NodeInfo node = test_node(1);
  EXPECT_TRUE(submit(NodeHeartbeat{node.uuid, 1, node.instance, 0}).get().ok());
  EXPECT_TRUE(submit(CreateTable{"t", 1}).get().ok());
  join(test_node(2));
  question.done({.address = question.address});
  EXPECT_EQ(waiting.get().code(), StatusCode::kUnavailable);
}

TEST_F(ControllerClaimsTest, WhoeverWaitsWhenTheLeadIsLostIsSentToTheLeader) {
  join(test_node(1));
  Future waiting = claim(test_node(1, 2));
  HeldProbe::Question question = wait_for_question();
  controller_->set_leadership({.leads = false, .term = 7, .leader = "other:7400", .trouble = {}});
  const absl::Status status = waiting.get();  // nobody answers the question before
  EXPECT_EQ(redirected_to(status), "other:7400") << status;
  EXPECT_FALSE(is_leaders_answer(status));
  question.done(answer_of(test_node(1, 2)));
  EXPECT_EQ(redirected_to(claim(test_node(1, 3)).get()), "other:7400");
}

TEST_F(ControllerClaimsTest, NotYetIsTheLeadersAnswer) {
  join(test_node(1));
  Future first = claim(test_node(1, 2));
  HeldProbe::Question question = wait_for_question();
  const absl::Status second = claim(test_node(1, 3)).get();
  EXPECT_EQ(second.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(is_leaders_answer(second)) << "no other process could say more";
  question.done({.address = question.address});
  const absl::Status unproven = first.get();
  EXPECT_EQ(unproven.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(is_leaders_answer(unproven));
  EXPECT_FALSE(redirected_to(unproven));
}

TEST_F(ControllerClaimsTest, OneQuestionAtATimeForANode) {
  join(test_node(1));
  Future first = claim(test_node(1, 2));
  HeldProbe::Question question = wait_for_question();
  const absl::Status second = claim(test_node(1, 3)).get();
  EXPECT_EQ(second.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr("an earlier claim"));
  question.done(answer_of(test_node(1, 2)));
  EXPECT_TRUE(first.get().ok());
}

TEST_F(ControllerClaimsTest, ClaimsElsewhereDoNotKeepTheNodeOutOfItsPlace) {
  join(test_node(1));
  const NodeInfo node = test_node(1);
  ASSERT_TRUE(submit(NodeHeartbeat{node.uuid, 1, node.instance, 0, true}).get().ok());
  NodeInfo stranger = test_node(1, 2);
  stranger.grpc_address = "blackhole:7500";
  Future elsewhere = claim(stranger);
  HeldProbe::Question never = wait_for_question();
  EXPECT_EQ(never.address, "blackhole:7500");
  join(test_node(1, 2));
  never.done({.address = never.address});
  EXPECT_FALSE(elsewhere.get().ok());
}

TEST_F(ControllerClaimsTest, ClaimsElsewhereDoNotKeepTheNodeFromMoving) {
  join(test_node(1));
  const NodeInfo node = test_node(1);
  ASSERT_TRUE(submit(NodeHeartbeat{node.uuid, 1, node.instance, 0, true}).get().ok());
  NodeInfo stranger = test_node(1, 2);
  stranger.grpc_address = "blackhole:7500";
  Future elsewhere = claim(stranger);
  HeldProbe::Question never = wait_for_question();
  NodeInfo moved = test_node(1, 2);
  moved.grpc_address = "host-9:7500";
  Future real = claim(moved);
  HeldProbe::Question question = wait_for_question();
  EXPECT_EQ(question.address, "host-9:7500");
  question.done(answer_of(moved));
  EXPECT_TRUE(real.get().ok());
  never.done({.address = never.address});
  EXPECT_FALSE(elsewhere.get().ok());
}

TEST_F(ControllerClaimsTest, WhatOneHostMayHoldIsBoundedAndAllTogether) {
  std::vector<Future> waiting;
  uint64_t next = 1;
  const auto fill = [&](const std::string& source) {
    for (size_t i = 0; i < kClaimsPerSourceMax; ++i) waiting.push_back(claim(test_node(next++), source));
    const absl::Status more = claim(test_node(next++), source).get();
    EXPECT_EQ(more.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(more.message()), HasSubstr("Try again"));
  };
  for (size_t host = 0; host < kClaimsMax / kClaimsPerSourceMax; ++host) fill(absl::StrCat("host ", host));
  EXPECT_EQ(claim(test_node(next++), "another host").get().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(eventually([&] { return questions_.size() == kClaimsMax; }));
  for (Future& taken : waiting) {
    HeldProbe::Question question = wait_for_question();
    question.done(answer_of(question.claimed));
    EXPECT_TRUE(taken.get().ok());
  }
  join(test_node(next));
}

TEST_F(ControllerClaimsTest, WhatChangedMeanwhileCounts) {
  Future first = claim(test_node(1, 2), "a");
  HeldProbe::Question question = wait_for_question();
  // Meanwhile another control process registers a later process of the node.
  StateStore other(store_);
  ASSERT_TRUE(other.load().ok());
  Changes changes;
  changes.put_nodes.push_back(test_node(1, 3));
  changes.map_revision = 2;
  changes.next_table_id = 1;
  ASSERT_TRUE(*other.commit(changes));
  question.done(answer_of(test_node(1, 2)));
  EXPECT_EQ(first.get().code(), StatusCode::kFailedPrecondition);
}

TEST_F(ControllerClaimsTest, StopAnswersClaimsThatWait) {
  Future waiting = claim(test_node(1));
  HeldProbe::Question question = wait_for_question();
  controller_->stop();
  EXPECT_EQ(waiting.get().code(), StatusCode::kUnavailable);
  question.done(answer_of(test_node(1)));
}

}  // namespace
}  // namespace skua::control
