// Small calls between endpoints: answers of all kinds, what gives up, whose memory it is.
#include "tests/rpc/endpoint/small_calls_net.h"

namespace skua::rpc::testing {
namespace {

class SmallCallsEndpointTest : public SmallCallsNet {};

// --- Answers ---------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsEndpointTest, ALargeAnswer_ToASmallRequestComesInPackets) {
  join();
  Ended& ended = call(kLarge, "give");
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.bytes, std::string(kLargeBytes, 'l'));
  EXPECT_EQ(records(RecordKind::kRequest), 1u);
  EXPECT_EQ(records(RecordKind::kResponse), 0u);
  EXPECT_GE(packets(PacketType::kResponse), kLargeBytes / 1024);
  EXPECT_EQ(packets(PacketType::kRequest), 0u);
  EXPECT_TRUE(echoes("the next one"));
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, AnError_ComesInAPacket) {
  join();
  Ended& ended = call(kFail, "please");
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ended.status.message(), "on purpose");
  EXPECT_TRUE(ended.from_peer);
  EXPECT_TRUE(ended.may_have_executed);
  EXPECT_EQ(packets(PacketType::kResponse), 1u);
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, WithoutAHandler_TheCallCertainlyDidNotRun) {
  join();
  Ended& ended = call(kNobodys, "who");
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(ended.may_have_executed);
  EXPECT_EQ(records(RecordKind::kRequest), 1u);
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, ALateAnswer_ComesInABundle) {
  join();
  Ended& ended = call(kHold, "wait");
  run([&] { return !held_.empty(); });
  answer_held();
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.bytes, "late");
  EXPECT_EQ(records(RecordKind::kResponse), 1u);
  expect_rest();
}

/// The caller asks again meanwhile, in a packet: the answer comes in one, too.
TEST_F(SmallCallsEndpointTest, AnAnswerLaterThanTheProbe_GoesOnInPackets) {
  join();
  Ended& ended = call(kHold, "wait long");
  run([&] { return !held_.empty(); });
  run_for(20 * kMillisecond);
  EXPECT_GE(packets(PacketType::kRequest), 1u);
  EXPECT_GE(packets(PacketType::kAck), 1u);
  answer_held();
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.bytes, "late");
  EXPECT_EQ(served_, 1);
  EXPECT_TRUE(echoes("in a bundle again"));
  EXPECT_EQ(records(RecordKind::kResponse), 1u);
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, ALostRequest_IsRepeatedInAPacket) {
  join();
  loses_bundles_ = true;
  Ended& ended = call(kEcho, "lost");
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.bytes, "lost");
  EXPECT_EQ(served_, 1);
  EXPECT_EQ(packets(PacketType::kRequest), 1u);
  loses_bundles_ = false;
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, ALostAnswer_IsGivenAgainWithoutRunningAgain) {
  join();
  loses_answers_ = true;
  Ended& ended = call(kEcho, "lost");
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.bytes, "lost");
  EXPECT_EQ(served_, 1);
  EXPECT_EQ(packets(PacketType::kResponse), 1u);
  loses_answers_ = false;
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, ADeadline_PassesForASmallCallToo) {
  join();
  Ended& ended = call(kHold, "for long", {.timeout_ns = 3 * kMillisecond});
  const TimeNs begun = network_.now_ns();
  run([&] { return ended.completions > 0; });
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(ended.may_have_executed);
  EXPECT_GE(network_.now_ns(), begun + 3 * kMillisecond);
  EXPECT_LE(network_.now_ns(), begun + 4 * kMillisecond);
  EXPECT_GE(held_.front().deadline_ns, begun + 3 * kMillisecond) << "no handler believes in less than there is";
  answer_held();
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, AOneWayCall_GoesInAPacket) {
  join();
  Ended& ended = call(kEcho, "only that", {.timeout_ns = kSecond, .one_way = true});
  run([&] { return ended.completions > 0; });
  EXPECT_TRUE(ended.status.ok());
  EXPECT_EQ(served_, 1);
  EXPECT_EQ(records(RecordKind::kRequest), 0u);
  expect_rest();
}

