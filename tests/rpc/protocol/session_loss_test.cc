// Sessions on a wire that loses, repeats and reorders.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rpc/protocol/session.h"
#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Flight;
using testing::Harness;
using testing::pattern;
using testing::TestCall;

struct Shape {
  size_t request;
  size_t response;
};

// One packet each way; holes possible in one direction, in both; more than the credits.
constexpr Shape kShapes[] = {{50, 50}, {50, 450}, {450, 50}, {350, 350}, {1500, 20}, {20, 1500}, {0, 0}};

/// Runs one call under `fate` and checks that it ends well and leaves nothing behind. Returns the packets it took.
size_t run_shape(const Shape& shape, const std::function<Harness::Fate(const Flight&)>& fate) {
  Harness harness;
  harness.serve(shape.response);
  harness.fate = fate;
  TestCall& call = harness.client.call(pattern(shape.request, shape.request), 30 * kSecond);
  EXPECT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_TRUE(call.outcome.status.ok()) << call.outcome.status;
  EXPECT_EQ(call.response(), harness.expected_response(call, shape.response));
  const size_t packets = harness.sent.size();
  harness.run(2 * kSecond);
  EXPECT_EQ(harness.server.delivered, 1);
  EXPECT_EQ(call.completions, 1);
  harness.expect_rest();
  return packets;
}

Harness::Fate arrives() {
  return {10 * kMicrosecond};
}

TEST(SessionLoss, Loss_OfEachPacketInTurn) {
  for (const Shape& shape : kShapes) {
    const size_t packets = run_shape(shape, [](const Flight&) { return arrives(); });
    // Beyond the last: recovery's own packets may be lost too.
    for (size_t lost = 0; lost < packets + 3; ++lost) {
      SCOPED_TRACE(lost);
      run_shape(shape, [&](const Flight& f) { return f.number == lost ? Harness::Fate{} : arrives(); });
    }
  }
}

TEST(SessionLoss, Loss_OfEachPairOfPackets) {
  for (const Shape& shape : {Shape{50, 50}, Shape{350, 50}, Shape{50, 350}, Shape{250, 250}}) {
    const size_t packets = run_shape(shape, [](const Flight&) { return arrives(); });
    for (size_t a = 0; a < packets + 2; ++a) {
      for (size_t b = a + 1; b < packets + 4; ++b) {
        SCOPED_TRACE(std::to_string(a) + " and " + std::to_string(b));
        run_shape(shape, [&](const Flight& f) { return f.number == a || f.number == b ? Harness::Fate{} : arrives(); });
      }
    }
  }
}

TEST(SessionLoss, Loss_OfEverythingForAWhile) {
  for (const Shape& shape : kShapes) {
    run_shape(shape, [](const Flight& f) { return f.number < 12 ? Harness::Fate{} : arrives(); });
  }
}

TEST(SessionLoss, Loss_OfOneDirectionForAWhile) {
  for (const bool to_server : {false, true}) {
    for (const Shape& shape : kShapes) {
      int lost = 0;
      run_shape(shape,
                [&](const Flight& f) { return f.to_server == to_server && ++lost < 8 ? Harness::Fate{} : arrives(); });
    }
  }
}

TEST(SessionLoss, Duplicate_OfEachPacketInTurn) {
  for (const Shape& shape : kShapes) {
    const size_t packets = run_shape(shape, [](const Flight&) { return arrives(); });
    for (size_t twice = 0; twice < packets; ++twice) {
      for (const DurationNs later : {DurationNs{0}, 5 * kMicrosecond, 30 * kMicrosecond, 200 * kMicrosecond, kSecond}) {
        SCOPED_TRACE(twice);
        run_shape(shape, [&](const Flight& f) {
          return f.number == twice ? Harness::Fate{10 * kMicrosecond, 10 * kMicrosecond + later} : arrives();
        });
      }
    }
  }
}

TEST(SessionLoss, Delay_OfEachPacketInTurn) {
  for (const Shape& shape : kShapes) {
    const size_t packets = run_shape(shape, [](const Flight&) { return arrives(); });
    for (size_t late = 0; late < packets; ++late) {
      for (const DurationNs by : {15 * kMicrosecond, 40 * kMicrosecond, kMillisecond, 100 * kMillisecond}) {
        SCOPED_TRACE(late);
        run_shape(shape, [&](const Flight& f) { return f.number == late ? Harness::Fate{by} : arrives(); });
      }
    }
  }
}

