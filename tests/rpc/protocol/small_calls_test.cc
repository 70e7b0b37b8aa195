// SmallCalls over a driver that records: what is written into bundles, when these are sealed, and what becomes of what comes in.
#include "rpc/protocol/small_calls.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/wire/bundle_testing.h"

namespace skua::rpc {
namespace {

using testing::Record;
using testing::RecordsRead;

constexpr uint32_t kPeer = 5;
constexpr uint32_t kWindow = 64;
constexpr uint8_t kMethod = 9;

struct LateAnswer {
  uint32_t number = 0;
  std::string bytes;
  Ticks echo = 0;
};

/// A bundle that was sent, taken apart.
struct Sent {
  const Association* association = nullptr;
  BundleHead head;
  std::vector<Record> records;
};

class RecordingDriver final : public LeaseOwner {
 public:
  // --- The driver that SmallCalls wants
  SessionHot& hot(uint32_t index) { return sessions.contains(index) ? *sessions[index] : nobody; }
  Association* association(uint32_t index, uint32_t epoch, uint32_t peer) {
    return associations.find(index, epoch, peer);
  }
  bool open_frame(Association& a) {
    if (!has_room) return false;
    frames.push_back(std::make_unique<std::vector<std::byte>>(frame_room + 64));
    a.begin = frames.back()->data();
    a.end = a.begin + frame_room;
    return true;
  }
  void send_frame(Association& a, uint32_t bytes) {
    if (bytes == 0) {
      ++empty_frames;
      return;
    }
    const ByteSpan bundle(a.begin, bytes);
    Sent one{&a, {}, {}};
    DropReason why{};
    ASSERT_TRUE(open_bundle(bundle, false, one.head, why));
    const RecordsRead read = testing::read_records_by_hand(bundle, one.head.records);
    EXPECT_FALSE(read.is_malformed);
    one.records = read.records;
    written.push_back(one);
  }
  void flush() {
    sent.insert(sent.end(), written.begin(), written.end());
    written.clear();
  }
  bool keep(SessionHot&, ByteSpan bytes, Lease& lease) {
    if (keep_fails) return false;
    if (!bytes.empty()) lease.fill(bytes, this, ++kept);
    return true;
  }
  void return_lease(uint64_t) override { --kept; }
  void deliver(SessionHot& session, SmallRequest&& request) {
    ++delivered;
    const std::string bytes(as_string_view(request.bytes.bytes()));
    requests.emplace_back(request.number, bytes);
    last_time = request.time;
    if (handler) handler(session, request.number, bytes);
  }
  void complete(absl::AnyInvocable<void(CallOutcome&&)>&& completion, Lease&& response) {
    CallOutcome outcome;
    outcome.response = std::move(response);
    completion(std::move(outcome));
  }
  void burst_end() {
    ++burst_ends;
    if (on_burst_end) on_burst_end();
  }
  void on_join(const BundleHead&, const RecordHead& record, ByteSpan, uint32_t) { joins.push_back(record.kind); }
  void arm(SessionHot& session, Ticks by) {
    ++armed;
    session.due = by;
    session.hinder(SessionHot::kUnarmed, false);
  }
  void make_slots(SessionHot& session) { slots[&session].make(session); }
  bool yield_slot(SessionHot& session, uint32_t number) {
    if (yields) session.server()[number & session.mask].state = ServerSlot::State::kIdle;
    return yields;
  }
  void on_slot_freed(SessionHot&) { ++freed; }
  void on_late_answer(SessionHot&, const RecordHead& record, ByteSpan bytes, Ticks echo) {
    late.push_back({record.number, std::string(as_string_view(bytes)), echo});
  }
  void on_sample(SessionHot&, Ticks delay, uint32_t answers, uint32_t) { samples.emplace_back(delay, answers); }
  void drop(DropReason reason) { ++drops[reason]; }
  [[nodiscard]] TimeNs now_ns() const { return now; }
  [[nodiscard]] bool integrity() const { return false; }

