// Messages in pieces over a transport that loses nothing while a connection holds: sealed packets over TCP. Nobody
// probes there, so whoever waits must be woken by what comes in.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "rpc/protocol/session.h"
#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Harness;
using testing::pattern;
using testing::TestCall;

/// Less than a deadline of a call.
constexpr DurationNs kSoon = kSecond;

bool all_done(const Harness& harness) {
  return std::ranges::all_of(harness.client.calls, [](const TestCall& call) { return call.done(); });
}

TEST(SessionReliable, LargeResponsesAtOnceDoNotWaitForADeadline) {
  for (const size_t budget_packets : {1u, 3u, 16u, 1000u}) {
    ReceiveBudget budget(budget_packets, 1'000'000);
    Harness harness({.reliable = true, .client_budget = &budget});
    harness.serve(20'000);
    for (int i = 0; i < 7; ++i) harness.client.call(absl::StrCat("call ", i));
    harness.run(kSoon);
    for (const TestCall& call : harness.client.calls) {
      ASSERT_TRUE(call.done()) << "budget of " << budget_packets << " packets";
      EXPECT_TRUE(call.response() == harness.expected_response(call, 20'000));
    }
    EXPECT_EQ(budget.packets_out(), 0u);
    harness.expect_rest();
  }
}

TEST(SessionReliable, ARequestWithoutMemoryIsRefusedAtOnce) {
  Harness harness({.reliable = true});
  harness.serve(10);
  harness.server.memory = 0;
  harness.client.call(pattern(1, 20'000));
  harness.run(kSoon);
  ASSERT_TRUE(harness.client.calls[0].done());
  EXPECT_EQ(harness.client.calls[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(harness.client.calls[0].outcome.may_have_executed);
  EXPECT_EQ(harness.server.delivered, 0);
  harness.server.memory = SIZE_MAX;
  harness.client.call(pattern(2, 20'000));
  harness.run(kSoon);
  EXPECT_EQ(harness.client.calls[1].code(), absl::StatusCode::kOk);
  EXPECT_EQ(harness.runs.size(), 1u);
  harness.expect_rest();
}

/// Memory comes while the pieces of a request come. The request is refused as a whole or carried out as a whole.
TEST(SessionReliable, MemoryThatComesInTheMiddleOfARequest) {
  for (size_t pieces_before = 1; pieces_before < 50; pieces_before += 7) {
    Harness harness({.reliable = true});
    harness.serve(10);
    harness.server.memory = 0;
    size_t arrived = 0;
    harness.fate = [&](const testing::Flight& flight) {
      if (flight.header.type == PacketType::kRequest && ++arrived == pieces_before) harness.server.memory = SIZE_MAX;
      return Harness::Fate{10 * kMicrosecond};
    };
    harness.server.room = harness.client.room = SIZE_MAX;
    harness.client.call(pattern(1, 20'000));
    harness.run(kSoon);
    ASSERT_TRUE(all_done(harness)) << pieces_before;
    const bool ran = harness.runs.size() == 1;
    EXPECT_EQ(harness.client.calls[0].code(), ran ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted);
    harness.expect_rest();
  }
}

TEST(SessionReliable, CallsOfAllSizesAndConnectionsThatBreak) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    ReceiveBudget budget(1 + rng.below(20), 500 + rng.below(5000));
    Harness harness({.terms = {.window = 4, .credits = 8, .message_max_bytes = 100'000, .payload_bytes = 100},
                     .reliable = true,
                     .client_budget = &budget});
    harness.serve(rng.below(2) == 0 ? 30 : 5000);
    bool is_broken = false;
    harness.fate = [&](const testing::Flight& /*flight*/) {
      return is_broken ? Harness::Fate{} : Harness::Fate{10 * kMicrosecond};
    };
    for (int i = 0; i < 12; ++i) {
      harness.client.call(pattern(seed * 100 + static_cast<uint64_t>(i), rng.below(3) == 0 ? 3000 : 20));
      if (rng.below(4) != 0) continue;
      harness.transmit();
      is_broken = true;  // what is sent now is lost with the connection
      harness.transmit();
      harness.take_wire();
      is_broken = false;
      harness.client.session->on_link_lost(harness.now);
      harness.server.session->on_link_lost(harness.now);
    }
    harness.run(kSoon);
    ASSERT_TRUE(all_done(harness)) << "seed " << seed;
    for (const TestCall& call : harness.client.calls) EXPECT_EQ(call.code(), absl::StatusCode::kOk) << "seed " << seed;
    for (const auto& [request, count] : harness.runs) EXPECT_EQ(count, 1) << "seed " << seed;
    EXPECT_EQ(budget.packets_out(), 0u);
    harness.expect_rest();
  }
}

}  // namespace
}  // namespace skua::rpc