// What was lost is sent again, and nothing else.
TEST(SessionLoss, Loss_OnlyHolesAreSentAgain) {
  struct Case {
    Shape shape;
    PacketType type;
  };
  for (const Case& one : {Case{{3000, 10}, PacketType::kRequest}, Case{{10, 3000}, PacketType::kResponse}}) {
    const auto& shape = one.shape;
    const PacketType type = one.type;
    for (const std::set<uint16_t>& holes : {std::set<uint16_t>{3}, {0, 1}, {5, 9, 13}, {2, 3, 4, 20}}) {
      Harness harness;
      harness.serve(shape.response);
      std::map<uint16_t, int> copies;
      harness.fate = [&](const Flight& f) {
        if (f.header.type != type) return arrives();
        return ++copies[f.header.packet_index] == 1 && holes.count(f.header.packet_index) > 0 ? Harness::Fate{}
                                                                                              : arrives();
      };
      TestCall& call = harness.client.call(pattern(1, shape.request));
      ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
      for (const auto& [index, count] : copies) {
        // The unasked-for first response piece has no credit and no timer of its own: it is asked for again
        // together with the request.
        EXPECT_EQ(count, holes.count(index) > 0 ? 2 : 1) << "piece " << index;
      }
    }
  }
}

TEST(SessionLoss, Loss_OfAHoleIsSeenWithoutWaitingForAProbe) {
  Harness harness;
  harness.client.options.rto_initial_ns = harness.client.options.rto_min_ns = 400 * kMillisecond;
  harness.serve(10);
  bool lost = false;
  harness.fate = [&](const Flight& f) {
    const bool lose = f.header.type == PacketType::kRequest && f.header.packet_index == 4 && !std::exchange(lost, true);
    return lose ? Harness::Fate{} : arrives();
  };
  TestCall& call = harness.client.call(pattern(1, 4000));
  harness.run(10 * kMillisecond);
  EXPECT_TRUE(call.done());
}

TEST(SessionLoss, Probe_IntervalsDoubleUpToTheMaximum) {
  Harness harness;
  std::vector<TimeNs> requests;
  harness.fate = [&](const Flight& f) {
    if (f.header.type == PacketType::kRequest) requests.push_back(harness.now);
    return Harness::Fate{};
  };
  harness.client.call("x", 60 * kSecond);
  harness.run(4 * kSecond);
  ASSERT_GE(requests.size(), 10u);
  DurationNs expected = harness.client.options.rto_initial_ns;
  for (size_t i = 1; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i] - requests[i - 1], expected) << i;
    expected = std::min(2 * expected, harness.client.options.rto_max_ns);
  }
}

TEST(SessionLoss, Probe_WhileTheHandlerRunsAsksWithoutTheRequestsBytes) {
  Harness harness;
  TestCall& call = harness.client.call(pattern(1, 100), 60 * kSecond);
  harness.run(5 * kSecond);
  size_t requests = 0;
  size_t pulls = 0;
  for (const Flight& f : harness.sent) {
    requests += f.header.type == PacketType::kRequest ? 1 : 0;
    pulls += f.header.type == PacketType::kPull ? 1 : 0;
  }
  EXPECT_EQ(requests, 2u);  // the second was answered by "it arrived, wait"
  EXPECT_GE(pulls, 5u);
  EXPECT_EQ(harness.server.delivered, 1);
  harness.server.respond(harness.server.requests[0], "done");
  harness.server.requests.clear();
  harness.run(kMillisecond);
  EXPECT_EQ(call.response(), "done");
  harness.expect_rest();
}

