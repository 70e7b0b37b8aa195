// Requests that come as records, and what is believed of a bundle.
#include "tests/rpc/protocol/small_calls_harness.h"

namespace skua::rpc::testing {
namespace {

class SmallCallsReceivedTest : public SmallCallsHarness {};

// --- Requests --------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsReceivedTest, ARequest_IsDeliveredAndItsAnswerKept) {
  receive({request(hots_[0], 0, "question")});
  ASSERT_EQ(driver_.requests.size(), 1u);
  EXPECT_EQ(driver_.requests[0].second, "question");
  EXPECT_EQ(driver_.last_time, time_code(kSecond));
  EXPECT_EQ(hots_[0].server()[0].state, ServerSlot::State::kExecuting);
  ASSERT_TRUE(answer(hots_[0], 0, "answer"));
  EXPECT_EQ(hots_[0].server()[0].state, ServerSlot::State::kResponding);
  EXPECT_EQ(as_string_view(hots_[0].server()[0].response.message->head()), "answer");
  EXPECT_FALSE(answer(hots_[0], 0, "again"));
  EXPECT_EQ(driver_.sent.size(), 0u) << "it waits for the others of its burst";
  calls_.writer().send_all();
  ASSERT_EQ(driver_.sent.size(), 1u);
  EXPECT_EQ(driver_.sent[0].records.at(0).head,
            (RecordHead{hots_[0].remote_handle, 0, 6, RecordKind::kResponse, 0, 0}));
}

TEST_F(SmallCallsReceivedTest, AnAnswerOfFewBytes_IsKept) {
  as_bytes_ = true;
  for (uint32_t size = 0; size <= FewBytes::kMax; ++size) {
    const std::string text(size, static_cast<char>('0' + size));
    receive({request(hots_[0], size * kWindow)});
    ASSERT_TRUE(answer(hots_[0], size * kWindow, text));
    calls_.writer().send_all();
    EXPECT_EQ(driver_.sent.back().records.at(0).bytes, text);
    const ServerSlot& slot = hots_[0].server()[0];
    EXPECT_EQ(slot.response.message, nullptr);
    ASSERT_EQ(slot.response.size(), size);
    EXPECT_EQ(as_string_view(ByteSpan(slot.few.at).first(size)), text);
  }
}

TEST_F(SmallCallsReceivedTest, ARequestThatComesTwice_RunsOnce) {
  receive({request(hots_[0], 5), request(hots_[0], 5)});
  ASSERT_TRUE(answer(hots_[0], 5, "a"));
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(driver_.drops[DropReason::kDuplicate], 2);
}

TEST_F(SmallCallsReceivedTest, ARequestOfAnEarlierNumber_DoesNotRun) {
  receive({request(hots_[0], 5 + kWindow), request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(driver_.drops[DropReason::kStaleRequest], 1);
  receive({request(hots_[0], 5 + kWindow + (1u << 31))});
  EXPECT_EQ(driver_.drops[DropReason::kStaleRequest], 2) << "as far ahead as behind";
}

TEST_F(SmallCallsReceivedTest, TheNextRequest_LetsGoOfTheAnswerBefore) {
  int released = 0;
  receive({request(hots_[0], 5)});
  MessagePtr response = MessagePtr::make();
  static const std::string kBody = "body";
  ASSERT_TRUE(response->add_body(
      as_byte_span(kBody), [](void* count) { ++*static_cast<int*>(count); }, &released));
  ASSERT_TRUE(calls_.answer(hots_[0], 5, SentMessage(response)));
  calls_.writer().send_all();
  EXPECT_EQ(released, 0) << "the request may come again, as a packet";
  receive({request(hots_[0], 5 + kWindow)});
  EXPECT_EQ(released, 1);
}

TEST_F(SmallCallsReceivedTest, ARequest_WithoutMemoryForItIsAsIfItHadNotCome) {
  driver_.keep_fails = true;
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.drops[DropReason::kNoMemory], 1);
  driver_.keep_fails = false;
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 1);
}

TEST_F(SmallCallsReceivedTest, ARequest_ForASlotThatALargeCallHadAsksItsHalf) {
  hots_[0].server()[5].state = ServerSlot::State::kLarge;
  driver_.yields = false;
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_TRUE(driver_.drops.empty()) << "the half counts it";
  driver_.yields = true;
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(hots_[0].server()[5].state, ServerSlot::State::kExecuting);
}

TEST_F(SmallCallsReceivedTest, ARequest_MakesTheSlotsOfASessionThatHasNone) {
  driver_.slots[&hots_[0]].clear();
  receive({request(hots_[0], 0)});
  EXPECT_EQ(driver_.delivered, 1);
}

TEST_F(SmallCallsReceivedTest, Answer_NothingHappensWhereItIsNotForHere) {
  receive({request(hots_[0], 5)});
  for (const auto hindrance : {SessionHot::kClosed, SessionHot::kNotJoined, SessionHot::kQuiet}) {
    hots_[0].hinder(hindrance, true);
    EXPECT_FALSE(answer(hots_[0], 5, "a"));
    hots_[0].hinder(hindrance, false);
  }
  EXPECT_FALSE(answer(hots_[0], 5 + kWindow, "a")) << "another number";
  EXPECT_FALSE(answer(hots_[0], 6, "a")) << "nothing runs there";
  EXPECT_FALSE(answer(driver_.nobody, 5, "a"));
  EXPECT_FALSE(answer(hots_[0], 5, std::string(kRecordBytesMax + 1, 'a')));
  EXPECT_FALSE(answer(hots_[0], 5, std::string(1100, 'a'))) << "larger than a frame";
  driver_.has_room = false;
  EXPECT_FALSE(answer(hots_[0], 5, "a"));
  driver_.has_room = true;
  hots_[0].hinder(SessionHot::kBusy, true);
  hots_[0].hinder(SessionHot::kPaced, true);
  EXPECT_TRUE(answer(hots_[0], 5, "a")) << "what hinders calls does not hinder answers";
}

/// Answers leave with the bundle that brought their requests: at its end if it is large, at the burst's end if it is
/// not.
TEST_F(SmallCallsReceivedTest, Answers_LeaveWhenTheReceivedBundleIsDone) {
  driver_.handler = [&](SessionHot& hot, uint32_t number, const std::string& bytes) {
    EXPECT_TRUE(answer(hot, number, "to " + bytes));
    EXPECT_EQ(driver_.sent.size(), 0u) << "not before";
  };
  std::vector<Record> large;
  for (uint32_t i = 0; i < 8; ++i) large.push_back(request(hots_[i % 2], i));
  receive(std::vector<Record>(large.begin(), large.begin() + 7));
  EXPECT_EQ(driver_.sent.size(), 0u);
  EXPECT_EQ(driver_.burst_ends, 0);
  calls_.writer().send_all();
  EXPECT_EQ(sizes(), std::vector<size_t>{7});
  driver_.sent.clear();
  for (Record& one : large) one.head.number += kWindow;
  receive(large);
  EXPECT_EQ(driver_.burst_ends, 1);
  EXPECT_EQ(sizes(), std::vector<size_t>{8});
}

TEST_F(SmallCallsReceivedTest, AnswersThatHandlersGather_AreOfTheSameBundle) {
  driver_.on_burst_end = [&] {
    for (const auto& [number, bytes] : driver_.requests) EXPECT_TRUE(answer(hots_[0], number, "x"));
  };
  std::vector<Record> requests;
  for (uint32_t i = 0; i < 10; ++i) requests.push_back(request(hots_[0], i));
  receive(requests);
  EXPECT_EQ(sizes(), std::vector<size_t>{10});
}

TEST_F(SmallCallsReceivedTest, CallsOfAHandler_LeaveWithItsAnswers) {
  for (int i = 0; i < 30; ++i) start(hots_[1]);
  calls_.writer().send_all();
  driver_.sent.clear();
  driver_.handler = [&](SessionHot& hot, uint32_t number, const std::string&) {
    start(hots_[1], "call");
    answer(hot, number, "answer");
  };
  receive({request(hots_[0], 0), request(hots_[0], 1)});
  EXPECT_EQ(driver_.sent.size(), 0u);
  calls_.writer().send_all();
  EXPECT_EQ(sizes(), std::vector<size_t>{4});
}

TEST_F(SmallCallsReceivedTest, WhereABurstCostsNothing_EveryBundleIsAnsweredAtOnce) {
  driver_.groups_of = 1;
  driver_.handler = [&](SessionHot& hot, uint32_t number, const std::string&) { answer(hot, number, "a"); };
  receive({request(hots_[0], 0)});
  EXPECT_EQ(sizes(), std::vector<size_t>{1});
}

// --- Lost bundles ----------------------------------------------------------------------------------------------------

/// Whether requests and answers are given as bytes.
class SmallCallsLostTest : public SmallCallsHarness, public ::testing::WithParamInterface<bool> {
 protected:
  SmallCallsLostTest() {
    as_bytes_ = GetParam();
    a_->sent = std::make_unique<SentBundles>();
    numbers_ = {start(hots_[0], "one"), start(hots_[1], "two"), start(hots_[0], "three")};
    calls_.writer().send_all();
    driver_.sent.clear();
  }
  void receive_missing(uint32_t first, uint32_t count) {
    Record missing;
    missing.head = {0, first, MissingRecord::kBytes, RecordKind::kMissing};
    std::byte bytes[MissingRecord::kBytes];
    store_le(bytes, count);
    missing.bytes = as_string_view(bytes);
    receive({missing});
    calls_.writer().send_all();
  }
  [[nodiscard]] std::vector<std::string> sent_again() const {
    std::vector<std::string> out;
    for (const Sent& one : driver_.sent) {
      for (const Record& record : one.records) out.push_back(record.bytes);
    }
    return out;
  }
  std::vector<uint32_t> numbers_;
};

INSTANTIATE_TEST_SUITE_P(Given, SmallCallsLostTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "AsBytes" : "AsMessages"; });

