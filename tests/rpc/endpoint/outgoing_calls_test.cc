#include "rpc/outgoing_calls.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/endpoint/outgoing_calls_harness.h"

namespace skua::rpc::testing {
namespace {

using absl::StatusCode;

// --- Small calls -----------------------------------------------------------------------------------------------------

TEST_F(OutgoingCallsTest, ASmallCallIsARecord_AndItsIdNamesTheConnection) {
  SessionEntry& entry = joined(kCalled);
  const std::optional<CallId> id = small(entry.handle(), "asks", {.timeout_ns = 3 * kMillisecond});
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->generation, entry.wire_generation);
  EXPECT_EQ(calls.in_flight(), 1u);
  EXPECT_EQ(context.counters.calls_started, 1u);
  const std::vector<Record> sent = sent_records();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0], (Record{{.session = peers_handle(entry),
                              .number = id->number,
                              .bytes = 4,
                              .kind = RecordKind::kRequest,
                              .method = kAsked,
                              .time = 3},
                             "asks"}));
  answer_small(entry, id->number, "says");
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].response, "says");
  EXPECT_TRUE(ended[0].from_peer && ended[0].may_have_executed);
  EXPECT_EQ(context.counters.calls_completed, 1u);
  EXPECT_EQ(calls.in_flight(), 0u);
  EXPECT_FALSE(calls.has_completed());
}

TEST_F(OutgoingCallsTest, WhatIsNotSmall_ChangesNothing) {
  SessionEntry& entry = joined(kCalled);
  const SessionId session = entry.handle();
  EXPECT_FALSE(small({session.index, session.generation + 1}, "a session before"));
  EXPECT_FALSE(small({session.index + 1, session.generation}, "no session"));
  EXPECT_FALSE(small({session.index + kRecordSessionsMax, session.generation}, "no index"));
  EXPECT_FALSE(small(session, "no method", {}, kMethodMax));
  EXPECT_FALSE(small(session, "no answer", {.one_way = true}));
  EXPECT_FALSE(small(session, "no time", {.timeout_ns = 0}));
  EXPECT_FALSE(small(session, "more time than ticks have", {.timeout_ns = kSmallTimeoutMax + 1}));
  EXPECT_FALSE(small(parts.dialled(2).handle(), "not joined"));
  MessagePtr request = MessagePtr::copy_of(as_byte_span(std::string(kRecordBytesMax + 1, 'x')));
  CompletionFn fn = completion();
  CallId id;
  EXPECT_FALSE(calls.call_small(session, kAsked, SentMessage(request), {}, fn, id));
  EXPECT_TRUE(request) << "it goes by the other way";
  EXPECT_TRUE(sent_records().empty());
  EXPECT_TRUE(small(session, "the last method", {.timeout_ns = kSmallTimeoutMax}, kMethodMax - 1));
}

TEST_F(OutgoingCallsTest, TheEnginesOwnCall_SendsACopy) {
  SessionEntry& entry = joined(kCalled);
  std::string text(200, 'r');
  CompletionFn fn = completion();
  ASSERT_TRUE(calls.call_small(entry.handle(), kRehearsalMethod, as_byte_span(text), fn));
  ++accepted;
  text.assign(200, 'x');
  const std::vector<Record> sent = sent_records();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, std::string(200, 'r'));
  EXPECT_EQ(sent[0].head.method, kRehearsalMethod);
}

// --- Large calls -----------------------------------------------------------------------------------------------------

TEST_F(OutgoingCallsTest, ALargeCall_CompletesWhenTheLoopSaysSo) {
  SessionEntry& entry = parts.dialled(kCalled);
  ASSERT_TRUE(large(entry.handle(), "asks").ok());
  EXPECT_EQ(context.counters.calls_started, 1u);
  parts.transmits.transmit();
  answer_large(entry, large_numbers(entry).at(0), "says");
  EXPECT_TRUE(calls.has_completed());
  EXPECT_EQ(calls.in_flight(), 1u) << "its completion has not begun";
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(calls.run_completions(), 1u);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].response, "says");
  EXPECT_EQ(context.counters.calls_completed, 1u);
  EXPECT_FALSE(calls.has_completed());
  EXPECT_EQ(calls.run_completions(), 0u);
}