  // --- What a test sets and sees
  TimeNs now = 100 * kSecond;
  bool has_room = true;
  uint32_t frame_room = 1056;
  bool keep_fails = false;
  bool yields = true;
  std::function<void(SessionHot&, uint32_t, const std::string&)> handler;
  std::function<void()> on_burst_end;
  Associations associations;
  SessionHot nobody;
  std::map<uint32_t, SessionHot*> sessions;
  std::map<SessionHot*, SmallSlots> slots;
  std::vector<std::unique_ptr<std::vector<std::byte>>> frames;
  std::vector<Sent> written;
  std::vector<Sent> sent;
  std::vector<std::pair<uint32_t, std::string>> requests;
  std::vector<LateAnswer> late;
  std::vector<std::pair<Ticks, uint32_t>> samples;
  std::vector<RecordKind> joins;
  std::map<DropReason, int> drops;
  int empty_frames = 0;
  int delivered = 0;
  int burst_ends = 0;
  int armed = 0;
  int freed = 0;
  int64_t kept = 0;
  uint8_t last_time = 0;
};

class SmallCallsTest : public ::testing::Test {
 protected:
  using Calls = SmallCalls<RecordingDriver>;

  SmallCallsTest() {
    a_ = &driver_.associations.make_own(kPeer, 77);
    a_->remote_index = 4;
    a_->remote_epoch = 44;
    a_->bundle_bytes_max = 1056;
    a_->probe_ticks = to_ticks(kMillisecond);
    for (uint32_t i = 0; i < 2; ++i) add(i, hots_[i], *a_);
  }

  void add(uint32_t index, SessionHot& hot, Association& association) {
    driver_.sessions[index] = &hot;
    hot.mask = kWindow - 1;
    hot.handle = session_handle(index, 3);
    hot.remote_handle = session_handle(index + 10, 8);
    hot.credits = 100;
    hot.hindrances = SessionHot::kUnarmed;
    hot.association = &association;
    driver_.make_slots(hot);
  }

  /// The number; 0xffffffff: not from here.
  uint32_t start(SessionHot& hot, std::string_view text = "request", DurationNs timeout_ns = kSecond) {
    MessagePtr request = MessagePtr::copy_of(as_byte_span(text));
    Calls::CompletionFn completion = [this](CallOutcome&& outcome) {
      completed_.emplace_back(as_string_view(outcome.response.bytes()));
      if (on_complete_) std::exchange(on_complete_, nullptr)();
    };
    uint32_t number = UINT32_MAX;
    const bool started = calls_.start(hot, kMethod, request, timeout_ns, completion, number);
    EXPECT_NE(started, static_cast<bool>(request)) << "the message is taken if, and only if, the call began";
    EXPECT_NE(started, static_cast<bool>(completion));
    return started ? number : UINT32_MAX;
  }
  bool answer(SessionHot& hot, uint32_t number, std::string_view text) {
    MessagePtr response = MessagePtr::copy_of(as_byte_span(text));
    const bool answered = calls_.answer(hot, number, response);
    EXPECT_NE(answered, static_cast<bool>(response));
    return answered;
  }

  [[nodiscard]] BundleHead head(size_t records) const {
    return {.flags = bundle_flags::kNoEcho,
            .records = static_cast<uint16_t>(records),
            .association = a_->index,
            .epoch = 77,
            .stamp = to_ticks(driver_.now)};
  }
  static Record request(const SessionHot& hot, uint32_t number, std::string bytes = "do") {
    Record out;
    out.head = {hot.handle,           number,  static_cast<uint16_t>(bytes.size()),
                RecordKind::kRequest, kMethod, time_code(kSecond)};
    out.bytes = std::move(bytes);
    return out;
  }
  static Record response(const SessionHot& hot, uint32_t number, std::string bytes = "done") {
    Record out = request(hot, number, std::move(bytes));
    out.head.kind = RecordKind::kResponse;
    out.head.method = out.head.time = 0;
    return out;
  }
  void receive(const BundleHead& head, std::string_view records, uint32_t from = kPeer) {
    received_.push_back(testing::seal(head, false, records));
    calls_.on_bundle(as_byte_span(received_.back()), from);
  }
  void receive(const std::vector<Record>& records) { receive(head(records.size()), testing::encode_records(records)); }
  [[nodiscard]] std::vector<size_t> sizes() const {
    std::vector<size_t> out;
    for (const Sent& one : driver_.sent) out.push_back(one.records.size());
    return out;
  }

