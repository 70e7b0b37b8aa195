// How calls and sessions end before their answer: cancel, deadline, interrupt, each in every state a call can be in.
#include <gtest/gtest.h>

#include "rpc/protocol/session.h"
#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Flight;
using testing::Harness;
using testing::pattern;
using testing::TestCall;

enum class Stage {
  kBacklog,       // no slot
  kInSlot,        // a slot, but nothing sent yet
  kWaitsCredit,   // a slot, nothing sent, all credits taken
  kHalfSent,      // some request pieces sent, out of credits
  kSentUnheard,   // all sent, nothing heard
  kAcknowledged,  // the handler runs
  kPulling,       // the first pieces of the response are there
};

constexpr Stage kStages[] = {Stage::kBacklog,     Stage::kInSlot,       Stage::kWaitsCredit, Stage::kHalfSent,
                             Stage::kSentUnheard, Stage::kAcknowledged, Stage::kPulling};

constexpr DurationNs kTimeout = 300 * kMillisecond;

/// A call brought into `stage`, and what it takes to free whatever stands in its way.
struct Staged {
  explicit Staged(Stage stage) {
    const bool large_request = stage == Stage::kHalfSent;
    const std::string request = pattern(1, large_request ? 3000 : 60);
    switch (stage) {
      case Stage::kBacklog:
        for (int i = 0; i < 4; ++i) others.push_back(&harness.client.call("other", 60 * kSecond));
        harness.run(kMillisecond);
        break;
      case Stage::kWaitsCredit:
        others.push_back(&harness.client.call(pattern(2, 2000), 60 * kSecond));
        harness.fate = [](const Flight&) { return Harness::Fate{}; };
        harness.transmit();
        break;
      case Stage::kHalfSent:
      case Stage::kSentUnheard: harness.fate = [](const Flight&) { return Harness::Fate{}; }; break;
      case Stage::kPulling:
        harness.serve(5000);
        harness.fate = [this](const Flight& f) {
          return f.header.type == PacketType::kResponse && f.header.packet_index >= 5 && !healed
                     ? Harness::Fate{}
                     : Harness::Fate{10 * kMicrosecond};
        };
        break;
      case Stage::kInSlot:
      case Stage::kAcknowledged: break;
    }
    call = &harness.client.call(request, kTimeout);
    if (stage != Stage::kInSlot && stage != Stage::kBacklog) {
      harness.run(stage == Stage::kAcknowledged ? 50 * kMillisecond : kMillisecond);
    }
    EXPECT_FALSE(call->done());
    EXPECT_EQ(call->call.sent, stage >= Stage::kHalfSent);
  }

  /// Lets all others end well, and new calls too.
  void expect_recovery() {
    healed = true;
    harness.fate = nullptr;
    harness.serve(77);
    for (const ArrivedRequest& request : harness.server.requests) harness.server.respond(request, "late");
    harness.server.requests.clear();
    std::vector<TestCall*> more;
    more.reserve(12);
    for (int i = 0; i < 12; ++i) more.push_back(&harness.client.call("more " + std::to_string(i), 60 * kSecond));
    ASSERT_TRUE(harness.run_until([&] { return harness.client.session->outstanding_calls() == 0; }));
    for (const TestCall* other : others) EXPECT_TRUE(other->outcome.status.ok()) << other->outcome.status;
    for (const TestCall* one : more) EXPECT_EQ(one->response(), harness.expected_response(*one, 77));
    harness.run(kSecond);
    harness.expect_rest();
  }

  Harness harness;
  std::vector<TestCall*> others;
  TestCall* call = nullptr;
  bool healed = false;
};

TEST(SessionEnd, Cancel_InEveryStage) {
  for (const Stage stage : kStages) {
    SCOPED_TRACE(static_cast<int>(stage));
    Staged staged(stage);
    staged.harness.client.session->cancel(staged.call->call, absl::CancelledError("enough"), staged.harness.now);
    ASSERT_EQ(staged.call->completions, 1);
    EXPECT_EQ(staged.call->outcome.status, absl::CancelledError("enough"));
    EXPECT_FALSE(staged.call->outcome.from_peer);
    EXPECT_EQ(staged.call->outcome.may_have_executed, stage >= Stage::kHalfSent);
    staged.expect_recovery();
  }
}