TEST_F(OutgoingCallsTest, CompletionsRunInTheOrderOfTheirAnswers) {
  SessionEntry& entry = parts.dialled(kCalled);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(large(entry.handle(), "asks").ok());
  parts.transmits.transmit();
  const std::vector<uint32_t> numbers = large_numbers(entry);
  ASSERT_EQ(numbers.size(), 3u);
  for (const size_t i : {2U, 0U, 1U}) answer_large(entry, numbers[i], "");
  EXPECT_EQ(calls.run_completions(), 3u);
  EXPECT_EQ(ended[0].call, 2u);
  EXPECT_EQ(ended[1].call, 0u);
  EXPECT_EQ(ended[2].call, 1u);
}

TEST_F(OutgoingCallsTest, RefusedCallsSayWhy) {
  const SessionId session = parts.dialled(kCalled).handle();
  EXPECT_EQ(refusal({session.index, session.generation + 1}, {}), StatusCode::kNotFound);
  EXPECT_EQ(refusal({77, 1}, {}), StatusCode::kNotFound);
  EXPECT_EQ(refusal(session, {}, kMethodMax), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal(session, {.timeout_ns = 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal(session, {.timeout_ns = 3600 * kSecond + 1}), StatusCode::kInvalidArgument);
  // The session carries less than the endpoint.
  EXPECT_EQ(large(session, std::string(10'001, 'x')).status().code(), StatusCode::kInvalidArgument);
  // A session that is not open has agreed on nothing.
  SessionEntry& closed = parts.dialled(2);
  closed.session->interrupt(why, context.now_ns);
  const std::string too_much(context.options.protocol.message_max_bytes + 1, 'x');
  EXPECT_EQ(large(closed.handle(), too_much).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(context.counters.calls_started, 0u);
  EXPECT_EQ(refusal(session, {.timeout_ns = 3600 * kSecond}), StatusCode::kOk) << "without a message it is empty";
  calls.shut_down();
  EXPECT_EQ(refusal(session, {}), StatusCode::kCancelled);
}

TEST_F(OutgoingCallsTest, BothWaysTogether_StayWithinCallsMax) {
  SessionEntry& entry = joined(kCalled);
  const SessionId other = parts.dialled(2).handle();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(small(entry.handle(), "asks"));
  for (uint32_t i = 5; i < kCallsMax; ++i) ASSERT_TRUE(large(other, "asks").ok());
  EXPECT_EQ(calls.in_flight(), kCallsMax);
  EXPECT_FALSE(small(entry.handle(), "one more"));
  const absl::Status refused = large(other, "one more").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.ToString().find("calls_max (12)"), std::string::npos);
  answer_small(entry, numbers(entry, ClientSlot::State::kSmall).at(0), "");
  EXPECT_TRUE(small(entry.handle(), "there is room"));
  EXPECT_FALSE(small(entry.handle(), "and now there is not"));
}

TEST_F(OutgoingCallsTest, CopiedBytes_TakeTheWayThatFits) {
  SessionEntry& entry = joined(kCalled);
  const CallOptions options;
  for (const size_t bytes : {200u, 3000u}) {
    std::string text(bytes, 'a');
    CompletionFn fn = completion();
    ASSERT_TRUE(calls
                    .call_copied({.session = entry.handle(), .method = kAsked, .options = &options, .completion = &fn},
                                 as_byte_span(text))
                    .ok());
    ++accepted;
    text.assign(bytes, 'b');
  }
  EXPECT_EQ(numbers(entry, ClientSlot::State::kSmall).size(), 1u);
  EXPECT_EQ(large_numbers(entry).size(), 1u);
  EXPECT_EQ(sent_records().at(0).bytes, std::string(200, 'a'));
}

// --- What completions may do -----------------------------------------------------------------------------------------

struct RequestBody {
  std::string bytes = std::string(2000, 'b');
  bool is_released = false;
};

TEST_F(OutgoingCallsTest, TheRequestIsReleased_BeforeTheCompletion) {
  SessionEntry& entry = parts.dialled(kCalled);
  RequestBody body;
  MessagePtr request = MessagePtr::make();
  ASSERT_TRUE(request->add_body(
      as_byte_span(body.bytes), [](void* context) { static_cast<RequestBody*>(context)->is_released = true; }, &body));
  bool was_released = false;
  CompletionFn fn = [&](CallOutcome&&) { was_released = body.is_released; };
  ASSERT_TRUE(calls.call_large(entry.handle(), kAsked, request, {}, fn).ok());
  entry.session->abort_all(why, context.now_ns);
  EXPECT_FALSE(body.is_released);
  calls.run_completions();
  EXPECT_TRUE(was_released);
}

/// The call whose completion runs is over: the next one has its place, but not its record.
TEST_F(OutgoingCallsTest, ACompletionCallsAgain_EvenAtTheLimit) {
  SessionEntry& entry = parts.dialled(kCalled);
  std::optional<CallId> next;
  CompletionFn again = [&](CallOutcome&& outcome) {
    EXPECT_EQ(calls.in_flight(), kCallsMax - 1);
    next = large(entry.handle(), "again").value();
    EXPECT_FALSE(large(entry.handle(), "once more").ok());
    EXPECT_EQ(outcome.status.code(), StatusCode::kDeadlineExceeded) << "the record was not used again";
  };
  MessagePtr request = MessagePtr::copy_of(as_byte_span("first"));
  const CallId first = calls.call_large(entry.handle(), kAsked, request, {.timeout_ns = kMillisecond}, again).value();
  for (uint32_t i = 1; i < kCallsMax; ++i) ASSERT_TRUE(large(entry.handle(), "asks").ok());
  parts.pass(kMillisecond);
  entry.session->on_timer(context.now_ns);
  EXPECT_EQ(calls.run_completions(), 1u);
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(next->index, first.index);
  EXPECT_EQ(calls.in_flight(), kCallsMax);
}

// --- Cancelling ------------------------------------------------------------------------------------------------------

TEST_F(OutgoingCallsTest, CancellingALargeCall_CompletesItAtOnce) {
  SessionEntry& entry = parts.dialled(kCalled);
  const CallId sent = large(entry.handle(), "sent").value();
  parts.transmits.transmit();
  entry.session->interrupt(why, context.now_ns);
  EXPECT_EQ(calls.run_completions(), 1u);
  const CallId unsent = large(entry.handle(), "the session is not open").value();
  calls.cancel(sent);
  EXPECT_EQ(ended.size(), 1u) << "the id of a completed call, whose record another call has";
  calls.cancel({unsent.index + 1, unsent.generation});
  calls.cancel({unsent.index, unsent.generation + 1});
  calls.cancel({});
  EXPECT_EQ(ended.size(), 1u);
  calls.cancel(unsent);
  calls.cancel(unsent);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[1].code, StatusCode::kCancelled);
  EXPECT_FALSE(ended[1].may_have_executed);
  EXPECT_FALSE(ended[1].from_peer);
}

TEST_F(OutgoingCallsTest, CancellingASmallCall_CompletesItAtOnce) {
  SessionEntry& entry = joined(kCalled);
  const CallId first = small(entry.handle(), "first").value();
  const CallId second = small(entry.handle(), "second").value();
  sent_bundles();
  calls.cancel({first.index, first.generation + 1, first.number});
  calls.cancel({first.index + 1, first.generation, first.number});
  EXPECT_TRUE(ended.empty());
  calls.cancel(first);
  calls.cancel(first);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].call, 0u);
  EXPECT_EQ(ended[0].code, StatusCode::kCancelled);
  EXPECT_TRUE(ended[0].may_have_executed);
  answer_small(entry, first.number, "too late");
  EXPECT_EQ(ended.size(), 1u);
  answer_small(entry, second.number, "in time");
  EXPECT_EQ(ended.size(), 2u);
}

/// The next connection numbers its calls anew.
TEST_F(OutgoingCallsTest, AnIdOfTheConnectionBefore_CancelsNothing) {
  SessionEntry& entry = joined(kCalled);
  const CallId before = small(entry.handle(), "asks").value();
  parts.lives.break_off(entry, why);
  calls.run_completions();
  ASSERT_EQ(ended.size(), 1u);
  calls.cancel(before);
  parts.lives.open(entry, entry.session->terms());
  join(entry);
  const CallId now = small(entry.handle(), "asks").value();
  EXPECT_EQ(now.number, before.number);
  calls.cancel(before);
  EXPECT_EQ(ended.size(), 1u);
  calls.cancel(now);
  EXPECT_EQ(ended.size(), 2u);
  parts.lives.end(entry, why);
  parts.lives.bury();
  calls.cancel(now);
  EXPECT_EQ(ended.size(), 2u);
}

TEST_F(OutgoingCallsTest, ARecordForgetsItsLastCall) {
  SessionEntry& entry = parts.dialled(kCalled);
  calls.cancel(large(entry.handle(), "fails").value());
  ASSERT_TRUE(large(entry.handle(), "succeeds").ok());
  parts.transmits.transmit();
  answer_large(entry, large_numbers(entry).at(0), "says");
  calls.run_completions();
  EXPECT_EQ(ended.at(1).code, StatusCode::kOk);
  EXPECT_EQ(ended.at(1).response, "says");
}

// --- From one way to the other ---------------------------------------------------------------------------------------

TEST_F(OutgoingCallsTest, ASmallCallThatBecomesLarge_KeepsItsId) {
  SessionEntry& entry = joined(kCalled);
  const CallId first = small(entry.handle(), "first").value();
  const CallId second = small(entry.handle(), "second").value();
  parts.joins.leave(entry);
  EXPECT_EQ(large_numbers(entry).size(), 2u);
  EXPECT_EQ(calls.in_flight(), 2u);
  calls.cancel(first);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].call, 0u);
  answer_large(entry, second.number, "says");
  EXPECT_EQ(calls.run_completions(), 1u);
  EXPECT_EQ(ended[1].response, "says");
  EXPECT_EQ(context.counters.calls_completed, 2u);
}

