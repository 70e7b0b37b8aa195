// Sessions on a wire that behaves: sizes, statuses, slots, backlog. Loss is in session_loss_test.cc, silence in
// session_liveness_test.cc, endings in session_end_test.cc, lies in session_hostile_test.cc.
#include "rpc/protocol/session.h"

#include <gtest/gtest.h>

#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Flight;
using testing::Harness;
using testing::message_of;
using testing::pattern;
using testing::TestCall;

// Around one packet, around the bitmap's inline word, around a pull's reach.
constexpr size_t kSizes[] = {0, 1, 99, 100, 101, 199, 200, 201, 6400, 6401, 25'600, 25'700, 60'000};

TEST(Session, Call_EverySizeBothWays) {
  for (const bool reliable : {false, true}) {
    for (const size_t request : kSizes) {
      for (const size_t response : kSizes) {
        Harness harness({.reliable = reliable});
        harness.serve(response);
        TestCall& call = harness.client.call(pattern(request, request));
        ASSERT_TRUE(harness.run_until([&] { return call.done(); })) << request << " " << response;
        ASSERT_TRUE(call.outcome.status.ok()) << call.outcome.status;
        ASSERT_EQ(call.response(), harness.expected_response(call, response)) << request << " " << response;
        EXPECT_TRUE(call.outcome.from_peer);
        harness.run(10 * kMillisecond);
        harness.expect_rest();
        EXPECT_EQ(harness.client.retransmits, 0);
      }
    }
  }
}

TEST(Session, Call_SmallOneIsTwoPackets) {
  Harness harness;
  harness.serve(50);
  TestCall& call = harness.client.call(pattern(1, 60));
  harness.run(400 * kMillisecond);
  ASSERT_TRUE(call.done());
  ASSERT_EQ(harness.sent.size(), 2u);
  const PacketHeader& request = harness.sent[0].header;
  EXPECT_EQ(request.type, PacketType::kRequest);
  EXPECT_EQ(request.method, 7);
  EXPECT_EQ(request.flags, 0);
  EXPECT_EQ(request.message_bytes, 60u);
  EXPECT_EQ(request.packet_index, 0);
  EXPECT_EQ(request.deadline_ms, 10'000);
  const PacketHeader& response = harness.sent[1].header;
  EXPECT_EQ(response.type, PacketType::kResponse);
  EXPECT_EQ(response.method, 0);
  EXPECT_EQ(response.req_num, request.req_num);
  EXPECT_EQ(response.message_bytes, 50u);
}

TEST(Session, Call_LargeResponseIsPulledInRanges) {
  Harness harness;
  harness.serve(2000);
  TestCall& call = harness.client.call(pattern(1, 10));
  harness.run(400 * kMillisecond);
  ASSERT_TRUE(call.done());
  EXPECT_EQ(harness.sent_count(PacketType::kResponse), 20u);
  EXPECT_LT(harness.sent_count(PacketType::kPull), 20u);  // one pull names several
  for (const Flight& flight : harness.sent) {
    if (flight.header.type != PacketType::kResponse) continue;
    EXPECT_EQ(flight.header.message_bytes, 2000u);
    EXPECT_EQ(flight.payload.size(), 100u);
  }
}

TEST(Session, Call_ResponseAboveAPageIsReleasedInAPacketOfItsOwn) {
  for (const size_t response : std::initializer_list<size_t>{4096, 4097}) {
    Harness harness;
    harness.serve(response);
    TestCall& call = harness.client.call(pattern(1, 10));
    harness.run(400 * kMillisecond);
    ASSERT_TRUE(call.done());
    EXPECT_EQ(harness.sent_count(PacketType::kRelease), response > 4096 ? 1u : 0u);
    EXPECT_EQ(harness.server.session->retained().responses, response > 4096 ? 0u : 1u);
    harness.expect_rest();
  }
}

TEST(Session, Call_NextRequestReleasesTheResponseBefore) {
  Harness harness({.terms = {.window = 1, .credits = 8, .message_max_bytes = 100'000, .payload_bytes = 100}});
  harness.serve(1000);
  for (int i = 0; i < 5; ++i) {
    harness.client.call(pattern(1, 10));
    harness.run(kMillisecond);
    EXPECT_EQ(harness.server.messages.outstanding_count(), 1u);
  }
  harness.expect_rest();
}

TEST(Session, Call_CopiedBytesOnlyForMessagesOfSeveralPackets) {
  Harness harness;
  harness.serve(100);
  harness.client.call(pattern(1, 100));
  harness.run(kMillisecond);
  EXPECT_EQ(harness.client.copied_bytes + harness.server.copied_bytes, 0u);
  harness.client.call(pattern(1, 250));
  harness.run(kMillisecond);
  EXPECT_EQ(harness.server.copied_bytes, 250u);
}

TEST(Session, Call_RequestFromSeveralBodies) {
  Harness harness;
  harness.serve(10);
  const std::string parts[] = {pattern(1, 130), pattern(2, 70), pattern(3, 201)};
  TestCall& call = harness.client.calls.emplace_back();
  call.request = "head" + parts[0] + parts[1] + parts[2];
  call.call.request = harness.client.messages.make();
  call.call.request->append_copy(as_byte_span("head"));
  for (const std::string& part : parts) {
    ASSERT_TRUE(call.call.request->add_body(as_byte_span(part), nullptr, nullptr));
  }
  call.call.deadline_ns = harness.now + kSecond;
  ASSERT_TRUE(harness.client.session->start(call.call, harness.now).ok());
  harness.run(kMillisecond);
  EXPECT_EQ(harness.runs[call.request], 1);
  EXPECT_EQ(call.response(), harness.expected_response(call, 10));
}

TEST(Session, Call_HandlersErrorArrivesWithItsText) {
  Harness harness;
  harness.server.handler = [&](ArrivedRequest&& request) {
    harness.server.respond(request, "no such key", absl::StatusCode::kNotFound);
  };
  TestCall& call = harness.client.call("?");
  harness.run(kMillisecond);
  EXPECT_EQ(call.outcome.status, absl::NotFoundError("no such key"));
  EXPECT_TRUE(call.outcome.from_peer);
  EXPECT_TRUE(call.outcome.may_have_executed);
  EXPECT_EQ(call.response(), "");
  harness.expect_rest();
}

TEST(Session, Call_ErrorOfSeveralPackets) {
  Harness harness;
  harness.server.handler = [&](ArrivedRequest&& request) {
    harness.server.respond(request, std::string(900, 'e'), absl::StatusCode::kInternal);
  };
  TestCall& call = harness.client.call("?");
  harness.run(kMillisecond);
  EXPECT_EQ(call.outcome.status, absl::InternalError(std::string(900, 'e')));
  harness.expect_rest();
}

TEST(Session, Call_EnginesRefusalSaysThatNothingRan) {
  Harness harness;
  harness.server.handler = [&](ArrivedRequest&& request) {
    harness.server.session->respond(request.slot, request.req_num, absl::StatusCode::kUnimplemented, true,
                                    message_of(harness.server.messages, "no handler"), harness.now);
  };
  TestCall& call = harness.client.call("?");
  harness.run(kMillisecond);
  EXPECT_EQ(call.outcome.status, absl::UnimplementedError("no handler"));
  EXPECT_FALSE(call.outcome.may_have_executed);
}

TEST(Session, Call_UnknownStatusCodesBecomeTheHighestKnown) {
  Harness harness;
  harness.server.handler = [&](ArrivedRequest&& request) {
    harness.server.respond(request, "", static_cast<absl::StatusCode>(4711));
  };
  TestCall& call = harness.client.call("?");
  harness.run(kMillisecond);
  EXPECT_EQ(call.code(), absl::StatusCode::kUnauthenticated);
}

TEST(Session, Call_OneWayIsAnsweredByTheEngineAlone) {
  for (const size_t size : std::initializer_list<size_t>{0, 50, 350}) {
    Harness harness;
    TestCall& call = harness.client.call(pattern(1, size), kSecond, true);
    harness.run(kMillisecond);
    ASSERT_TRUE(call.done());
    EXPECT_TRUE(call.outcome.status.ok());
    EXPECT_EQ(call.response(), "");
    ASSERT_EQ(harness.server.requests.size(), 1u);
    EXPECT_TRUE(harness.server.requests[0].one_way);
    EXPECT_FALSE(harness.server.respond(harness.server.requests[0], "not wanted"));
    harness.server.requests.clear();
    harness.expect_rest();
  }
}

TEST(Session, Call_BothDirectionsAtOnce) {
  Harness harness;
  harness.serve(1500);
  harness.client.handler = [&](ArrivedRequest&& request) {
    harness.client.respond(request, "from the client: " + std::string(as_string_view(request.request.bytes())));
  };
  std::vector<TestCall*> there;
  std::vector<TestCall*> back;
  there.reserve(20);
  back.reserve(20);
  for (uint64_t i = 0; i < 20; ++i) {
    there.push_back(&harness.client.call(pattern(i, 40 * i)));
    back.push_back(&harness.server.call(pattern(i, 30 * i)));
  }
  harness.run(100 * kMillisecond);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(there[i]->response(), harness.expected_response(*there[i], 1500));
    EXPECT_EQ(back[i]->response(), "from the client: " + back[i]->request);
  }
  harness.expect_rest();
}

TEST(Session, Call_FromInsideAHandler) {
  Harness harness;
  harness.client.handler = [&](ArrivedRequest&& request) { harness.client.respond(request, "inner"); };
  std::optional<ArrivedRequest> waiting;
  TestCall* inner = nullptr;
  harness.server.handler = [&](ArrivedRequest&& request) {
    waiting = std::move(request);
    inner = &harness.server.call("nested");
  };
  TestCall& outer = harness.client.call("outer");
  ASSERT_TRUE(harness.run_until([&] { return inner != nullptr && inner->done(); }));
  EXPECT_FALSE(outer.done());
  EXPECT_TRUE(harness.server.respond(*waiting, inner->response()));
  waiting.reset();
  harness.run(kMillisecond);
  EXPECT_EQ(outer.response(), "inner");
  harness.expect_rest();
}

// --- Slots and backlog -----------------------------------------------------------------------------------------------

TEST(Session, Start_MoreCallsThanSlotsWaitInOrder) {
  Harness harness;
  std::vector<std::string> order;
  harness.server.handler = [&](ArrivedRequest&& request) {
    order.emplace_back(as_string_view(request.request.bytes()));
    harness.server.respond(request, "ok");
  };
  std::vector<std::string> expected;
  expected.reserve(50);
  for (int i = 0; i < 50; ++i) {
    expected.push_back("call " + std::to_string(i));
    harness.client.call(expected.back());
  }
  EXPECT_EQ(harness.client.session->outstanding_calls(), 50u);
  harness.run(10 * kMillisecond);
  EXPECT_EQ(order, expected);
  harness.expect_rest();
}

TEST(Session, Start_BacklogFullIsRefusedAndLeavesNoTrace) {
  Harness harness;
  harness.client.options.backlog_max = 3;
  for (int i = 0; i < 4 + 3; ++i) harness.client.call("x");
  TestCall* none = nullptr;
  const absl::Status refused = harness.client.try_call("y", kSecond, false, &none);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("backlog"), absl::string_view::npos);
  harness.serve(5);
  harness.run(10 * kMillisecond);
  EXPECT_EQ(harness.server.delivered, 7);
  harness.client.call("y");
  harness.run(10 * kMillisecond);
  harness.expect_rest();
}

TEST(Session, Start_AboveTheNegotiatedSize) {
  Harness harness;
  TestCall* none = nullptr;
  EXPECT_EQ(harness.client.try_call(std::string(100'001, 'x'), kSecond, false, &none).code(),
            absl::StatusCode::kInvalidArgument);
  harness.serve(1);
  TestCall& largest = harness.client.call(pattern(1, 100'000));
  harness.run(100 * kMillisecond);
  EXPECT_TRUE(largest.outcome.status.ok());
  harness.expect_rest();
}

TEST(Session, Start_BeforeOpenWaitsForTheConnection) {
  Harness harness;
  harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
  TestCall& call = harness.client.call("early");
  TestCall& large = harness.client.call(std::string(100'001, 'x'));  // nobody knows the limit yet
  harness.run(10 * kMillisecond);
  EXPECT_FALSE(call.done());
  harness.serve(3);
  harness.open();
  harness.run(10 * kMillisecond);
  EXPECT_TRUE(call.outcome.status.ok());
  EXPECT_EQ(large.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(large.outcome.may_have_executed);
  harness.expect_rest();
}

TEST(Session, Start_CreditsBoundPacketsInFlightBothWays) {
  Harness harness;  // 8 credits
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  for (uint64_t i = 0; i < 4; ++i) harness.client.call(pattern(i, 2000));
  harness.transmit();
  EXPECT_EQ(harness.sent.size(), 8u);
  EXPECT_EQ(harness.client.session->credits_missing(), 8u);
}

TEST(Session, Start_FewerCreditsThanSlots) {
  Harness harness({.terms = {.window = 8, .credits = 2, .message_max_bytes = 100'000, .payload_bytes = 100}});
  harness.serve(700);
  for (uint64_t i = 0; i < 40; ++i) harness.client.call(pattern(i, 500));
  harness.run(100 * kMillisecond);
  for (const TestCall& call : harness.client.calls) {
    ASSERT_TRUE(call.done());
    EXPECT_EQ(call.response(), harness.expected_response(call, 700));
  }
  harness.expect_rest();
}

TEST(Session, Transmit_OnePacketOfRoomAtATime) {
  Harness harness;
  harness.serve(40'000);
  TestCall& call = harness.client.call(pattern(1, 40'000));
  for (int i = 0; i < 20'000 && !call.done(); ++i) {
    harness.client.room = harness.server.room = 1;
    harness.run(20 * kMicrosecond);
  }
  ASSERT_TRUE(call.done());
  EXPECT_EQ(call.response(), harness.expected_response(call, 40'000));
  harness.client.room = harness.server.room = SIZE_MAX;
  harness.run(kMillisecond);
  harness.expect_rest();
}

// A hole far behind and a pull running ahead make two pulls: both must find room, or wait.
TEST(Session, Transmit_PullsThatReachFarWithOnePacketOfRoom) {
  Harness harness({.terms = {.window = 1, .credits = 600, .message_max_bytes = 200'000, .payload_bytes = 100}});
  harness.serve(100'000);
  bool lose = true;
  harness.fate = [&](const Flight& flight) {
    const bool first_piece_after_the_unasked =
        flight.header.type == PacketType::kResponse && flight.header.packet_index == 1;
    return lose && first_piece_after_the_unasked ? Harness::Fate{} : Harness::Fate{10 * kMicrosecond};
  };
  TestCall& call = harness.client.call("x");
  int rounds = 0;
  while (!call.done() && ++rounds < 5000) {
    harness.client.room = 1;
    harness.run(15 * kMicrosecond);
    lose = rounds < 300;
  }
  ASSERT_TRUE(call.done());
  EXPECT_EQ(call.response(), harness.expected_response(call, 100'000));
}

TEST(Session, ReqNum_EachSlotSeesItsOwnSequence) {
  Harness harness;
  harness.serve(1);
  for (int i = 0; i < 100; ++i) {
    harness.client.call("x");
    if (i % 7 == 0) harness.run(kMillisecond);
  }
  harness.run(kMillisecond);
  std::map<uint32_t, uint32_t> last;
  for (const Flight& flight : harness.sent) {
    if (flight.header.type != PacketType::kRequest) continue;
    const uint32_t slot = flight.header.req_num % 4;
    if (last.count(slot) > 0) {
      EXPECT_EQ(flight.header.req_num, last[slot] + 4);
    } else {
      EXPECT_EQ(flight.header.req_num, slot);
    }
    last[slot] = flight.header.req_num;
  }
}

// --- Answers ---------------------------------------------------------------------------------------------------------

TEST(Session, Respond_LaterInAnotherOrder) {
  Harness harness;
  std::vector<TestCall*> calls;
  calls.reserve(4);
  for (int i = 0; i < 4; ++i) calls.push_back(&harness.client.call("call " + std::to_string(i)));
  harness.run(2 * kSecond);
  ASSERT_EQ(harness.server.requests.size(), 4u);
  while (!harness.server.requests.empty()) {
    const ArrivedRequest request = std::move(harness.server.requests.back());
    harness.server.requests.pop_back();
    EXPECT_TRUE(harness.server.respond(request, "re: " + std::string(as_string_view(request.request.bytes()))));
    harness.run(kMillisecond);
  }
  for (const TestCall* call : calls) {
    EXPECT_EQ(call->completions, 1);
    EXPECT_EQ(call->response(), "re: " + call->request);
    EXPECT_EQ(harness.runs[call->request], 1);
  }
  harness.expect_rest();
}

TEST(Session, Respond_TwiceIsStale) {
  Harness harness;
  harness.client.call("x");
  harness.run(kMillisecond);
  ASSERT_EQ(harness.server.requests.size(), 1u);
  EXPECT_TRUE(harness.server.respond(harness.server.requests[0], "first"));
  EXPECT_FALSE(harness.server.respond(harness.server.requests[0], "second"));
  harness.run(kMillisecond);
  EXPECT_EQ(harness.client.calls[0].response(), "first");
  EXPECT_FALSE(harness.server.respond(harness.server.requests[0], "third"));
  harness.server.requests.clear();
  harness.expect_rest();
}

TEST(Session, Respond_WrongSlotOrNumberIsStale) {
  Harness harness;
  harness.client.call("x");
  harness.run(kMillisecond);
  ArrivedRequest request = std::move(harness.server.requests[0]);
  harness.server.requests.clear();
  for (const auto& [slot, req_num] : {std::pair<uint32_t, uint32_t>{request.slot + 1, request.req_num},
                                      {request.slot, request.req_num + 4},
                                      {4, request.req_num},
                                      {UINT32_MAX, request.req_num}}) {
    EXPECT_FALSE(
        harness.server.session->respond(slot, req_num, absl::StatusCode::kOk, false, MessagePtr(), harness.now));
  }
  EXPECT_TRUE(harness.server.session->respond(request.slot, request.req_num, absl::StatusCode::kOk, false, MessagePtr(),
                                              harness.now));
  request.request.reset();
  harness.run(kMillisecond);
  EXPECT_EQ(harness.client.calls[0].response(), "");
  harness.expect_rest();
}

TEST(Session, Respond_LargerThanTheSessionCarries) {
  Harness harness;
  harness.serve(100'001);
  TestCall& call = harness.client.call("x");
  harness.run(10 * kMillisecond);
  EXPECT_EQ(call.code(), absl::StatusCode::kInternal);
  harness.expect_rest();
}

TEST(Session, Respond_NotEvenTheApologyFits) {
  Harness harness({.terms = {.window = 4, .credits = 8, .message_max_bytes = 3, .payload_bytes = 2}});
  harness.serve(4);
  TestCall& call = harness.client.call("abc");
  harness.run(10 * kMillisecond);
  EXPECT_EQ(call.code(), absl::StatusCode::kInternal);
  harness.expect_rest();
}

// --- Deadlines on the wire -------------------------------------------------------------------------------------------

TEST(Session, Deadline_ReachesTheHandlerAsTimeLeft) {
  for (const auto& [timeout, left] : std::map<DurationNs, DurationNs>{{kMillisecond, kMillisecond},
                                                                      {kMillisecond + 1, 2 * kMillisecond},
                                                                      {65'534 * kMillisecond, 65'534 * kMillisecond}}) {
    Harness harness;
    harness.client.call("x", timeout);
    harness.run(100 * kMicrosecond);
    ASSERT_EQ(harness.server.requests.size(), 1u);
    EXPECT_EQ(harness.server.requests[0].deadline_ns, kSecond + harness.setup.latency_ns + left);
  }
}

TEST(Session, Deadline_LongerThanTheHeaderCarriesIsUnlimited) {
  for (const DurationNs timeout : {65'535 * kMillisecond, 3600 * kSecond, kTimeNever}) {
    Harness harness;
    harness.client.call("x", timeout);
    harness.run(100 * kMicrosecond);
    ASSERT_EQ(harness.server.requests.size(), 1u);
    EXPECT_EQ(harness.server.requests[0].deadline_ns, kTimeNever);
  }
}

// --- Round-trip time -------------------------------------------------------------------------------------------------

TEST(Session, Rtt_TheHandlersTimeIsNotInIt) {
  Harness harness({.latency_ns = 64 * kMicrosecond});
  for (int i = 0; i < 30; ++i) {
    TestCall& call = harness.client.call("x");
    harness.run(300 * kMillisecond);  // the handler takes its time
    ASSERT_EQ(harness.server.requests.size(), 1u);
    harness.server.respond(harness.server.requests[0], "y");
    harness.server.requests.clear();
    ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  }
  EXPECT_NEAR(static_cast<double>(harness.client.session->rtt().srtt_ns()), 128'000, 1'000);
}

// --- What a stream transport asks ------------------------------------------------------------------------------------

TEST(Session, Expects_RequestsThatAreNewOrRepeated) {
  Harness harness;
  PacketHeader header = harness.header_to(true, PacketType::kRequest, 0);
  EXPECT_TRUE(harness.server.session->expects(header));
  harness.client.call("x");
  harness.run(kMillisecond);
  EXPECT_TRUE(harness.server.session->expects(header));  // its answer may be wanted again
  header.req_num = 4;
  EXPECT_TRUE(harness.server.session->expects(header));
  header.req_num = static_cast<uint32_t>(-4);
  EXPECT_FALSE(harness.server.session->expects(header));
  header.req_num = 4;
  header.message_bytes = 100'001;
  EXPECT_FALSE(harness.server.session->expects(header));
}

TEST(Session, Expects_ResponsesOfCallsInFlight) {
  Harness harness;
  PacketHeader header = harness.header_to(false, PacketType::kResponse, 0);
  EXPECT_FALSE(harness.client.session->expects(header));
  harness.client.call("x");
  EXPECT_TRUE(harness.client.session->expects(header));
  header.req_num = 4;
  EXPECT_FALSE(harness.client.session->expects(header));
  header.type = PacketType::kPing;
  EXPECT_FALSE(harness.client.session->expects(header));
}

/// A request of one packet comes, and the transport found no memory for its payload.
absl::StatusCode code_of_unplaceable_request(size_t memory_max) {
  Harness harness({.reliable = true});
  harness.server.memory_max = memory_max;
  harness.client.call("xx");
  harness.transmit();
  const std::vector<Flight> wire = harness.take_wire();
  EXPECT_EQ(wire.size(), 1u);
  harness.server.session->on_unplaceable(wire.at(0).header, harness.now);
  harness.run(kMillisecond);
  EXPECT_TRUE(harness.client.calls[0].done());
  EXPECT_FALSE(harness.client.calls[0].outcome.may_have_executed);
  EXPECT_EQ(harness.server.delivered, 0);
  harness.expect_rest();
  return harness.client.calls[0].code();
}

TEST(Session, OnUnplaceable_RequestIsRefusedWithoutRunning) {
  EXPECT_EQ(code_of_unplaceable_request(SIZE_MAX), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of_unplaceable_request(1), absl::StatusCode::kInvalidArgument)
      << "it never fits: nobody shall try again";
}

TEST(Session, RequestOfSeveralPiecesThatNeverFitsIsRefusedForGood) {
  Harness harness;
  harness.server.memory = 0;
  harness.server.memory_max = 5000;
  harness.client.call(std::string(20'000, 'x'));
  harness.run(kSecond);
  ASSERT_TRUE(harness.client.calls[0].done());
  EXPECT_EQ(harness.client.calls[0].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(harness.client.calls[0].outcome.may_have_executed);
  EXPECT_EQ(harness.server.delivered, 0);
  harness.server.memory = SIZE_MAX;
  harness.expect_rest();
}

TEST(Session, OnUnplaceable_RepeatedRequestIsAnsweredAgain) {
  Harness harness({.reliable = true});
  harness.serve(10);
  harness.client.call("x");
  harness.transmit();
  const std::vector<Flight> request = harness.take_wire();
  harness.inject(true, request[0].header, "x");
  harness.transmit();
  EXPECT_EQ(harness.take_wire().size(), 1u);  // the response, lost with its connection
  harness.server.session->on_unplaceable(request[0].header, harness.now);
  harness.run(kMillisecond);
  EXPECT_TRUE(harness.client.calls[0].done());
  EXPECT_EQ(harness.server.delivered, 1);
  harness.expect_rest();
}

TEST(Session, OnUnplaceable_ResponseEndsTheCall) {
  Harness harness({.reliable = true});
  harness.serve(10);
  harness.client.call("x");
  harness.transmit();
  const std::vector<Flight> request = harness.take_wire();
  harness.inject(true, request[0].header, "x");
  harness.transmit();
  const std::vector<Flight> response = harness.take_wire();
  harness.client.session->on_unplaceable(response[0].header, harness.now);
  EXPECT_EQ(harness.client.calls[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(harness.client.calls[0].outcome.may_have_executed);
  harness.run(kMillisecond);
  EXPECT_EQ(harness.server.session->retained().responses, 0u);  // it was told to let go
  harness.expect_rest();
}

}  // namespace
}  // namespace skua::rpc