// While only the answer is missing the caller asks often enough: it may be the answer that was lost.
TEST(SessionLoss, Probe_ForALateAnswerDoesNotBackOffToTheMaximum) {
  Harness harness;
  harness.serve(1);
  for (int i = 0; i < 20; ++i) {
    harness.client.call("warm up");  // a known round trip: the first time-out is rto_min
    harness.run(kMillisecond);
  }
  harness.server.handler = nullptr;
  TestCall& call = harness.client.call("x", 60 * kSecond);
  harness.run(3 * kSecond);
  ASSERT_EQ(harness.server.requests.size(), 1u);
  harness.fate = [&](const Flight& f) {
    return f.header.type == PacketType::kResponse && harness.server.requests.size() == 1 ? Harness::Fate{} : arrives();
  };
  harness.server.respond(harness.server.requests[0], "done");
  harness.transmit();  // and lost
  harness.server.requests.clear();
  const TimeNs answered = harness.now;
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_LE(harness.now - answered, (harness.client.options.rto_min_ns << 7) + kMillisecond);
}

// After a time of back-off the first progress makes probes quick again.
TEST(SessionLoss, Probe_QuickAgainAfterProgress) {
  Harness harness;
  harness.serve(10);
  enum class Wire { kDead, kAlive, kHole } wire = Wire::kDead;
  std::map<uint16_t, int> copies;
  harness.fate = [&](const Flight& f) {
    if (wire == Wire::kDead) return Harness::Fate{};
    // Once it lives, the last piece is lost one more time: nothing behind it can tell.
    if (f.header.type == PacketType::kRequest && f.header.packet_index == 19 && ++copies[19] == 1) {
      return Harness::Fate{};
    }
    return arrives();
  };
  TestCall& call = harness.client.call(pattern(1, 2000), 60 * kSecond);
  harness.run(3 * kSecond);  // the back-off is at its maximum
  wire = Wire::kAlive;
  ASSERT_TRUE(harness.run_until([&] { return copies[19] == 1; }));
  const TimeNs lost = harness.now;
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_LE(harness.now - lost, 50 * kMillisecond);
}

TEST(SessionLoss, FirstSend_LateBecauseOfCreditsIsNotProbedAtOnce) {
  Harness harness({.terms = {.window = 2, .credits = 1, .message_max_bytes = 1000, .payload_bytes = 100},
                   .latency_ns = 30 * kMicrosecond});
  harness.client.call("a", 60 * kSecond);
  TestCall& b = harness.client.call("b", 60 * kSecond);  // waits for the only credit
  harness.run(4930 * kMicrosecond);
  ASSERT_EQ(harness.server.requests.size(), 1u);
  harness.server.respond(harness.server.requests[0], "");
  harness.server.requests.clear();
  harness.serve(1);
  // b leaves 40 us before the time-out that was set when it got its slot.
  harness.run(3 * kMillisecond);
  EXPECT_TRUE(b.done());
  EXPECT_EQ(harness.server.drops[DropReason::kDuplicate], 0);
}

TEST(SessionLoss, AtMostOnce_WhateverTheWireDoes) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Harness harness({.terms = {.window = static_cast<uint16_t>(1 << rng.below(4)),
                               .credits = static_cast<uint32_t>(rng.between(1, 20)),
                               .message_max_bytes = 100'000,
                               .payload_bytes = 100}});
    const double loss = rng.uniform() * 0.3;
    const double twice = rng.uniform() * 0.3;
    const double late = rng.uniform() * 0.3;
    bool faults = true;
    harness.fate = [&](const Flight&) {
      Harness::Fate out;
      const auto delay = [&] {
        return 10 * kMicrosecond +
               (faults && rng.chance(late) ? static_cast<DurationNs>(rng.below(3 * kMillisecond)) : 0);
      };
      if (!faults || !rng.chance(loss)) out.push_back(delay());
      if (faults && rng.chance(twice)) out.push_back(delay());
      return out;
    };
    const size_t response_bytes = rng.below(4) == 0 ? rng.below(3000) : rng.below(200);
    harness.serve(response_bytes);
    for (uint64_t i = 0; i < 60; ++i) {
      const size_t size = rng.below(4) == 0 ? rng.below(3000) : rng.below(200);
      harness.client.call(std::to_string(i) + ":" + pattern(i, size), 100 * kSecond);
      if (rng.chance(0.5)) harness.run(static_cast<DurationNs>(rng.below(kMillisecond)));
    }
    harness.run(5 * kSecond);
    faults = false;
    ASSERT_TRUE(harness.run_until([&] { return harness.client.session->outstanding_calls() == 0; }));
    harness.run(kSecond);
    for (const TestCall& call : harness.client.calls) {
      ASSERT_TRUE(call.outcome.status.ok()) << call.outcome.status;
      ASSERT_EQ(call.response(), harness.expected_response(call, response_bytes));
    }
    for (const auto& [request, runs] : harness.runs) ASSERT_EQ(runs, 1);
    ASSERT_EQ(harness.runs.size(), 60u);
    harness.expect_rest();
  }
}