/// The ninth call has no sslot. It starts as a small call when one is free, and the loop runs its completion.
TEST_F(OutgoingCallsTest, ALargeCallThatStartsAsASmallOne_IsCountedOnce) {
  SessionEntry& entry = joined(kCalled);
  const CallId first = small(entry.handle(), "asks").value();
  for (int i = 1; i < 8; ++i) ASSERT_TRUE(small(entry.handle(), "asks"));
  EXPECT_FALSE(small(entry.handle(), "waits"));
  const CallId waiting = large(entry.handle(), "waits").value();
  EXPECT_FALSE(small(entry.handle(), "must not overtake it"));
  sent_bundles();
  answer_small(entry, first.number, "");
  const std::vector<Record> sent = sent_records();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, "waits");
  EXPECT_EQ(calls.in_flight(), 8u);
  answer_small(entry, sent[0].head.number, "says");
  EXPECT_EQ(ended.size(), 1u) << "the loop runs it";
  EXPECT_EQ(calls.in_flight(), 8u);
  EXPECT_EQ(calls.run_completions(), 1u);
  EXPECT_EQ(ended.at(1).response, "says");
  EXPECT_EQ(calls.in_flight(), 7u);
  EXPECT_EQ(context.counters.calls_completed, 2u);
  calls.cancel(waiting);
  EXPECT_EQ(ended.size(), 2u);
}

TEST_F(OutgoingCallsTest, ALargeCallThatStartedAsASmallOne_IsCancelledByItsId) {
  SessionEntry& entry = joined(kCalled);
  const CallId first = small(entry.handle(), "asks").value();
  for (int i = 1; i < 8; ++i) ASSERT_TRUE(small(entry.handle(), "asks"));
  const CallId waiting = large(entry.handle(), "waits").value();
  answer_small(entry, first.number, "");
  ASSERT_EQ(sent_records().back().bytes, "waits");
  calls.cancel(waiting);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[1].call, 8u);
  EXPECT_EQ(ended[1].code, StatusCode::kCancelled);
  EXPECT_EQ(calls.in_flight(), 7u);
  EXPECT_EQ(context.counters.calls_completed, 2u);
}

}  // namespace
}  // namespace skua::rpc::testing