  RecordingDriver driver_;
  ProtocolOptions options_;
  Calls calls_{driver_, options_};
  Association* a_ = nullptr;
  SessionHot hots_[4];
  std::vector<std::string> completed_;
  std::function<void()> on_complete_;  // in the next completion
  std::deque<std::string> received_;
};

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
  calls_.send_all();
  if (in_bundle > 0) expected.push_back(in_bundle);
  EXPECT_EQ(sizes(), expected);
  EXPECT_EQ(*std::max_element(expected.begin(), expected.end()), 16u);
  EXPECT_TRUE(calls_.nothing_written());
}

TEST_F(SmallCallsTest, Start_WhatIsWrittenLeavesWithSendAll) {
  for (int i = 0; i < 4; ++i) start(hots_[0]);
  EXPECT_EQ(sizes(), (std::vector<size_t>{1, 1, 1}));
  EXPECT_FALSE(calls_.nothing_written());
  calls_.send_all();
  EXPECT_EQ(sizes(), (std::vector<size_t>{1, 1, 1, 1}));
  calls_.send_all();
  EXPECT_EQ(driver_.sent.size(), 4u) << "nothing is sent twice";
}

TEST_F(SmallCallsTest, Start_AFullFrameLeavesAndTheNextBegins) {
  for (int i = 0; i < 40; ++i) start(hots_[0], "x");
  const size_t before = driver_.sent.size();
  const std::string large(400, 'l');
  for (int i = 0; i < 5; ++i) ASSERT_NE(start(hots_[1], large), UINT32_MAX);
  calls_.send_all();
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

TEST_F(SmallCallsTest, Start_WhatNoFrameCarriesGoesInPackets) {
  EXPECT_EQ(start(hots_[0], std::string(1056 - 40 + 1, 'x')), UINT32_MAX);
  EXPECT_NE(start(hots_[0], std::string(1056 - 40, 'x')), UINT32_MAX);
  a_->bundle_bytes_max = 9000;
  EXPECT_EQ(start(hots_[0], std::string(1056 - 40 + 1, 'x')), UINT32_MAX) << "the wire's frames are smaller";
  EXPECT_NE(start(hots_[0], "small"), UINT32_MAX) << "in the frame that was taken in vain";
  driver_.frame_room = 9000;
  calls_.send_all();
  EXPECT_EQ(start(hots_[0], std::string(kRecordBytesMax + 1, 'x')), UINT32_MAX);
  EXPECT_NE(start(hots_[0], std::string(kRecordBytesMax, 'x')), UINT32_MAX);
}

TEST_F(SmallCallsTest, AFrameThatNothingWasWrittenInto_IsGivenBack) {
  a_->bundle_bytes_max = 9000;
  EXPECT_EQ(start(hots_[0], std::string(2000, 'x')), UINT32_MAX);
  calls_.send_all();
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
  Calls::CompletionFn completion = [](CallOutcome&&) {};
  uint32_t number = 0;
  ASSERT_TRUE(calls_.start(hots_[0], kMethod, request, kSecond, completion, number));
  EXPECT_EQ(driver_.sent.at(0).records.at(0).bytes, head + one + two);
  for (const size_t size : {0u, 1u, 31u, 32u, 33u, 256u}) {
    ASSERT_NE(start(hots_[0], std::string(size, 'h')), UINT32_MAX);
    calls_.send_all();
    EXPECT_EQ(driver_.sent.back().records.at(0).bytes, std::string(size, 'h'));
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
  receive(with_echo, testing::encode_records({response(hots_[0], number)}));
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

// --- What completions may do -----------------------------------------------------------------------------------------

TEST_F(SmallCallsTest, ACompletion_StartsTheNextCallInItsSlot) {
  const uint32_t number = start(hots_[0]);
  uint32_t next = 0;
  on_complete_ = [&] { next = start(hots_[0], "next"); };
  receive({response(hots_[0], number)});
  EXPECT_EQ(next, number + kWindow);
  EXPECT_EQ(hots_[0].small_count, 1);
  calls_.send_all();
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
    calls_.discard(*a_);
    driver_.associations.end(*a_);
  };
  BundleHead echoing = head(2);
  echoing.flags = 0;
  echoing.echo = to_ticks(driver_.now) - 100;
  receive(echoing, testing::encode_records({response(hots_[0], number), request(hots_[1], 0)}));
  EXPECT_EQ(completed_.size(), 1u);
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_TRUE(driver_.samples.empty()) << "there is nobody to tell of the delay";
  EXPECT_TRUE(calls_.nothing_written());
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

// --- Requests --------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsTest, ARequest_IsDeliveredAndItsAnswerKept) {
  receive({request(hots_[0], 0, "question")});
  ASSERT_EQ(driver_.requests.size(), 1u);
  EXPECT_EQ(driver_.requests[0].second, "question");
  EXPECT_EQ(driver_.last_time, time_code(kSecond));
  EXPECT_EQ(hots_[0].server()[0].state, ServerSlot::State::kExecuting);
  ASSERT_TRUE(answer(hots_[0], 0, "answer"));
  EXPECT_EQ(hots_[0].server()[0].state, ServerSlot::State::kResponding);
  EXPECT_EQ(as_string_view(hots_[0].server()[0].response->head()), "answer");
  EXPECT_FALSE(answer(hots_[0], 0, "again"));
  EXPECT_EQ(driver_.sent.size(), 0u) << "it waits for the others of its burst";
  calls_.send_all();
  ASSERT_EQ(driver_.sent.size(), 1u);
  EXPECT_EQ(driver_.sent[0].records.at(0).head,
            (RecordHead{hots_[0].remote_handle, 0, 6, RecordKind::kResponse, 0, 0}));
}

TEST_F(SmallCallsTest, ARequestThatComesTwice_RunsOnce) {
  receive({request(hots_[0], 5), request(hots_[0], 5)});
  ASSERT_TRUE(answer(hots_[0], 5, "a"));
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(driver_.drops[DropReason::kDuplicate], 2);
}

TEST_F(SmallCallsTest, ARequestOfAnEarlierNumber_DoesNotRun) {
  receive({request(hots_[0], 5 + kWindow), request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(driver_.drops[DropReason::kStaleRequest], 1);
  receive({request(hots_[0], 5 + kWindow + (1u << 31))});
  EXPECT_EQ(driver_.drops[DropReason::kStaleRequest], 2) << "as far ahead as behind";
}

TEST_F(SmallCallsTest, TheNextRequest_LetsGoOfTheAnswerBefore) {
  int released = 0;
  receive({request(hots_[0], 5)});
  MessagePtr response = MessagePtr::make();
  static const std::string kBody = "body";
  ASSERT_TRUE(response->add_body(
      as_byte_span(kBody), [](void* count) { ++*static_cast<int*>(count); }, &released));
  ASSERT_TRUE(calls_.answer(hots_[0], 5, response));
  calls_.send_all();
  EXPECT_EQ(released, 0) << "the request may come again, as a packet";
  receive({request(hots_[0], 5 + kWindow)});
  EXPECT_EQ(released, 1);
}

TEST_F(SmallCallsTest, ARequest_WithoutMemoryForItIsAsIfItHadNotCome) {
  driver_.keep_fails = true;
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.drops[DropReason::kNoMemory], 1);
  driver_.keep_fails = false;
  receive({request(hots_[0], 5)});
  EXPECT_EQ(driver_.delivered, 1);
}

TEST_F(SmallCallsTest, ARequest_ForASlotThatALargeCallHadAsksItsHalf) {
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

TEST_F(SmallCallsTest, ARequest_MakesTheSlotsOfASessionThatHasNone) {
  driver_.slots[&hots_[0]].clear();
  receive({request(hots_[0], 0)});
  EXPECT_EQ(driver_.delivered, 1);
}

TEST_F(SmallCallsTest, Answer_NothingHappensWhereItIsNotForHere) {
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

/// Answers leave with the bundle that brought their requests: at its end if it is large, at the burst's end if it is not.
TEST_F(SmallCallsTest, Answers_LeaveWhenTheReceivedBundleIsDone) {
  driver_.handler = [&](SessionHot& hot, uint32_t number, const std::string& bytes) {
    EXPECT_TRUE(answer(hot, number, "to " + bytes));
    EXPECT_EQ(driver_.sent.size(), 0u) << "not before";
  };
  std::vector<Record> large;
  for (uint32_t i = 0; i < 8; ++i) large.push_back(request(hots_[i % 2], i));
  receive(std::vector<Record>(large.begin(), large.begin() + 7));
  EXPECT_EQ(driver_.sent.size(), 0u);
  EXPECT_EQ(driver_.burst_ends, 0);
  calls_.send_all();
  EXPECT_EQ(sizes(), std::vector<size_t>{7});
  driver_.sent.clear();
  for (Record& one : large) one.head.number += kWindow;
  receive(large);
  EXPECT_EQ(driver_.burst_ends, 1);
  EXPECT_EQ(sizes(), std::vector<size_t>{8});
}

TEST_F(SmallCallsTest, AnswersThatHandlersGather_AreOfTheSameBundle) {
  driver_.on_burst_end = [&] {
    for (const auto& [number, bytes] : driver_.requests) EXPECT_TRUE(answer(hots_[0], number, "x"));
  };
  std::vector<Record> requests;
  for (uint32_t i = 0; i < 10; ++i) requests.push_back(request(hots_[0], i));
  receive(requests);
  EXPECT_EQ(sizes(), std::vector<size_t>{10});
}

TEST_F(SmallCallsTest, CallsOfAHandler_LeaveWithItsAnswers) {
  for (int i = 0; i < 30; ++i) start(hots_[1]);
  calls_.send_all();
  driver_.sent.clear();
  driver_.handler = [&](SessionHot& hot, uint32_t number, const std::string&) {
    start(hots_[1], "call");
    answer(hot, number, "answer");
  };
  receive({request(hots_[0], 0), request(hots_[0], 1)});
  EXPECT_EQ(driver_.sent.size(), 0u);
  calls_.send_all();
  EXPECT_EQ(sizes(), std::vector<size_t>{4});
}

// --- What is believed ------------------------------------------------------------------------------------------------

TEST_F(SmallCallsTest, ARecordOfAnotherLife_IsDroppedAndTheOthersStand) {
  Record late = request(hots_[0], 0);
  late.head.session = session_handle(0, 2);
  Record nobody = request(hots_[0], 0);
  nobody.head.session = session_handle(999, 3);
  receive({late, nobody, request(hots_[1], 7)});
  EXPECT_EQ(driver_.drops[DropReason::kOldGeneration], 2);
  ASSERT_EQ(driver_.requests.size(), 1u);
  EXPECT_EQ(driver_.requests[0].first, 7u);
}

TEST_F(SmallCallsTest, ARecordForASessionOfAnotherAssociation_IsDropped) {
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

TEST_F(SmallCallsTest, AHandleThatNobodyHas_NamesNobody) {
  Record all_ones = request(hots_[0], 0);
  all_ones.head.session = UINT32_MAX;
  receive({all_ones});
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_EQ(driver_.drops[DropReason::kForeignSender], 1);
}

TEST_F(SmallCallsTest, ABundle_OfNoAssociationHereIsDropped) {
  const std::string records = testing::encode_records({request(hots_[0], 0)});
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

TEST_F(SmallCallsTest, Joins_AreBelievedInAnyBundle) {
  Record join;
  join.head = {0, 3, JoinRecord::kBytes, RecordKind::kJoin};
  join.bytes.assign(JoinRecord::kBytes, 'j');
  Record joined = join;
  joined.head.kind = RecordKind::kJoined;
  BundleHead none = head(1);
  none.association = kNoAssociation;
  receive(none, testing::encode_records({join}));
  receive({join, request(hots_[0], 0), joined});
  EXPECT_EQ(driver_.joins, (std::vector<RecordKind>{RecordKind::kJoin, RecordKind::kJoin, RecordKind::kJoined}));
  EXPECT_EQ(driver_.delivered, 1);
}

TEST_F(SmallCallsTest, ADamagedBundle_IsNotBelieved) {
  std::string bundle = testing::seal(head(1), false, testing::encode_records({request(hots_[0], 0)}));
  bundle.back() ^= 1;
  calls_.on_bundle(as_byte_span(bundle), kPeer);
  EXPECT_EQ(driver_.drops[DropReason::kBadChecksum], 1);
  calls_.on_bundle(as_byte_span(bundle).first(20), kPeer);
  EXPECT_EQ(driver_.drops[DropReason::kTooShort], 1);
  EXPECT_FALSE(a_->was_heard);
}

TEST_F(SmallCallsTest, OfABundleThatEndsTooEarly_TheWholeRecordsAreTaken) {
  std::string records = testing::encode_records({request(hots_[0], 0), request(hots_[0], 1, "0123456789")});
  receive(head(2), std::string_view(records).substr(0, records.size() - 1));
  EXPECT_EQ(driver_.delivered, 1);
  EXPECT_EQ(driver_.drops[DropReason::kBadLength], 1);
  receive(head(3), testing::encode_records({request(hots_[0], 1), request(hots_[0], 2)}));
  EXPECT_EQ(driver_.delivered, 3) << "fewer records than it says";
  receive(head(1), testing::encode_records({request(hots_[0], 3), request(hots_[0], 4)}));
  EXPECT_EQ(driver_.delivered, 4) << "more records than it says";
  receive(head(0), "");
  EXPECT_EQ(driver_.drops[DropReason::kBadLength], 3);
}

TEST_F(SmallCallsTest, KindsThatThereAreNot_AreNotCalls) {
  for (const uint32_t kind : {0u, 5u, 15u}) {
    Record odd = request(hots_[0], 0);
    odd.head.kind = static_cast<RecordKind>(kind);
    receive({odd});
  }
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_EQ(driver_.drops[DropReason::kBadType] + static_cast<int>(driver_.joins.size()), 3);
}

TEST_F(SmallCallsTest, AStaleBundle_DoesNotRunARequestWhoseNumberLooksNew) {
  BundleHead old = head(1);
  receive({request(hots_[0], 0)});
  driver_.now += Association::kStaleAfter + kMillisecond;
  receive({request(hots_[0], 1u << 31)});
  driver_.drops.clear();
  driver_.delivered = 0;
  // A duplicate of the first bundle: after 2^31 numbers it is newer.
  receive(old, testing::encode_records({request(hots_[0], kWindow + (1u << 31))}));
  EXPECT_EQ(driver_.delivered, 0);
  EXPECT_EQ(driver_.drops[DropReason::kStaleBundle], 1);
}

// --- Echoes ----------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsTest, ABundlesEcho_IsOneSampleForAllItsAnswers) {
  hots_[1].quiet_span = 0;  // it wants to know everything
  const uint32_t numbers[] = {start(hots_[0]), start(hots_[0]), start(hots_[1])};
  const Ticks sent = to_ticks(driver_.now);
  driver_.now += 640 * kMicrosecond;
  BundleHead echoing = head(3);
  echoing.flags = 0;
  echoing.echo = sent;
  receive(echoing, testing::encode_records({response(hots_[0], numbers[0]), response(hots_[0], numbers[1]),
                                            response(hots_[1], numbers[2])}));
  ASSERT_EQ(driver_.samples.size(), 1u);
  EXPECT_EQ(driver_.samples[0], (std::pair<Ticks, uint32_t>{10'000, 3}));
  EXPECT_EQ(a_->rtt.srtt_ns(), 640 * kMicrosecond);
  EXPECT_EQ(a_->probe_ticks, to_ticks(a_->rtt.probe_timeout_ns(options_, 0)));
}

TEST_F(SmallCallsTest, AnEcho_OfTheFutureOrOfNothingIsNoSample) {
  const uint32_t numbers[] = {start(hots_[0]), start(hots_[0]), start(hots_[0])};
  BundleHead echoing = head(1);
  echoing.echo = to_ticks(driver_.now) - 10;
  receive(echoing, testing::encode_records({response(hots_[0], numbers[0])}));  // with kNoEcho
  echoing.flags = 0;
  echoing.echo = to_ticks(driver_.now) + 1;
  receive(echoing, testing::encode_records({response(hots_[0], numbers[1])}));
  EXPECT_FALSE(a_->rtt.has_sample());
  hots_[0].quiet_span = 100;
  echoing.echo = to_ticks(driver_.now) - 50;
  receive(echoing, testing::encode_records({response(hots_[0], numbers[2])}));
  EXPECT_TRUE(a_->rtt.has_sample());
  EXPECT_TRUE(driver_.samples.empty()) << "it is no news to congestion control";
}

TEST_F(SmallCallsTest, WhatIsHeard_IsEchoedLaterByTheTimeItWasHeld) {
  BundleHead first = head(1);
  first.stamp = 123'456;
  receive(first, testing::encode_records({request(hots_[0], 0)}));
  driver_.now += 64 * kMicrosecond;
  ASSERT_TRUE(answer(hots_[0], 0, "a"));
  calls_.send_all();
  EXPECT_EQ(driver_.sent.at(0).head.flags, 0);
  EXPECT_EQ(driver_.sent.at(0).head.echo, 123'456u + 1000);
}

TEST_F(SmallCallsTest, Associations_HaveBundlesOfTheirOwn) {
  Association& other = driver_.associations.make_own(kPeer + 1, 5);
  other.bundle_bytes_max = 1056;
  other.remote_index = 6;
  add(2, hots_[2], other);
  for (int i = 0; i < 5; ++i) {
    start(hots_[0], "one");
    start(hots_[2], "other");
  }
  calls_.send_all();
  size_t records = 0;
  for (const Sent& one : driver_.sent) {
    for (const Record& record : one.records) EXPECT_EQ(record.bytes, one.association == a_ ? "one" : "other");
    EXPECT_EQ(one.head.association, one.association->remote_index);
    records += one.records.size();
  }
  EXPECT_EQ(records, 10u);
}

}  // namespace
}  // namespace skua::rpc
