// OutgoingCalls against a twin that only counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/rpc/endpoint/outgoing_calls_harness.h"

namespace skua::rpc::testing {
namespace {

using absl::StatusCode;

/// Two sessions that break now and then, and a peer that answers what it likes, in any order.
class OutgoingCallsRandomTest : public OutgoingCallsTest {
 protected:
  struct Made {
    CallId id;
    int completions = 0;
  };

  void on_end(size_t call, CallOutcome&& outcome) override {
    OutgoingCallsTest::on_end(call, std::move(outcome));
    ++made.at(call).completions;
    EXPECT_EQ(ended.back().from_peer, ended.back().code == StatusCode::kOk);
    EXPECT_EQ(ended.back().response.empty(), ended.back().code != StatusCode::kOk);
    if (!is_over && rng.below(3) == 0) call_one(pick());
  }
  SessionEntry& pick() { return *sessions[rng.below(sessions.size())]; }
  /// A completion may run while the call is made, so its record is there before.
  void call_one(SessionEntry& entry) {
    const CallOptions options{.timeout_ns = (1 + static_cast<DurationNs>(rng.below(20))) * kMillisecond};
    const size_t in_flight = accepted - ended.size();
    ASSERT_EQ(made.size(), accepted);
    made.emplace_back();
    std::optional<CallId> id;
    if (rng.below(4) != 0) id = small(entry.handle(), "small", options);
    if (!id.has_value()) {
      const absl::StatusOr<CallId> as_large = large(entry.handle(), std::string(rng.below(900), 'l'), options);
      ASSERT_EQ(as_large.ok(), in_flight < kCallsMax) << as_large.status();
      if (as_large.ok()) id = *as_large;
    } else {
      ASSERT_LT(in_flight, kCallsMax);
    }
    if (!id.has_value()) return made.pop_back();
    made.back().id = *id;
  }
  void answer_one(SessionEntry& entry) {
    const bool is_small = rng.below(2) == 0;
    const std::vector<uint32_t> waiting =
        numbers(entry, is_small ? ClientSlot::State::kSmall : ClientSlot::State::kLarge);
    if (waiting.empty() || !entry.session->is_open()) return;
    const uint32_t number = waiting[rng.below(waiting.size())];
    if (entry.association != nullptr && rng.below(2) == 0) return answer_small(entry, number, "in a record");
    answer_large(entry, number, "in a packet");
  }
  void break_or_make(SessionEntry& entry) {
    if (entry.session->is_open()) return parts.lives.break_off(entry, why);
    parts.lives.open(entry, entry.session->terms());
    join(entry);
  }
  void step() {
    SessionEntry& entry = pick();
    switch (rng.below(16)) {
      case 0: return calls.cancel(made.empty() ? CallId() : made[rng.below(made.size())].id);
      case 1:
        return static_cast<void>(entry.session->is_open() ? rng.below(8) == 0 ? break_or_make(entry) : void()
                                                          : break_or_make(entry));
      case 2: return parts.pass(static_cast<DurationNs>(rng.below(3)) * kMillisecond);
      case 3: return static_cast<void>(entry.session->on_timer(context.now_ns));
      case 4: return static_cast<void>(calls.run_completions());
      case 5:
      case 6: return static_cast<void>(sent_bundles());
      case 7:
      case 8:
      case 9:
      case 10: return answer_one(entry);
      default: return call_one(entry);
    }
  }

  Rng rng{1};
  bool is_over = false;  // completions make no more calls
  std::vector<Made> made;
  std::vector<SessionEntry*> sessions;
};

TEST_F(OutgoingCallsRandomTest, EachCallCompletesOnce_AndIsCountedUntilThen) {
  for (const PeerId peer : {1u, 2u}) sessions.push_back(&joined(peer));
  size_t most = 0;
  for (int i = 0; i < 30'000; ++i) {
    step();
    if (HasFatalFailure()) FAIL() << "step " << i;
    ASSERT_EQ(calls.in_flight(), accepted - ended.size()) << "step " << i;
    ASSERT_EQ(context.counters.calls_started, accepted);
    ASSERT_EQ(context.counters.calls_completed, ended.size());
    most = std::max(most, calls.in_flight());
  }
  EXPECT_EQ(most, kCallsMax) << "the limit was reached";
  EXPECT_GT(accepted, 1000u);
  is_over = true;
  parts.lives.abort_all(why);
  calls.run_completions();
  for (const Made& call : made) ASSERT_EQ(call.completions, 1);
}

}  // namespace
}  // namespace skua::rpc::testing