TEST_P(SmallCallsLostTest, Requests_AreWrittenAgainUnderTheirNumbers) {
  driver_.now += 300 * kMillisecond;
  receive_missing(0, 2);
  EXPECT_EQ(sent_again(), (std::vector<std::string>{"one", "two"}));
  const Record& again = driver_.sent.at(0).records.at(0);
  EXPECT_EQ(again.head.number, numbers_[0]);
  EXPECT_EQ(again.head.session, hots_[0].remote_handle);
  EXPECT_EQ(again.head.time, time_code(700 * kMillisecond)) << "less time is left";
  EXPECT_EQ(driver_.retransmits, 2);
  EXPECT_EQ(calls_.in_flight(), 3u);
  EXPECT_EQ(hots_[0].credits, 98) << "they are paid for";
}

TEST_P(SmallCallsLostTest, Requests_ThatAreOverOrLargeAreNot) {
  receive({response(hots_[0], numbers_[0])});
  hots_[1].client[numbers_[1] & hots_[1].mask].state = ClientSlot::State::kLarge;
  calls_.give_up(hots_[1]);
  receive_missing(0, 3);
  EXPECT_EQ(sent_again(), std::vector<std::string>{"three"});
}

TEST_P(SmallCallsLostTest, Requests_WithoutTimeLeftAreNot) {
  driver_.now += kSecond;
  receive_missing(0, 3);
  EXPECT_TRUE(sent_again().empty());
}