TEST(SessionEnd, Deadline_InEveryStage) {
  for (const Stage stage : kStages) {
    SCOPED_TRACE(static_cast<int>(stage));
    Staged staged(stage);
    if (stage == Stage::kInSlot) staged.harness.client.room = 0;
    const TimeNs deadline = staged.call->call.deadline_ns;
    staged.harness.run(deadline - staged.harness.now - 1);
    EXPECT_FALSE(staged.call->done());
    staged.harness.run(1);
    ASSERT_EQ(staged.call->completions, 1);
    EXPECT_EQ(staged.call->code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(staged.call->outcome.from_peer);
    EXPECT_EQ(staged.call->outcome.may_have_executed, stage >= Stage::kHalfSent);
    staged.harness.client.room = SIZE_MAX;
    staged.expect_recovery();
  }
}

TEST(SessionEnd, Deadline_OnAStreamTransport) {
  Harness harness({.reliable = true});
  TestCall& call = harness.client.call("x", 50 * kMillisecond);
  harness.run(50 * kMillisecond - 1);
  EXPECT_FALSE(call.done());
  harness.run(1);
  EXPECT_EQ(call.code(), absl::StatusCode::kDeadlineExceeded);
  harness.server.requests.clear();
  harness.run(kMillisecond);
  harness.expect_rest();
}

TEST(SessionEnd, Deadline_WhileNotConnected) {
  Harness harness;
  harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
  TestCall& call = harness.client.call("x", 50 * kMillisecond);
  harness.run(50 * kMillisecond);
  EXPECT_EQ(call.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(call.outcome.may_have_executed);
}

TEST(SessionEnd, Cancel_LateAnswerIsDroppedAndTheSlotGoesOn) {
  Harness harness({.terms = {.window = 1, .credits = 8, .message_max_bytes = 10'000, .payload_bytes = 100}});
  TestCall& first = harness.client.call("first", 60 * kSecond);
  harness.run(kMillisecond);
  ASSERT_EQ(harness.server.requests.size(), 1u);
  harness.client.session->cancel(first.call, absl::CancelledError("enough"), harness.now);
  TestCall& second = harness.client.call("second", 60 * kSecond);
  // The answer to the first is on its way before the server hears of the second.
  EXPECT_TRUE(harness.server.respond(harness.server.requests[0], "answer to the first"));
  harness.run(kMillisecond);
  EXPECT_FALSE(second.done());
  EXPECT_GE(harness.client.drops[DropReason::kUnexpectedResponse], 1);
  ASSERT_EQ(harness.server.requests.size(), 2u);
  harness.server.respond(harness.server.requests[1], "answer to the second");
  harness.server.requests.clear();
  harness.run(kMillisecond);
  EXPECT_EQ(second.response(), "answer to the second");
  EXPECT_EQ(first.completions, 1);
  harness.expect_rest();
}

TEST(SessionEnd, Cancel_TheServerForgetsTheHandler) {
  Harness harness;
  TestCall& call = harness.client.call("x", 60 * kSecond);
  harness.run(kMillisecond);
  harness.client.session->cancel(call.call, absl::CancelledError("enough"), harness.now);
  harness.run(kMillisecond);
  EXPECT_FALSE(harness.server.respond(harness.server.requests[0], "into the void"));
  harness.server.requests.clear();
  harness.expect_rest();
}

TEST(SessionEnd, Cancel_HalfReceivedRequestGivesItsMemoryBack) {
  Harness harness;
  harness.fate = [](const Flight& f) {
    return f.header.packet_index == 3 ? Harness::Fate{} : Harness::Fate{10 * kMicrosecond};
  };
  TestCall& call = harness.client.call(pattern(1, 600), 60 * kSecond);
  harness.run(100 * kMicrosecond);
  EXPECT_EQ(harness.server.session->retained().requests, 1u);
  harness.client.session->cancel(call.call, absl::CancelledError("enough"), harness.now);
  harness.run(kMillisecond);
  EXPECT_EQ(harness.server.session->retained().requests, 0u);
  harness.expect_rest();
}

TEST(SessionEnd, Cancel_ARequestThatArrivesAfterItsReleaseRunsAtMostOnce) {
  Harness harness;
  harness.serve(1);
  TestCall& call = harness.client.call("x", 60 * kSecond);
  harness.transmit();
  const std::vector<Flight> request = harness.take_wire();
  harness.client.session->cancel(call.call, absl::CancelledError("enough"), harness.now);
  harness.run(kMillisecond);  // the release overtakes the request
  harness.inject(true, request[0].header, "x");
  harness.inject(true, request[0].header, "x");
  harness.run(kMillisecond);
  EXPECT_LE(harness.runs["x"], 1);
  harness.expect_rest();
}

TEST(SessionEnd, Cancel_MemoryIsHeldByWhoeverStillSends) {
  Harness harness;
  TestCall& call = harness.client.call("x", 60 * kSecond);
  harness.transmit();
  const MessagePtr in_wire = call.call.request;  // as a transport with a DMA under way holds it
  harness.client.session->cancel(call.call, absl::CancelledError("enough"), harness.now);
  EXPECT_FALSE(call.call.request);
  EXPECT_EQ(as_string_view(in_wire->head()), "x");
  EXPECT_EQ(harness.client.messages.outstanding_count(), 1u);
}

// Credits that come back must reach those who wait for them, whatever happens to the first of them.
TEST(SessionEnd, Cancel_OfACreditWaiterDoesNotSwallowTheWakeUp) {
  Harness harness({.terms = {.window = 4, .credits = 1, .message_max_bytes = 10'000, .payload_bytes = 100}});
  TestCall& holder = harness.client.call("holder", 60 * kSecond);
  harness.run(kMillisecond);
  TestCall& woken = harness.client.call("woken", 60 * kSecond);
  TestCall& waiter = harness.client.call("waiter", 60 * kSecond);
  harness.run(kMillisecond);
  harness.serve(1);
  // The holder's credit wakes the first waiter, which is cancelled before it could use it.
  harness.client.session->cancel(holder.call, absl::CancelledError(""), harness.now);
  harness.client.session->cancel(woken.call, absl::CancelledError(""), harness.now);
  harness.run(10 * kMillisecond);
  EXPECT_TRUE(waiter.done());
  harness.server.requests.clear();
  harness.expect_rest();
}

TEST(SessionEnd, Cancel_OfAWaiterThatHoldsCreditsWakesTheNext) {
  Harness harness({.terms = {.window = 4, .credits = 2, .message_max_bytes = 10'000, .payload_bytes = 100}});
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  TestCall& half = harness.client.call(pattern(1, 1000), 60 * kSecond);  // takes both, and waits for more
  TestCall& waiter = harness.client.call("waiter", 60 * kSecond);
  harness.transmit();
  harness.fate = nullptr;
  harness.serve(1);
  harness.client.session->cancel(half.call, absl::CancelledError(""), harness.now);
  harness.run(10 * kMillisecond);
  EXPECT_TRUE(waiter.done());
  harness.expect_rest();
}

TEST(SessionEnd, Cancel_RandomMix) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Harness harness({.terms = {.window = static_cast<uint16_t>(1 << rng.below(4)),
                               .credits = static_cast<uint32_t>(rng.between(1, 12)),
                               .message_max_bytes = 10'000,
                               .payload_bytes = 100}});
    bool faults = true;
    harness.fate = [&](const Flight&) {
      return faults && rng.chance(0.1) ? Harness::Fate{} : Harness::Fate{static_cast<DurationNs>(rng.below(40'000))};
    };
    harness.server.handler = [&](ArrivedRequest&& request) {
      if (rng.chance(0.3)) {
        harness.server.requests.push_back(std::move(request));
      } else {
        harness.server.respond(request, pattern(1, rng.below(1500)));
      }
    };
    for (int i = 0; i < 80; ++i) {
      harness.client.call(std::to_string(i) + pattern(1, rng.below(2) * rng.below(1500)),
                          static_cast<DurationNs>(rng.between(1, 20'000)) * kMicrosecond);
      if (rng.chance(0.6)) harness.run(static_cast<DurationNs>(rng.below(200'000)));
      if (rng.chance(0.3)) {
        TestCall& victim = harness.client.calls[rng.below(harness.client.calls.size())];
        if (!victim.done()) harness.client.session->cancel(victim.call, absl::CancelledError(""), harness.now);
      }
      if (rng.chance(0.3) && !harness.server.requests.empty()) {
        harness.server.respond(harness.server.requests.front(), "late");
        harness.server.requests.pop_front();
      }
    }
    faults = false;
    harness.serve(5);
    harness.server.requests.clear();
    harness.run(kSecond);
    for (const TestCall& call : harness.client.calls) ASSERT_EQ(call.completions, 1);
    for (const auto& [request, runs] : harness.runs) ASSERT_EQ(runs, 1);
    harness.expect_rest();
    TestCall& last = harness.client.call("last");
    harness.run(10 * kMillisecond);
    EXPECT_TRUE(last.outcome.status.ok());
    harness.expect_rest();
  }
}

// --- Backlog ---------------------------------------------------------------------------------------------------------

TEST(SessionEnd, NoMemory_ForTheResponseEndsTheCallAndTheBacklogMovesOn) {
  Harness harness({.terms = {.window = 1, .credits = 8, .message_max_bytes = 10'000, .payload_bytes = 100}});
  harness.serve(1000);
  TestCall& starved = harness.client.call("starved", 60 * kSecond);
  TestCall& next = harness.client.call("next", 60 * kSecond);
  harness.client.memory = 999;
  ASSERT_TRUE(harness.run_until([&] { return starved.done(); }));
  harness.client.memory = SIZE_MAX;
  EXPECT_EQ(starved.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(starved.outcome.may_have_executed);
  EXPECT_FALSE(starved.outcome.from_peer);
  harness.run(10 * kMillisecond);
  EXPECT_TRUE(next.outcome.status.ok());
  EXPECT_TRUE(next.done());
  harness.expect_rest();
}

TEST(SessionEnd, NoMemory_ForARequestIsTriedAgainByTheCaller) {
  Harness harness;
  harness.serve(10);
  harness.server.memory = 999;
  TestCall& call = harness.client.call(pattern(1, 1000), 60 * kSecond);
  harness.run(100 * kMillisecond);
  EXPECT_FALSE(call.done());
  EXPECT_GE(harness.server.drops[DropReason::kNoMemory], 1);
  harness.server.memory = SIZE_MAX;
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_EQ(call.response(), harness.expected_response(call, 10));
  harness.expect_rest();
}

TEST(SessionEnd, NoMemory_ToKeepASmallRequestOrResponse) {
  Harness harness;
  harness.serve(10);
  harness.server.keep_fails = true;
  TestCall& call = harness.client.call("x", 60 * kSecond);
  harness.run(100 * kMillisecond);
  EXPECT_EQ(harness.server.delivered, 0);
  harness.client.keep_fails = true;
  harness.server.keep_fails = false;
  harness.run(kSecond);
  EXPECT_EQ(harness.runs["x"], 1);
  harness.client.keep_fails = false;
  harness.run(5 * kSecond);
  ASSERT_TRUE(call.done());
  harness.expect_rest();
}

// --- Interrupt, abort, open again ------------------------------------------------------------------------------------

TEST(SessionEnd, Interrupt_SentCallsEndUnsentOnesGoOn) {
  for (const Stage stage : kStages) {
    SCOPED_TRACE(static_cast<int>(stage));
    Staged staged(stage);
    Harness& harness = staged.harness;
    harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
    harness.server.session->interrupt(absl::UnavailableError("gone"), harness.now);
    EXPECT_FALSE(harness.client.session->is_open());
    const bool was_sent = stage >= Stage::kHalfSent;
    ASSERT_EQ(staged.call->done(), was_sent);
    if (was_sent) {
      EXPECT_EQ(staged.call->outcome.status, absl::UnavailableError("gone"));
      EXPECT_TRUE(staged.call->outcome.may_have_executed);
    }
    for (const TestCall* other : staged.others) EXPECT_TRUE(other->done());
    staged.others.clear();
    // Handlers that still run answer into the void.
    for (const ArrivedRequest& request : harness.server.requests) EXPECT_FALSE(harness.server.respond(request, "late"));
    harness.server.requests.clear();
    harness.fate = nullptr;
    staged.healed = true;
    harness.serve(77);
    harness.open();
    harness.run(10 * kMillisecond);
    ASSERT_TRUE(staged.call->done());
    if (!was_sent) {
      EXPECT_TRUE(staged.call->outcome.status.ok()) << staged.call->outcome.status;
    }
    staged.expect_recovery();
  }
}

TEST(SessionEnd, Interrupt_UnsentCallsKeepTheirOrder) {
  Harness harness;
  harness.client.room = 0;
  std::vector<std::string> expected;
  expected.reserve(10);
  for (int i = 0; i < 10; ++i) {
    expected.push_back("call " + std::to_string(i));
    harness.client.call(expected.back());
  }
  harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
  harness.client.room = SIZE_MAX;
  std::vector<std::string> order;
  harness.server.handler = [&](ArrivedRequest&& request) {
    order.emplace_back(as_string_view(request.request.bytes()));
    harness.server.respond(request, "");
  };
  harness.open();
  harness.run(10 * kMillisecond);
  EXPECT_EQ(order, expected);
  harness.expect_rest();
}

TEST(SessionEnd, AbortAll_EndsEverythingOnce) {
  for (const Stage stage : kStages) {
    SCOPED_TRACE(static_cast<int>(stage));
    Staged staged(stage);
    Harness& harness = staged.harness;
    for (int i = 0; i < 10; ++i) harness.client.call("queued", 60 * kSecond);
    harness.client.session->abort_all(absl::CancelledError("closed"), harness.now);
    for (const TestCall& call : harness.client.calls) {
      ASSERT_EQ(call.completions, 1);
      EXPECT_EQ(call.outcome.status, absl::CancelledError("closed"));
    }
    EXPECT_EQ(staged.call->outcome.may_have_executed, stage >= Stage::kHalfSent);
    EXPECT_EQ(harness.client.session->outstanding_calls(), 0u);
    harness.client.session->abort_all(absl::CancelledError("closed"), harness.now);
    harness.client.session->transmit(harness.client, harness.now);
  }
}

TEST(SessionEnd, Respond_AfterInterruptIsStale) {
  Harness harness;
  harness.client.call("x");
  harness.run(kMillisecond);
  harness.server.session->interrupt(absl::UnavailableError("gone"), harness.now);
  EXPECT_FALSE(harness.server.respond(harness.server.requests[0], "late"));
  harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
  harness.open();  // same slot, same number: but another life
  EXPECT_FALSE(harness.server.respond(harness.server.requests[0], "late"));
}

TEST(SessionEnd, Open_OldPacketsMeanNothingToTheNewLife) {
  Harness harness;
  harness.serve(10);
  TestCall& old = harness.client.call("old", 60 * kSecond);
  harness.transmit();
  const std::vector<Flight> wire = harness.take_wire();
  harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
  harness.server.session->interrupt(absl::UnavailableError("gone"), harness.now);
  harness.open();
  harness.inject(true, wire[0].header, "old");
  EXPECT_EQ(harness.server.delivered, 0);
  TestCall& fresh = harness.client.call("fresh");
  harness.run(kMillisecond);
  EXPECT_TRUE(fresh.outcome.status.ok());
  EXPECT_EQ(old.completions, 1);
  harness.expect_rest();
}

TEST(SessionEnd, Open_ManyTimesWithOtherTerms) {
  Harness harness;
  harness.serve(500);
  for (uint32_t i = 0; i < 12; ++i) {
    harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
    harness.server.session->interrupt(absl::UnavailableError("gone"), harness.now);
    harness.setup.terms = {.window = static_cast<uint16_t>(1 << (i % 5)),
                           .credits = 1 + i,
                           .message_max_bytes = 1000 + i,
                           .payload_bytes = 10 + 7 * i};
    for (uint64_t k = 0; k < 5; ++k) harness.client.call(pattern(k, 100 * k), 60 * kSecond);
    harness.open();
    harness.run(100 * kMillisecond);
    harness.expect_rest();
  }
}

TEST(SessionEndDeathTest, Destructor_WithCallsInFlight) {
  EXPECT_DEATH(
      {
        Harness harness;
        harness.client.call("x");
        harness.client.session.reset();
      },
      "abort_all\\(\\) first");
}

}  // namespace
}  // namespace skua::rpc