// --- Stream transports -----------------------------------------------------------------------------------------------

/// Everything on the wire vanishes and both sides learn of it.
void break_link(Harness& harness) {
  static_cast<void>(harness.take_wire());
  harness.client.session->on_link_lost(harness.now);
  harness.server.session->on_link_lost(harness.now);
}

TEST(SessionLink, OnLinkLost_RequestLost) {
  Harness harness(
      {.terms = {.window = 4, .credits = 8, .message_max_bytes = 1000, .payload_bytes = 1000}, .reliable = true});
  harness.serve(10);
  TestCall& call = harness.client.call("x");
  harness.transmit();
  break_link(harness);
  harness.run(kMillisecond);
  EXPECT_EQ(call.response(), harness.expected_response(call, 10));
  EXPECT_EQ(harness.runs["x"], 1);
  harness.expect_rest();
}

TEST(SessionLink, OnLinkLost_ResponseLost) {
  Harness harness(
      {.terms = {.window = 4, .credits = 8, .message_max_bytes = 1000, .payload_bytes = 1000}, .reliable = true});
  harness.serve(10);
  TestCall& call = harness.client.call("x");
  harness.run_until([&] { return harness.server.delivered == 1; });
  harness.transmit();
  break_link(harness);
  harness.run(kMillisecond);
  EXPECT_EQ(call.response(), harness.expected_response(call, 10));
  EXPECT_EQ(harness.runs["x"], 1);
  harness.expect_rest();
}

TEST(SessionLink, OnLinkLost_AgainAndAgain) {
  for (int breaks = 1; breaks < 6; ++breaks) {
    Harness harness(
        {.terms = {.window = 4, .credits = 8, .message_max_bytes = 1000, .payload_bytes = 1000}, .reliable = true});
    TestCall& call = harness.client.call("x", 30 * kSecond);
    harness.run(kMillisecond);
    for (int i = 0; i < breaks; ++i) {
      break_link(harness);
      harness.run(kMillisecond);  // "it arrived, wait"
    }
    ASSERT_EQ(harness.server.requests.size(), 1u);
    harness.server.respond(harness.server.requests[0], "done");
    harness.server.requests.clear();
    harness.transmit();
    break_link(harness);  // takes the response along
    harness.run(kMillisecond);
    EXPECT_EQ(call.response(), "done") << breaks;
    EXPECT_EQ(harness.runs["x"], 1);
    harness.expect_rest();
  }
}

TEST(SessionLink, OnLinkLost_WhenNothingIsInFlight) {
  Harness harness({.reliable = true});
  break_link(harness);
  harness.serve(1);
  harness.client.call("x");
  harness.run(kMillisecond);
  const size_t packets = harness.sent.size();
  break_link(harness);
  harness.run(kMillisecond);
  EXPECT_EQ(harness.sent.size(), packets);
  harness.expect_rest();
}

TEST(SessionLink, OnLinkLost_RandomBreaks) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Harness harness(
        {.terms = {.window = 8, .credits = 8, .message_max_bytes = 5000, .payload_bytes = 5000}, .reliable = true});
    harness.serve(rng.below(5000));
    for (uint64_t i = 0; i < 100; ++i) {
      harness.client.call(std::to_string(i), 100 * kSecond);
      if (rng.chance(0.3)) harness.run(static_cast<DurationNs>(rng.below(40 * kMicrosecond)));
      if (rng.chance(0.1)) break_link(harness);
    }
    ASSERT_TRUE(harness.run_until([&] { return harness.client.session->outstanding_calls() == 0; }));
    for (const auto& [request, runs] : harness.runs) ASSERT_EQ(runs, 1);
    ASSERT_EQ(harness.runs.size(), 100u);
    for (const TestCall& call : harness.client.calls) ASSERT_TRUE(call.outcome.status.ok());
    harness.run(kMillisecond);
    harness.expect_rest();
  }
}

}  // namespace
}  // namespace skua::rpc