TEST_P(SmallCallsLostTest, ABundle_IsWrittenAgainOnce) {
  receive_missing(0, 1);
  receive_missing(0, 1);
  EXPECT_EQ(sent_again(), std::vector<std::string>{"one"});
}

TEST_P(SmallCallsLostTest, WhatWasWrittenAgain_MayBeLostAgain) {
  receive_missing(0, 1);
  const uint32_t sequence = driver_.sent.at(0).head.sequence;
  receive_missing(sequence, 1);
  EXPECT_EQ(sent_again(), (std::vector<std::string>{"one", "one"}));
}

TEST_P(SmallCallsLostTest, Answers_AreGivenAgainWithoutRunningAgain) {
  const uint32_t sequence = a_->sequence;
  receive({request(hots_[0], 7), request(hots_[0], 8)});
  ASSERT_TRUE(answer(hots_[0], 7, "answer 7"));
  ASSERT_TRUE(answer(hots_[0], 8, "answer 8"));
  calls_.writer().send_all();
  receive({request(hots_[0], 8 + kWindow)});
  driver_.sent.clear();
  receive_missing(sequence, 1);
  EXPECT_EQ(sent_again(), std::vector<std::string>{"answer 7"})
      << "the other one's caller has it: it uses the sslot again";
  EXPECT_EQ(driver_.delivered, 3);
}

