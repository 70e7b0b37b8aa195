// Calls that are started as records, and their answers.
#include "tests/rpc/protocol/small_calls_harness.h"

namespace skua::rpc::testing {
namespace {

class SmallCallsTest : public SmallCallsHarness {};

// --- Starting --------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsTest, Start_TheFirstLeavesAtOnceWithAllThatTheCalleeWantsToKnow) {
  a_->sequence = 9;
  const uint32_t number = start(hots_[1], "hello", 100 * kMillisecond);
  ASSERT_EQ(sizes(), std::vector<size_t>{1});
  const Sent& one = driver_.sent[0];
  EXPECT_EQ(one.head.association, 4u);
  EXPECT_EQ(one.head.epoch, 44u);
  EXPECT_EQ(one.head.stamp, to_ticks(driver_.now));
  EXPECT_EQ(one.head.sequence, 9u);
  EXPECT_EQ(one.head.flags, bundle_flags::kNoEcho) << "nothing was heard yet";
  EXPECT_EQ(one.records[0].bytes, "hello");
  EXPECT_EQ(one.records[0].head, (RecordHead{hots_[1].remote_handle, number, 5, RecordKind::kRequest, kMethod,
                                             time_code(100 * kMillisecond)}));
  EXPECT_EQ(a_->sequence, 10u);
  EXPECT_EQ(hots_[1].credits, 99);
  EXPECT_EQ(hots_[1].small_count, 1);
  EXPECT_EQ(a_->in_flight, 1u);
  EXPECT_EQ(calls_.in_flight(), 1u);
}

/// The dumb twin: a bundle goes when it holds half of what is in flight, 16 records at most.
TEST_F(SmallCallsTest, Start_ABundleGoesWhenItHoldsHalfOfWhatIsInFlight) {
  std::vector<size_t> expected;
  size_t in_bundle = 0;
  for (uint32_t in_flight = 1; in_flight <= 100; ++in_flight) {
    ASSERT_NE(start(hots_[in_flight % 2]), UINT32_MAX);
    if (++in_bundle >= std::min<size_t>(in_flight / 2, 16)) expected.push_back(std::exchange(in_bundle, 0));
  }
  calls_.writer().send_all();
  if (in_bundle > 0) expected.push_back(in_bundle);
  EXPECT_EQ(sizes(), expected);
  EXPECT_EQ(*std::max_element(expected.begin(), expected.end()), 16u);
  EXPECT_TRUE(calls_.writer().empty());
}

TEST_F(SmallCallsTest, Start_WhatIsWrittenLeavesWithSendAll) {
  for (int i = 0; i < 4; ++i) start(hots_[0]);
  EXPECT_EQ(sizes(), (std::vector<size_t>{1, 1, 1}));
  EXPECT_FALSE(calls_.writer().empty());
  calls_.writer().send_all();
  EXPECT_EQ(sizes(), (std::vector<size_t>{1, 1, 1, 1}));
  calls_.writer().send_all();
  EXPECT_EQ(driver_.sent.size(), 4u) << "nothing is sent twice";
}

TEST_F(SmallCallsTest, Start_WhereABurstIsDearOnlyFullBundlesLeaveBeforeTheNextPoll) {
  driver_.burst_is_dear = true;
  for (int i = 0; i < 16; ++i) start(hots_[0]);
  EXPECT_EQ(sizes(), std::vector<size_t>{});
  calls_.writer().send_all();
  const size_t before = driver_.sent.size();
  for (int i = 0; i < 16; ++i) start(hots_[i % 2]);
  EXPECT_EQ(driver_.sent.size(), before) << "the bundles of 16 calls in flight have room for more";
  for (int i = 0; i < 32; ++i) start(hots_[i % 2]);
  ASSERT_GT(driver_.sent.size(), before);
  EXPECT_EQ(sizes().back(), 16u);
}

TEST_F(SmallCallsTest, Start_AFullFrameLeavesAndTheNextBegins) {
  for (int i = 0; i < 40; ++i) start(hots_[0], "x");
  const size_t before = driver_.sent.size();
  const std::string large(400, 'l');
  for (int i = 0; i < 5; ++i) ASSERT_NE(start(hots_[1], large), UINT32_MAX);
  calls_.writer().send_all();
  size_t records = 0;
  for (size_t i = before; i < driver_.sent.size(); ++i) {
    size_t bytes = kBundleHeadBytes;
    for (const Record& record : driver_.sent[i].records) bytes += kRecordHeadBytes + record.bytes.size();
    EXPECT_LE(bytes, a_->bundle_bytes_max);
    records += driver_.sent[i].records.size();
  }
  EXPECT_GE(records, 5u);
  EXPECT_GE(driver_.sent.size(), before + 3) << "two of these fit a frame";
}

TEST_F(SmallCallsTest, Start_NothingHappensWhereACallIsNotForHere) {
  SessionHot& hot = hots_[0];
  const auto refused = [&](const char* why) {
    const uint16_t free_head = hot.free_head;
    const uint32_t next = hot.client[free_head == kNoFreeSlot ? 0 : free_head].req_num;
    EXPECT_EQ(start(hot), UINT32_MAX) << why;
    EXPECT_EQ(hot.free_head, free_head) << why;
    EXPECT_EQ(hot.client[free_head == kNoFreeSlot ? 0 : free_head].req_num, next) << why;
    EXPECT_EQ(hot.small_count, 0) << why;
    EXPECT_EQ(calls_.in_flight(), 0u) << why;
  };
  for (const auto hindrance :
       {SessionHot::kClosed, SessionHot::kNotJoined, SessionHot::kQuiet, SessionHot::kBusy, SessionHot::kPaced}) {
    hot.hinder(hindrance, true);
    refused("hindered");
    hot.hinder(hindrance, false);
  }
  const uint16_t head = std::exchange(hot.free_head, kNoFreeSlot);
  refused("no free sslot");
  hot.free_head = head;
  hot.credits = 3;
  hot.credits_barred = 3;
  refused("the congestion window is full");
  EXPECT_EQ(hot.credits, 3);
  hot.credits_barred = 2;
  driver_.has_room = false;
  refused("the wire takes nothing");
  EXPECT_EQ(hot.credits, 3);
  driver_.has_room = true;
  for (const DurationNs timeout_ns : {DurationNs{0}, DurationNs{-5}, 60 * kSecond + 1, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(start(hot, "x", timeout_ns), UINT32_MAX) << timeout_ns;
  }
  EXPECT_EQ(driver_.sent.size() + driver_.written.size(), 0u);
  EXPECT_NE(start(hot, "x", 60 * kSecond), UINT32_MAX);
  EXPECT_EQ(hot.credits, 2);
}

/// No call before has told what a time-out is.
TEST_F(SmallCallsTest, Start_TheFirstCallOfAllNeedsATimeToo) {
  EXPECT_EQ(start(hots_[0], "x", 0), UINT32_MAX);
  EXPECT_NE(start(hots_[0], "x", 60 * kSecond), UINT32_MAX);
  calls_.writer().send_all();
  ASSERT_EQ(driver_.sent.size(), 1u);
  EXPECT_EQ(driver_.sent[0].records.at(0).head.time, time_code(60 * kSecond));
}

TEST_F(SmallCallsTest, Start_WhatNoFrameCarriesGoesInPackets) {
  EXPECT_EQ(start(hots_[0], std::string(1056 - 40 + 1, 'x')), UINT32_MAX);
  EXPECT_NE(start(hots_[0], std::string(1056 - 40, 'x')), UINT32_MAX);
  a_->bundle_bytes_max = 9000;
  EXPECT_EQ(start(hots_[0], std::string(1056 - 40 + 1, 'x')), UINT32_MAX) << "the wire's frames are smaller";
  EXPECT_NE(start(hots_[0], "small"), UINT32_MAX) << "in the frame that was taken in vain";
  driver_.frame_room = 9000;
  calls_.writer().send_all();
  EXPECT_EQ(start(hots_[0], std::string(kRecordBytesMax + 1, 'x')), UINT32_MAX);
  EXPECT_NE(start(hots_[0], std::string(kRecordBytesMax, 'x')), UINT32_MAX);
}

TEST_F(SmallCallsTest, AFrameThatNothingWasWrittenInto_IsGivenBack) {
  a_->bundle_bytes_max = 9000;
  EXPECT_EQ(start(hots_[0], std::string(2000, 'x')), UINT32_MAX);
  calls_.writer().send_all();
  EXPECT_EQ(driver_.empty_frames, 1);
  EXPECT_EQ(driver_.sent.size(), 0u);
  EXPECT_EQ(a_->begin, nullptr);
}

TEST_F(SmallCallsTest, Start_TheTimerIsArmedForTheFirstToBeDue) {
  start(hots_[0], "x", kSecond);
  EXPECT_EQ(driver_.armed, 1);
  EXPECT_EQ(hots_[0].due, to_ticks(driver_.now) + a_->probe_ticks);
  start(hots_[0], "x", kSecond);
  EXPECT_EQ(driver_.armed, 1) << "as early";
  start(hots_[0], "x", 100 * kMicrosecond);
  EXPECT_EQ(driver_.armed, 2) << "its deadline comes before";
  EXPECT_EQ(hots_[0].due, to_ticks(driver_.now) + to_ticks(100 * kMicrosecond));
}

TEST_F(SmallCallsTest, Start_BodiesAreCopiedBehindTheHead) {
  const std::string head = "head-";
  const std::string one(300, '1');
  const std::string two(200, '2');
  MessagePtr request = MessagePtr::copy_of(as_byte_span(head));
  ASSERT_TRUE(request->add_body(as_byte_span(one), nullptr, nullptr));
  ASSERT_TRUE(request->add_body(as_byte_span(two), nullptr, nullptr));
  CompletionFn completion = [](CallOutcome&&) {};
  uint32_t number = 0;
  ASSERT_TRUE(calls_.start(hots_[0], kMethod, SentMessage(request), kSecond, completion, number));
  EXPECT_EQ(driver_.sent.at(0).records.at(0).bytes, head + one + two);
  for (const size_t size : {0u, 1u, 31u, 32u, 33u, 256u}) {
    ASSERT_NE(start(hots_[0], std::string(size, 'h')), UINT32_MAX);
    calls_.writer().send_all();
    EXPECT_EQ(driver_.sent.back().records.at(0).bytes, std::string(size, 'h'));
  }
}

TEST_F(SmallCallsTest, Start_FewBytesAreCopiedAndKept) {
  as_bytes_ = true;
  for (size_t size = 0; size <= FewBytes::kMax; ++size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('0' + i);
    const uint32_t number = start(hots_[0], text);
    ASSERT_NE(number, UINT32_MAX);
    calls_.writer().send_all();
    EXPECT_EQ(driver_.sent.back().records.at(0).bytes, text);
    const ClientSlot& slot = hots_[0].client[number & hots_[0].mask];
    EXPECT_EQ(slot.request.message, nullptr);
    ASSERT_EQ(slot.request.size(), size);
    EXPECT_EQ(as_string_view(ByteSpan(slot.few.at).first(size)), text);
    receive({response(hots_[0], number)});
  }
}

// --- Answers to calls ------------------------------------------------------------------------------------------------

TEST_F(SmallCallsTest, AnAnswer_CompletesTheCallAndGivesEverythingBack) {
  const uint32_t number = start(hots_[0]);
  receive({response(hots_[0], number, "yes")});
  EXPECT_EQ(completed_, std::vector<std::string>{"yes"});
  EXPECT_EQ(hots_[0].credits, 100);
  EXPECT_EQ(hots_[0].small_count, 0);
  EXPECT_EQ(a_->in_flight, 0u);
  EXPECT_EQ(calls_.in_flight(), 0u);
  EXPECT_EQ(driver_.kept, 0);
  EXPECT_EQ(driver_.freed, 0) << "nobody waits";
  EXPECT_EQ(hots_[0].heard, to_ticks(driver_.now));
  EXPECT_EQ(start(hots_[0]), number + kWindow) << "the same sslot, and a newer number";
}

TEST_F(SmallCallsTest, AnAnswerThatComesTwice_IsNoLongerASmallCalls) {
  const uint32_t number = start(hots_[0]);
  receive({response(hots_[0], number, "yes"), response(hots_[0], number, "again")});
  EXPECT_EQ(completed_.size(), 1u);
  ASSERT_EQ(driver_.late.size(), 1u) << "the large calls' way knows what it is";
  EXPECT_EQ(driver_.late[0].bytes, "again");
}

TEST_F(SmallCallsTest, AnAnswer_ToACallThatWentOnInPacketsGoesThere) {
  const uint32_t number = start(hots_[0]);
  hots_[0].client[number & hots_[0].mask].state = ClientSlot::State::kLarge;
  calls_.give_up(hots_[0]);
  BundleHead with_echo = head(1);
  with_echo.echo = 4321;
  receive(with_echo, encode_records({response(hots_[0], number)}));
  EXPECT_TRUE(completed_.empty());
  ASSERT_EQ(driver_.late.size(), 1u);
  EXPECT_EQ(driver_.late[0].number, number);
  EXPECT_EQ(driver_.late[0].echo, 4321u);
  hots_[0].client[number & hots_[0].mask].completion = nullptr;
}

TEST_F(SmallCallsTest, AnAnswer_OfAnotherNumberOfTheSlotIsNotThisCalls) {
  const uint32_t number = start(hots_[0]);
  receive({response(hots_[0], number + kWindow), response(hots_[0], number - kWindow)});
  EXPECT_TRUE(completed_.empty());
  EXPECT_EQ(driver_.late.size(), 2u);
  EXPECT_EQ(hots_[0].small_count, 1);
}

TEST_F(SmallCallsTest, AnAnswer_WithoutMemoryForItLeavesTheCallAsItIs) {
  const uint32_t number = start(hots_[0]);
  driver_.keep_fails = true;
  receive({response(hots_[0], number)});
  EXPECT_EQ(driver_.drops[DropReason::kNoMemory], 1);
  EXPECT_EQ(hots_[0].small_count, 1);
  driver_.keep_fails = false;
  receive({response(hots_[0], number)});
  EXPECT_EQ(completed_.size(), 1u);
}

TEST_F(SmallCallsTest, AnAnswer_TellsThoseThatWaitForItsSlot) {
  const uint32_t number = start(hots_[0]);
  hots_[0].hinder(SessionHot::kBusy, true);
  receive({response(hots_[0], number)});
  EXPECT_EQ(driver_.freed, 1);
}

TEST_F(SmallCallsTest, AnAnswer_ToASessionWithoutSlotsIsDropped) {
  driver_.slots[&hots_[0]].clear();
  receive({response(hots_[0], 0)});
  EXPECT_EQ(driver_.drops[DropReason::kUnexpectedResponse], 1);
}

TEST_F(SmallCallsTest, AnAnswer_LargerThanItsCallPaidForIsTold) {
  hots_[0].charge = 2;
  hots_[0].charge_bytes = 10;
  const uint32_t number = start(hots_[0]);
  EXPECT_EQ(hots_[0].credits, 98);
  hots_[0].charge = 3;  // of calls that begin from now on
  receive({response(hots_[0], number, "0123456789")});
  EXPECT_EQ(driver_.larger, 0u);
  EXPECT_EQ(hots_[0].credits, 100) << "what it took comes back";
  receive({response(hots_[0], start(hots_[0]), "0123456789a")});
  EXPECT_EQ(driver_.larger, 11u);
}

// --- What completions may do -----------------------------------------------------------------------------------------

TEST_F(SmallCallsTest, ACompletion_StartsTheNextCallInItsSlot) {
  const uint32_t number = start(hots_[0]);
  uint32_t next = 0;
  on_complete_ = [&] { next = start(hots_[0], "next"); };
  receive({response(hots_[0], number)});
  EXPECT_EQ(next, number + kWindow);
  EXPECT_EQ(hots_[0].small_count, 1);
  calls_.writer().send_all();
  EXPECT_EQ(driver_.sent.back().records.back().bytes, "next");
}

TEST_F(SmallCallsTest, ACompletion_ClosesTheSessionOfTheNextRecord) {
  const uint32_t first = start(hots_[0]);
  const uint32_t second = start(hots_[1]);
  on_complete_ = [&] {
    calls_.give_up(hots_[1]);
    hots_[1].client[second & hots_[1].mask].state = ClientSlot::State::kFree;
    hots_[1].hinder(SessionHot::kNotJoined, true);
    hots_[1].association = nullptr;
  };
  receive({response(hots_[0], first), response(hots_[1], second)});
  EXPECT_EQ(completed_.size(), 1u);
  EXPECT_EQ(driver_.drops[DropReason::kForeignSender], 1);
}

TEST_F(SmallCallsTest, ACompletion_EndsTheAssociationOfItsBundle) {
  const uint32_t number = start(hots_[0]);
  start(hots_[1]);
  for (int i = 0; i < 3; ++i) start(hots_[1]);  // one is not sent
  on_complete_ = [&] {
    while (hots_[1].small_count > 0) calls_.give_up(hots_[1]);
    for (SessionHot* hot : {&hots_[0], &hots_[1]}) {
      hot->hinder(SessionHot::kNotJoined, true);
      hot->association = nullptr;
    }
    calls_.writer().discard(*a_);
    driver_.associations.end(*a_);
  };
  BundleHead echoing = head(2);
  echoing.flags = 0;
  echoing.echo = to_ticks(driver_.now) - 100;
  receive(echoing, encode_records({response(hots_[0], number), request(hots_[1], 0)}));
  EXPECT_EQ(completed_.size(), 1u);
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_TRUE(driver_.samples.empty()) << "there is nobody to tell of the delay";
  EXPECT_TRUE(calls_.writer().empty());
  EXPECT_EQ(calls_.in_flight(), 0u);
}

TEST_F(SmallCallsTest, ACompletion_CancelsTheCallOfTheNextRecord) {
  const uint32_t first = start(hots_[0]);
  const uint32_t second = start(hots_[0]);
  on_complete_ = [&] {
    calls_.give_up(hots_[0]);
    hots_[0].free_slot(second & hots_[0].mask);
  };
  receive({response(hots_[0], first), response(hots_[0], second)});
  EXPECT_EQ(completed_.size(), 1u);
  EXPECT_EQ(driver_.late.size(), 1u);
}

}  // namespace
}  // namespace skua::rpc::testing