// --- Giving up -------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsEndpointTest, Cancel_OfASmallCall) {
  join();
  Ended& ended = call(kHold, "no longer wanted");
  run([&] { return !held_.empty(); });
  caller_->cancel(last_id_);
  EXPECT_EQ(ended.completions, 1);
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kCancelled);
  caller_->cancel(last_id_);
  EXPECT_EQ(ended.completions, 1) << "it is over";
  run_for(kMillisecond);
  EXPECT_EQ(packets(PacketType::kRelease), 1u);
  answer_held("into the void");
  run_for(kMillisecond);
  EXPECT_EQ(server_->counters().stale_replies, 1u);
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, Cancel_BeforeItsBundleLeft) {
  join();
  for (int i = 0; i < 4; ++i) call(kHold, "others");
  Ended& ended = call(kHold, "no longer wanted");
  caller_->cancel(last_id_);
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kCancelled);
  run([&] { return held_.size() >= 4; });
  answer_held();
  run([&] { return std::all_of(ended_.begin(), ended_.end(), [](const Ended& one) { return one.completions == 1; }); });
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, Cancel_OfWhatASmallCallHasBecome) {
  join();
  Ended& ended = call(kHold, "goes on in packets");
  const CallId id = last_id_;
  run([&] { return packets(PacketType::kRequest) > 0; });
  caller_->cancel(id);
  EXPECT_EQ(ended.completions, 1);
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kCancelled);
  answer_held();
  run_for(10 * kMillisecond);
  EXPECT_EQ(ended.completions, 1);
  // The sslot's next call has another number.
  Ended& next = call(kHold, "next");
  caller_->cancel(id);
  EXPECT_EQ(next.completions, 0);
  run([&] { return !held_.empty(); });
  answer_held();
  run([&] { return next.completions == 1; });
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, Close_CompletesSmallCallsWithCancelled) {
  join();
  for (int i = 0; i < 5; ++i) call(kHold, "in flight");
  run([&] { return held_.size() == 5; });
  call(kHold, "not sent yet");
  caller_->close(session_);
  run_for(10 * kMillisecond);
  for (size_t i = 1; i < ended_.size(); ++i) {
    EXPECT_EQ(ended_[i].completions, 1) << i;
    EXPECT_EQ(ended_[i].status.code(), absl::StatusCode::kCancelled) << i;
  }
  EXPECT_FALSE(call(kEcho, "closed").status.ok());
  EXPECT_EQ(server_->session_count(), 0u);
  answer_held();
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, TheEndpointsEnd_CompletesSmallCalls) {
  join();
  Ended& ended = call(kHold, "in flight");
  call(kHold, "in the open bundle");
  caller_.reset();
  EXPECT_EQ(ended.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ended_.back().completions, 1);
}

TEST_F(SmallCallsEndpointTest, CallsMax_CountsSmallCalls) {
  caller_options_.calls_max = 4;
  join();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(call(kHold, "one of four").status.ok());
  EXPECT_EQ(caller_->balance().calls, 4u);
  EXPECT_EQ(call(kHold, "too many").status.code(), absl::StatusCode::kResourceExhausted);
  run([&] { return held_.size() == 4; });
  run_for(20 * kMillisecond);
  EXPECT_EQ(caller_->balance().calls, 4u) << "also when they go on in packets";
  EXPECT_EQ(call(kHold, "too many").status.code(), absl::StatusCode::kResourceExhausted);
  answer_held();
  run([&] { return caller_->balance().calls == 0; });
  EXPECT_TRUE(echoes("there is room again"));
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, HandlersMax_RefusesSmallRequests) {
  server_options_.handlers_max = 2;
  join();
  for (int i = 0; i < 3; ++i) call(kHold, "one of three");
  const auto refused = [&] {
    return std::find_if(ended_.begin(), ended_.end(), [](const Ended& one) { return !one.status.ok(); });
  };
  run([&] { return refused() != ended_.end(); });
  EXPECT_EQ(refused()->status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(refused()->may_have_executed);
  EXPECT_EQ(held_.size(), 2u);
  answer_held();
  expect_rest();
}

// --- Memory ----------------------------------------------------------------------------------------------------------

/// A frame that several records came in goes back when the last lease of it does.
TEST_F(SmallCallsEndpointTest, AKeptLease_PinsItsFrame) {
  join();
  for (int i = 0; i < 5; ++i) call(kHold, "request " + std::to_string(i));
  run([&] { return held_.size() == 5; });
  std::vector<std::string> arrived;
  for (const IncomingCall& one : held_) arrived.emplace_back(as_string_view(one.request.bytes()));
  const size_t frames = server_->balance().lent_buffers;
  EXPECT_GE(frames, 1u);
  EXPECT_LT(frames, 5u) << "some came together";
  run_for(100 * kMillisecond);
  std::vector<size_t> left;
  for (size_t i = 0; i < held_.size(); ++i) {
    EXPECT_EQ(as_string_view(held_[i].request.bytes()), arrived[i]) << "untouched while it is kept";
    held_[i].request.reset();
    left.push_back(server_->balance().lent_buffers);
  }
  EXPECT_TRUE(std::is_sorted(left.rbegin(), left.rend()));
  EXPECT_GE(left[left.size() - 2], 1u);
  EXPECT_EQ(left.back(), 0u);
  answer_held();
  run([&] { return std::all_of(ended_.begin(), ended_.end(), [](const Ended& one) { return one.completions == 1; }); });
  EXPECT_GE(caller_->balance().lent_buffers, 1u) << "answers are kept, too";
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, AboveTheWatermark_RecordsAreCopied) {
  server_transport_.reset();
  server_transport_ = network_.attach(kServerAddress, identity(2), {.rx_ring = 8});
  join();
  std::vector<std::string> texts;
  for (int i = 0; i < 12; ++i) {
    texts.push_back("kept " + std::to_string(i));
    call(kHold, texts.back(), {.timeout_ns = 50 * kSecond});
    run([&] { return held_.size() == texts.size(); });
  }
  EXPECT_LE(server_->balance().lent_buffers, 4u);
  EXPECT_GE(server_->counters().leases_copied_out, 8u);
  for (size_t i = 0; i < held_.size(); ++i) EXPECT_EQ(as_string_view(held_[i].request.bytes()), texts[i]);
  answer_held();
  expect_rest();
}

TEST_F(SmallCallsEndpointTest, ACallBetweenTurns_IsSomethingToSend) {
  join();
  for (int i = 0; i < 4; ++i) call(kEcho, "x");  // the last one is in an open bundle
  EXPECT_LE(caller_->next_timer_ns(), network_.now_ns());
  caller_->transmit();
  run([&] { return ended_.back().completions > 0; });
  expect_rest();
}

}  // namespace
}  // namespace skua::rpc::testing
