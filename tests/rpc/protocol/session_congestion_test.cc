// Windows, gaps and the receive budget, as packets on a scripted wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc::testing {
namespace {

constexpr DurationNs kFast = 10 * kMicrosecond;  // one way
constexpr DurationNs kSlow = 2 * kMillisecond;

Harness::Setup wide(ReceiveBudget* budget = nullptr) {
  Harness::Setup setup;
  setup.terms.credits = 64;
  setup.client_budget = budget;
  return setup;
}

/// Small calls one after the other, `latency` each way.
void make_calls(Harness& h, int count, DurationNs latency) {
  h.fate = [latency](const Flight&) { return Harness::Fate{latency}; };
  for (int i = 0; i < count; ++i) {
    TestCall& call = h.client.call(pattern(static_cast<uint64_t>(i), 100));
    ASSERT_TRUE(h.run_until([&] { return call.done(); }));
  }
}

size_t count_sent(const Harness& h, PacketType type, size_t from = 0) {
  return static_cast<size_t>(std::count_if(h.sent.begin() + static_cast<std::ptrdiff_t>(from), h.sent.end(),
                                           [&](const Flight& f) { return f.header.type == type; }));
}

uint32_t pulled_by(const Flight& pull) {
  const PacketSet set = pull.set();
  uint32_t count = 0;
  for (uint64_t word : set.words) count += static_cast<uint32_t>(std::popcount(word));
  return count;
}

// --- Window and gap --------------------------------------------------------------------------------------------------

TEST(SessionCongestion, Uncongested_SendsWhatWithoutPolicyIsSent) {
  std::vector<std::vector<PacketType>> traces;
  for (const CongestionControl which :
       {CongestionControl::kNone, CongestionControl::kSwift, CongestionControl::kTimely}) {
    Harness h(wide());
    h.client.options.congestion = which;
    h.serve(3000);
    make_calls(h, 5, kFast);
    TestCall& large = h.client.call(pattern(9, 5000));
    ASSERT_TRUE(h.run_until([&] { return large.done(); }));
    h.run();
    h.expect_rest();
    std::vector<PacketType>& trace = traces.emplace_back();
    for (const Flight& flight : h.sent) trace.push_back(flight.header.type);
  }
  EXPECT_EQ(traces[0], traces[1]);
  EXPECT_EQ(traces[0], traces[2]);
}

TEST(SessionCongestion, Window_FollowsTheDelay) {
  Harness h(wide());
  h.serve(100);
  make_calls(h, 3, kFast);
  make_calls(h, 3, kSlow);  // halves at least three times
  const size_t before = h.sent.size();
  TestCall& large = h.client.call(pattern(1, 6000));
  h.transmit();
  const size_t at_once = count_sent(h, PacketType::kRequest, before);
  EXPECT_GE(at_once, 1u);
  EXPECT_LE(at_once, 8u);
  h.fate = nullptr;
  ASSERT_TRUE(h.run_until([&] { return large.done(); }));
  h.run();
  h.expect_rest();
}

TEST(SessionCongestion, Window_GrowsBackWhenTheDelayIsGone) {
  Harness h(wide());
  h.serve(100);
  make_calls(h, 3, kFast);
  make_calls(h, 10, kSlow);
  for (int i = 0; i < 60; ++i) {
    h.fate = nullptr;
    TestCall& large = h.client.call(pattern(1, 6000));
    ASSERT_TRUE(h.run_until([&] { return large.done(); }));
  }
  const size_t before = h.sent.size();
  TestCall& large = h.client.call(pattern(1, 6000));
  h.transmit();
  EXPECT_EQ(count_sent(h, PacketType::kRequest, before), 60u);
  ASSERT_TRUE(h.run_until([&] { return large.done(); }));
  h.run();
  h.expect_rest();
}

TEST(SessionCongestion, Gap_PacketsLeaveOneByOneAndAllGetThrough) {
  Harness h(wide());
  h.client.options.swift.gap_max_ns = 200 * kMicrosecond;
  h.serve(100);
  make_calls(h, 3, kFast);
  make_calls(h, 20, kSlow);  // a window far below one
  const TimeNs begun = h.now;
  h.fate = [](const Flight&) { return Harness::Fate{kSlow}; };
  for (uint64_t i = 0; i < 4; ++i) h.client.call(pattern(i, 1000));
  ASSERT_TRUE(h.run_until([&] { return h.client.calls.back().done(); }));
  EXPECT_GE(h.now - begun, 30 * h.client.options.swift.gap_max_ns);
  h.run(5 * kSecond);
  for (const TestCall& call : h.client.calls) EXPECT_TRUE(call.done());
  h.expect_rest();
}

TEST(SessionCongestion, Gap_AfterAPauseNothingIsCaughtUpWith) {
  Harness h(wide());
  h.serve(100);
  make_calls(h, 3, kFast);
  make_calls(h, 20, kSlow);
  h.run(kSecond);  // rest
  const TimeNs begun = h.now;
  make_calls(h, 1, kFast);
  EXPECT_LE(h.now - begun, 3 * kFast);
}

TEST(SessionCongestion, Gap_DeadlineAndCancelWhileWaitingForDeparture) {
  Harness h(wide());
  h.client.options.swift.gap_max_ns = 50 * kMillisecond;
  h.client.options.swift.window_min_packets = 0.001;
  h.serve(100);
  make_calls(h, 3, kFast);
  make_calls(h, 30, kSlow);
  TestCall& first = h.client.call(pattern(1, 1000));
  TestCall& late = h.client.call(pattern(2, 1000), kMillisecond);
  TestCall& cancelled = h.client.call(pattern(3, 1000));
  TestCall& last = h.client.call(pattern(4, 1000));
  h.run(5 * kMillisecond);
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  h.client.session->cancel(cancelled.call, absl::CancelledError("enough"), h.now);
  ASSERT_TRUE(h.run_until([&] { return first.done() && last.done(); }));
  EXPECT_EQ(last.code(), absl::StatusCode::kOk);
  h.run();
  h.expect_rest();
}

TEST(SessionCongestion, Timely_PacketsLeaveAtTheRate) {
  Harness h(wide());
  h.client.options.congestion = CongestionControl::kTimely;
  h.client.options.timely.rate_max_bytes_per_s = 100e6;
  h.serve(100);
  make_calls(h, 60, kSlow);  // down to the least rate: 15 MB/s
  const size_t before = h.sent.size();
  TestCall& large = h.client.call(pattern(1, 60'000));
  h.run(100 * kMicrosecond);
  const size_t sent = count_sent(h, PacketType::kRequest, before);
  EXPECT_GE(sent, 13u);
  EXPECT_LE(sent, 18u);
  ASSERT_TRUE(h.run_until([&] { return large.done(); }));
  h.run();
  h.expect_rest();
}

TEST(SessionCongestion, Loss_AllPoliciesGetThroughIt) {
  for (const CongestionControl which :
       {CongestionControl::kNone, CongestionControl::kSwift, CongestionControl::kTimely}) {
    Rng rng(7);
    Harness h(wide());
    h.client.options.congestion = which;
    h.serve(2000);
    h.fate = [&](const Flight&) {
      return rng.chance(0.3) ? Harness::Fate{} : Harness::Fate{static_cast<DurationNs>(rng.below(200'000))};
    };
    for (uint64_t i = 0; i < 40; ++i) h.client.call(pattern(i, 50 * i), 60 * kSecond);
    ASSERT_TRUE(h.run_until([&] {
      return std::all_of(h.client.calls.begin(), h.client.calls.end(), [](const TestCall& c) { return c.done(); });
    }));
    h.fate = nullptr;
    h.run();
    h.expect_rest();
  }
}

// --- Receive budget --------------------------------------------------------------------------------------------------

TEST(SessionBudget, Pulls_NeverMoreOutThanTheBudget) {
  ReceiveBudget budget(5, 1'000'000);
  Harness h(wide(&budget));
  h.serve(10'000);
  int64_t out = 0;
  h.fate = [&](const Flight& flight) {
    if (flight.header.type == PacketType::kPull) out += pulled_by(flight);
    if (flight.header.type == PacketType::kResponse && flight.header.packet_index > 0) --out;
    EXPECT_LE(out, 5);
    EXPECT_LE(budget.packets_out(), 5u);
    return Harness::Fate{kFast};
  };
  TestCall& call = h.client.call("x");
  ASSERT_TRUE(h.run_until([&] { return call.done(); }));
  EXPECT_EQ(call.response(), h.expected_response(call, 10'000));
  EXPECT_EQ(budget.packets_out(), 0u);
  EXPECT_EQ(budget.bytes_out(), 0u);
  h.run();
  h.expect_rest();
}

TEST(SessionBudget, Pulls_OneCallAfterTheOtherShareASession) {
  ReceiveBudget budget(3, 1'000'000);
  Harness h(wide(&budget));
  h.serve(3000);
  for (uint64_t i = 0; i < 4; ++i) h.client.call(pattern(i, 10));
  ASSERT_TRUE(h.run_until([&] {
    return std::all_of(h.client.calls.begin(), h.client.calls.end(), [](const TestCall& c) { return c.done(); });
  }));
  EXPECT_EQ(h.client.retransmits, 0);
  EXPECT_EQ(budget.packets_out(), 0u);
  h.run();
  h.expect_rest();
}

TEST(SessionBudget, Floor_NoBudgetAtAllIsStillOnePacketEach) {
  ReceiveBudget budget(0, 0);
  Harness h(wide(&budget));
  h.serve(3000);
  TestCall& call = h.client.call("x");
  ASSERT_TRUE(h.run_until([&] { return call.done(); }));
  EXPECT_EQ(count_sent(h, PacketType::kPull), 29u);
  EXPECT_EQ(h.client.retransmits, 0);
  EXPECT_EQ(budget.packets_out(), 0u);
}

TEST(SessionBudget, Sessions_OneGivesWhatTheOtherTakes) {
  ReceiveBudget budget(16, 1'000'000);
  Harness a(wide(&budget));
  Harness b(wide(&budget));
  for (Harness* h : {&a, &b}) h->serve(10'000);
  TestCall& greedy = a.client.call("a");
  a.run(3 * kFast);  // the first piece is there, 16 are pulled
  EXPECT_EQ(budget.packets_out(), 16u);
  TestCall& poor = b.client.call("b");
  b.run(3 * kFast);
  EXPECT_EQ(budget.packets_out(), 17u);  // its floor
  ASSERT_TRUE(a.run_until([&] { return greedy.done(); }));
  ASSERT_TRUE(b.run_until([&] { return poor.done(); }));
  EXPECT_EQ(budget.packets_out(), 0u);
}

TEST(SessionBudget, Timeout_GivesBackWhatDidNotCome) {
  ReceiveBudget budget(16, 1'000'000);
  Harness h(wide(&budget));
  h.serve(10'000);
  bool cut = true;
  h.fate = [&](const Flight& flight) {
    return cut && flight.header.packet_index > 0 ? Harness::Fate{} : Harness::Fate{kFast};
  };
  TestCall& call = h.client.call("x");
  h.run(50 * kMicrosecond);
  EXPECT_EQ(budget.packets_out(), 16u);
  h.run(20 * kMillisecond);
  EXPECT_LE(budget.packets_out(), 1u);  // the probe
  cut = false;
  ASSERT_TRUE(h.run_until([&] { return call.done(); }));
  EXPECT_EQ(call.response(), h.expected_response(call, 10'000));
  EXPECT_EQ(budget.packets_out(), 0u);
  h.run();
  h.expect_rest();
}

TEST(SessionBudget, End_CancelAndInterruptGiveBack) {
  ReceiveBudget budget(16, 1'000'000);
  Harness h(wide(&budget));
  h.serve(10'000);
  TestCall& cancelled = h.client.call("x");
  h.run(3 * kFast);
  EXPECT_EQ(budget.packets_out(), 16u);
  h.client.session->cancel(cancelled.call, absl::CancelledError("enough"), h.now);
  EXPECT_EQ(budget.packets_out(), 0u);
  h.client.call("y");
  h.run(3 * kFast);
  EXPECT_EQ(budget.packets_out(), 16u);
  h.client.session->interrupt(absl::AbortedError("gone"), h.now);
  EXPECT_EQ(budget.packets_out(), 0u);
}

}  // namespace
}  // namespace skua::rpc::testing