/// A peer that says it misses everything gets no more than it sends, beside what is remembered.
TEST_P(SmallCallsLostTest, NoMoreIsWrittenAgain_ThanComes) {
  // Each fills a bundle, and so does each repetition.
  const uint32_t first = a_->sequence;
  while (start(hots_[0], std::string(900, 'x')) != UINT32_MAX || start(hots_[1], std::string(900, 'x')) != UINT32_MAX) {
  }
  calls_.writer().send_all();
  const uint32_t calls = a_->sequence - first;
  ASSERT_GT(calls * (calls + 1) / 2, SentBundles::kBundles);
  driver_.sent.clear();
  // All in one bundle: they name what is remembered, and then what the ones before had written.
  std::vector<Record> storm;
  for (uint32_t i = 0; i < 16 * SentBundles::kBundles; ++i) {
    Record missing;
    missing.head = {0, first + i, MissingRecord::kBytes, RecordKind::kMissing};
    missing.bytes = std::string("\x01\0\0\0", 4);
    storm.push_back(missing);
  }
  receive(storm);
  calls_.writer().send_all();
  EXPECT_LE(driver_.sent.size(), SentBundles::kBundles);
  driver_.sent.clear();
  for (int i = 0; i < 10; ++i) receive_missing(a_->sequence - 1, 1);
  EXPECT_EQ(driver_.sent.size(), 10u) << "one for each that comes";
}

TEST_P(SmallCallsLostTest, WordsOfBundlesThatWereNever_MeanNothing) {
  receive_missing(1000, 5);
  receive_missing(UINT32_MAX, 1);
  receive_missing(0, 0);
  EXPECT_EQ(driver_.drops[DropReason::kBadLength], 0);
  receive_missing(0, SentBundles::kBundles + 1);
  receive_missing(0, UINT32_MAX);
  EXPECT_EQ(driver_.drops[DropReason::kBadLength], 2);
  EXPECT_TRUE(sent_again().empty());
}

TEST_P(SmallCallsLostTest, AGap_IsToldAfterTheReorderWindow) {
  BundleHead next = head(1);
  next.sequence = 0;
  receive(next, encode_records({request(hots_[0], 0)}));
  next.sequence = 3;
  receive(next, encode_records({request(hots_[0], 1)}));
  calls_.writer().send_all();
  EXPECT_TRUE(driver_.sent.empty()) << "they may come yet";
  next.sequence = 2;
  receive(next, encode_records({request(hots_[0], 2)}));  // as that one does
  driver_.now += 10 * kMillisecond;
  next.sequence = 4;
  receive(next, encode_records({request(hots_[0], 3)}));
  calls_.writer().send_all();
  ASSERT_EQ(driver_.sent.size(), 1u);
  const Record& missing = driver_.sent[0].records.at(0);
  EXPECT_EQ(missing.head.kind, RecordKind::kMissing);
  EXPECT_EQ(missing.head.number, 1u);
  EXPECT_EQ(load_le<uint32_t>(as_byte_span(missing.bytes).data()), 1u);
  next.sequence = 5;
  receive(next, encode_records({request(hots_[0], 4)}));
  calls_.writer().send_all();
  EXPECT_EQ(driver_.sent.size(), 1u) << "once";
}

// --- What is believed ------------------------------------------------------------------------------------------------

TEST_F(SmallCallsReceivedTest, ARecordOfAnotherLife_IsDroppedAndTheOthersStand) {
  Record late = request(hots_[0], 0);
  late.head.session = session_handle(0, 2);
  Record nobody = request(hots_[0], 0);
  nobody.head.session = session_handle(999, 3);
  receive({late, nobody, request(hots_[1], 7)});
  EXPECT_EQ(driver_.drops[DropReason::kOldGeneration], 2);
  ASSERT_EQ(driver_.requests.size(), 1u);
  EXPECT_EQ(driver_.requests[0].first, 7u);
}

TEST_F(SmallCallsReceivedTest, ARecordForASessionOfAnotherAssociation_IsDropped) {
  Association& other = driver_.associations.make_own(kPeer + 1, 5);
  add(2, hots_[2], other);
  SessionHot& unjoined = hots_[3];
  add(3, unjoined, other);
  unjoined.association = nullptr;
  receive({request(hots_[2], 0), request(unjoined, 0), request(hots_[1], 7)});
  EXPECT_EQ(driver_.drops[DropReason::kForeignSender], 2);
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(hots_[2].heard, 0u) << "who is not believed is not heard";
}

