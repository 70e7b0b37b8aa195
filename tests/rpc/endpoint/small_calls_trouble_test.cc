// Small calls when something stands in their way: a peer that hangs, credits that others have, no memory, an id of a
// connection that is over.
#include "tests/rpc/endpoint/small_calls_net.h"

namespace skua::rpc::testing {
namespace {

class SmallCallsTroubleTest : public SmallCallsNet {
 protected:
  void attach(const SimTransportOptions& options) {
    caller_transport_.reset();
    server_transport_.reset();
    caller_transport_ = network_.attach(kCallerAddress, identity(1), options);
    server_transport_ = network_.attach(kServerAddress, identity(2), options);
  }
  /// The caller alone: the server hangs, and its connection stands.
  void run_caller(DurationNs time_ns, const std::function<bool()>& until) {
    const TimeNs limit = network_.now_ns() + time_ns;
    while (!until() && network_.now_ns() < limit) {
      caller_->poll();
      network_.advance_to(std::min({limit, std::max(network_.next_event_ns(), network_.now_ns() + 1),
                                    std::max(caller_->next_timer_ns(), network_.now_ns() + 1)}));
    }
  }
};

/// Nothing repeats a record on a stream, so nothing else would find out.
TEST_F(SmallCallsTroubleTest, OverAStream_APeerThatHangsIsNoticed) {
  attach({.connected = true});
  join();
  Ended& ended = call(kEcho, "is anybody there?", {.timeout_ns = 50 * kSecond});
  run_caller(30 * kSecond, [&] { return ended.completions > 0; });
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(ended.may_have_executed);
}

/// A handler that takes its time is asked after, and not asked again.
TEST_F(SmallCallsTroubleTest, OverAStream_ASlowHandlerRunsOnce) {
  attach({.connected = true});
  join();
  Ended& ended = call(kHold, "take your time", {.timeout_ns = 50 * kSecond});
  run([&] { return !held_.empty(); });
  run_for(8 * kSecond);
  EXPECT_EQ(packets(PacketType::kRequest), 0u);
  answer_held();
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.bytes, "late");
  EXPECT_EQ(served_, 1);
  expect_rest();
}

/// The large one has all credits, and gives some of them back as it gets on.
TEST_F(SmallCallsTroubleTest, BesideALargeMessage_ASmallCallGetsItsTurn) {
  caller_options_.protocol.credits = server_options_.protocol.credits = 4;
  join();
  Ended& large = call(kEcho, std::string(500'000, 'x'), {.timeout_ns = 50 * kSecond});
  run_for(100 * kMicrosecond);
  Ended& small = call(kEcho, "small", {.timeout_ns = 50 * kSecond});
  run([&] { return small.completions > 0; });
  EXPECT_EQ(large.completions, 0);
  run([&] { return large.completions > 0; });
  expect_rest();
}

TEST_F(SmallCallsTroubleTest, AnIdOfABrokenConnection_CancelsNothing) {
  caller_options_.protocol.peer_timeout_ns = 2 * kSecond;
  join();
  Ended& before = call(kHold, "before");
  const CallId stale = last_id_;
  run([&] { return !held_.empty(); });
  held_.clear();
  server_.reset();
  server_transport_.reset();
  server_transport_ = network_.attach(kServerAddress, identity(2, 2), {});
  server_options_.simulation_seed = 40;
  joined_ = 0;
  start_server();
  run([&] { return before.completions > 0; });
  run_until_joined();
  EXPECT_TRUE(echoes("makes the sslots"));
  call(kHold, "after");
  ASSERT_EQ(last_id_.index, stale.index);
  // Of the new connection's calls one has that number.
  while (last_id_.number != stale.number && ended_.size() < 1000) {
    held_.clear();
    run([&] { return ended_.back().completions > 0; });
    call(kHold, "after");
  }
  ASSERT_EQ(last_id_.number, stale.number);
  Ended& last = ended_.back();
  caller_->cancel(stale);
  EXPECT_EQ(last.completions, 0);
  run([&] { return !held_.empty(); });
  answer_held();
  run([&] { return last.completions > 0; });
  EXPECT_TRUE(last.status.ok());
  expect_rest();
}

/// The small ones never leave the credits at rest, and each of them costs a part of one.
class SmallCallsWithoutEndTest : public SmallCallsTroubleTest, public ::testing::WithParamInterface<int> {};

TEST_P(SmallCallsWithoutEndTest, ALargeCallGetsItsTurn) {
  caller_options_.protocol.credits = server_options_.protocol.credits = 2;
  join();
  size_t ended = 0;
  bool goes_on = true;
  std::function<void()> next = [&] {
    const auto started =
        caller_->call(session_, kEcho, as_byte_span("small"), {.timeout_ns = 50 * kSecond}, [&](CallResult&&) {
          ++ended;
          if (goes_on) next();
        });
    ASSERT_TRUE(started.ok());
  };
  for (int i = 0; i < GetParam(); ++i) next();
  run([&] { return ended > 100; });
  Ended& large = call(kEcho, std::string(5000, 'x'), {.timeout_ns = 50 * kSecond});
  run([&] { return large.completions > 0 || ended > 5000; });
  EXPECT_LT(ended, 1000u);
  EXPECT_TRUE(large.status.ok()) << large.status;
  goes_on = false;
  run([&] { return caller_->balance().calls == 0; });
  expect_rest();
}

// Eight fit into the credits, and leave no backlog.
INSTANTIATE_TEST_SUITE_P(Callers, SmallCallsWithoutEndTest, ::testing::Values(5, 7, 8, 40));

TEST_F(SmallCallsTroubleTest, AfterAWaveOfLargeCalls_SmallOnesGoInBundlesAgain) {
  caller_options_.calls_max = 4;
  join();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(call(kEcho, std::string(20'000, 'x')).status.ok());
  run([&] { return ended_.back().completions > 0 && caller_->balance().calls == 0; });
  records_.clear();
  EXPECT_TRUE(echoes("small"));
  EXPECT_EQ(records(RecordKind::kRequest), 1u);
  expect_rest();
}

/// A call that waits for a credit and is a small one then is one call all the time.
TEST_F(SmallCallsTroubleTest, ACallThatWaited_IsCountedOnce) {
  caller_options_.protocol.credits = 1;  // four small calls'
  join();
  const uint64_t completed = caller_->counters().calls_completed;
  for (int i = 0; i < 12; ++i) call(kEcho, "one of twelve", {.timeout_ns = 50 * kSecond});
  EXPECT_EQ(caller_->balance().calls, 12u);
  run([&] { return records(RecordKind::kRequest) > 4; });
  const auto over = [](const Ended& one) { return one.completions > 0; };
  run([&] {
    EXPECT_EQ(caller_->balance().calls,
              static_cast<size_t>(std::count_if(ended_.begin() + 1, ended_.end(), std::not_fn(over))));
    return std::all_of(ended_.begin(), ended_.end(), over);
  });
  EXPECT_EQ(caller_->counters().calls_completed, completed + 12);
  EXPECT_EQ(records(RecordKind::kRequest), 12u) << "none of them became a large one";
  expect_rest();
}

/// The network may still let the word of the end pass by.
TEST_F(SmallCallsTroubleTest, TheAnswerBeforeAClose_IsSent) {
  join();
  call(kHold, "the last one");
  run([&] { return !held_.empty(); });
  const SessionId theirs = held_.front().session;
  answer_held("goodbye");
  server_->close(theirs);
  run_for(kMillisecond);
  EXPECT_EQ(records(RecordKind::kResponse), 1u);
}

/// Nothing is dropped in silence where nothing is repeated.
TEST_F(SmallCallsTroubleTest, WithoutMemoryForCopies_FramesAreLentAboveTheWatermark) {
  attach({.rx_ring = 8, .connected = true});
  server_options_.memory_limit_bytes = 1;
  join();
  for (int i = 0; i < 6; ++i) {
    call(kHold, "kept " + std::to_string(i), {.timeout_ns = 50 * kSecond});
    run([&] { return held_.size() == static_cast<size_t>(i) + 1; }, kSecond);
  }
  EXPECT_GT(server_->balance().lent_buffers, 4u);
  answer_held();
  expect_rest();
}

}  // namespace
}  // namespace skua::rpc::testing