TEST_F(SmallCallsReceivedTest, AHandleThatNobodyHas_NamesNobody) {
  Record all_ones = request(hots_[0], 0);
  all_ones.head.session = UINT32_MAX;
  receive({all_ones});
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_EQ(driver_.drops[DropReason::kForeignSender], 1);
}

TEST_F(SmallCallsReceivedTest, ABundle_OfNoAssociationHereIsDropped) {
  const std::string records = encode_records({request(hots_[0], 0)});
  BundleHead other = head(1);
  other.epoch = 78;
  receive(other, records);
  other = head(1);
  other.association += 1;
  receive(other, records);
  receive(head(1), records, kPeer + 1);
  EXPECT_EQ(driver_.drops[DropReason::kUnknownAssociation], 3);
  BundleHead none = head(1);
  none.association = kNoAssociation;
  receive(none, records);
  EXPECT_EQ(driver_.drops[DropReason::kForeignSender], 1) << "where there is none yet only joins are believed";
  EXPECT_EQ(driver_.delivered, 0);
}

TEST_F(SmallCallsReceivedTest, Joins_AreBelievedInAnyBundle) {
  Record join;
  join.head = {0, 3, JoinRecord::kBytes, RecordKind::kJoin};
  join.bytes.assign(JoinRecord::kBytes, 'j');
  Record joined = join;
  joined.head.kind = RecordKind::kJoined;
  BundleHead none = head(1);
  none.association = kNoAssociation;
  receive(none, encode_records({join}));
  receive({join, request(hots_[0], 0), joined});
  EXPECT_EQ(driver_.joins, (std::vector<RecordKind>{RecordKind::kJoin, RecordKind::kJoin, RecordKind::kJoined}));
  EXPECT_EQ(driver_.delivered, 1);
}

TEST_F(SmallCallsReceivedTest, ADamagedBundle_IsNotBelieved) {
  std::string bundle = seal(head(1), false, encode_records({request(hots_[0], 0)}));
  bundle.back() ^= 1;
  calls_.on_bundle(as_byte_span(bundle), kPeer);
  EXPECT_EQ(driver_.drops[DropReason::kBadChecksum], 1);
  calls_.on_bundle(as_byte_span(bundle).first(20), kPeer);
  EXPECT_EQ(driver_.drops[DropReason::kTooShort], 1);
  EXPECT_FALSE(a_->was_heard);
}

TEST_F(SmallCallsReceivedTest, OfABundleThatEndsTooEarly_TheWholeRecordsAreTaken) {
  std::string records = encode_records({request(hots_[0], 0), request(hots_[0], 1, "0123456789")});
  receive(head(2), std::string_view(records).substr(0, records.size() - 1));
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(driver_.drops[DropReason::kBadLength], 1);
  receive(head(3), encode_records({request(hots_[0], 1), request(hots_[0], 2)}));
  EXPECT_EQ(driver_.delivered, 3) << "fewer records than it says";
  receive(head(1), encode_records({request(hots_[0], 3), request(hots_[0], 4)}));
  EXPECT_EQ(driver_.delivered, 4) << "more records than it says";
  receive(head(0), "");
  EXPECT_EQ(driver_.drops[DropReason::kBadLength], 3);
}

TEST_F(SmallCallsReceivedTest, KindsThatThereAreNot_AreNotCalls) {
  for (const uint32_t kind : {0u, 6u, 15u}) {
    Record odd = request(hots_[0], 0);
    odd.head.kind = static_cast<RecordKind>(kind);
    receive({odd});
  }
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_EQ(driver_.drops[DropReason::kBadType] + static_cast<int>(driver_.joins.size()), 3);
}

TEST_F(SmallCallsReceivedTest, AStaleBundle_DoesNotRunARequestWhoseNumberLooksNew) {
  BundleHead old = head(1);
  receive({request(hots_[0], 0)});
  driver_.now += Association::kStaleAfter + kMillisecond;
  receive({request(hots_[0], 1u << 31)});
  driver_.drops.clear();
  driver_.delivered = 0;
  // A duplicate of the first bundle: after 2^31 numbers it is newer.
  receive(old, encode_records({request(hots_[0], kWindow + (1u << 31))}));
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_EQ(driver_.drops[DropReason::kStaleBundle], 1);
}

// --- Echoes ----------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsReceivedTest, ABundlesEcho_IsOneSampleForAllItsAnswers) {
  hots_[1].quiet_span = 0;  // it wants to know everything
  const uint32_t numbers[] = {start(hots_[0]), start(hots_[0]), start(hots_[1])};
  const Ticks sent = to_ticks(driver_.now);
  driver_.now += 640 * kMicrosecond;
  BundleHead echoing = head(3);
  echoing.flags = 0;
  echoing.echo = sent;
  receive(echoing, encode_records({response(hots_[0], numbers[0]), response(hots_[0], numbers[1]),
                                   response(hots_[1], numbers[2])}));
  ASSERT_EQ(driver_.samples.size(), 1u);
  EXPECT_EQ(driver_.samples[0], (std::pair<Ticks, uint32_t>{10'000, 3}));
  EXPECT_EQ(a_->rtt.srtt_ns(), 640 * kMicrosecond);
  EXPECT_EQ(a_->probe_ticks, to_ticks(a_->rtt.probe_timeout_ns(options_, 0)));
}

/// Who only answers learns the path's delay, too: how long to wait for a bundle that may be late.
TEST_F(SmallCallsReceivedTest, AnEcho_IsASampleWithoutAnAnswer) {
  BundleHead echoing = head(1);
  echoing.flags = 0;
  echoing.echo = to_ticks(driver_.now) - 10;
  receive(echoing, encode_records({request(hots_[0], 5)}));
  EXPECT_EQ(a_->rtt.srtt_ns(), 10 * kTickNs);
  EXPECT_TRUE(driver_.samples.empty());
}

TEST_F(SmallCallsReceivedTest, AnEcho_OfTheFutureOrOfNothingIsNoSample) {
  const uint32_t numbers[] = {start(hots_[0]), start(hots_[0]), start(hots_[0])};
  BundleHead echoing = head(1);
  echoing.echo = to_ticks(driver_.now) - 10;
  receive(echoing, encode_records({response(hots_[0], numbers[0])}));  // with kNoEcho
  echoing.flags = 0;
  echoing.echo = to_ticks(driver_.now) + 1;
  receive(echoing, encode_records({response(hots_[0], numbers[1])}));
  EXPECT_FALSE(a_->rtt.has_sample());
  hots_[0].quiet_span = 100;
  echoing.echo = to_ticks(driver_.now) - 50;
  receive(echoing, encode_records({response(hots_[0], numbers[2])}));
  EXPECT_TRUE(a_->rtt.has_sample());
  EXPECT_TRUE(driver_.samples.empty()) << "it is no news to congestion control";
}

TEST_F(SmallCallsReceivedTest, WhatIsHeard_IsEchoedLaterByTheTimeItWasHeld) {
  BundleHead first = head(1);
  first.stamp = 123'456;
  receive(first, encode_records({request(hots_[0], 0)}));
  driver_.now += 64 * kMicrosecond;
  ASSERT_TRUE(answer(hots_[0], 0, "a"));
  calls_.writer().send_all();
  EXPECT_EQ(driver_.sent.at(0).head.flags, 0);
  EXPECT_EQ(driver_.sent.at(0).head.echo, 123'456u + 1000);
}

TEST_F(SmallCallsReceivedTest, Associations_HaveBundlesOfTheirOwn) {
  Association& other = driver_.associations.make_own(kPeer + 1, 5);
  other.bundle_bytes_max = 1056;
  other.remote_index = 6;
  add(2, hots_[2], other);
  for (int i = 0; i < 5; ++i) {
    start(hots_[0], "one");
    start(hots_[2], "other");
  }
  calls_.writer().send_all();
  size_t records = 0;
  for (const Sent& one : driver_.sent) {
    for (const Record& record : one.records) EXPECT_EQ(record.bytes, one.association == a_ ? "one" : "other");
    EXPECT_EQ(one.head.association, one.association->remote_index);
    records += one.records.size();
  }
  EXPECT_EQ(records, 10u);
}

}  // namespace
}  // namespace skua::rpc::testing
