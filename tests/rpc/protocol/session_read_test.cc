// Large messages that their receiver reads itself: what travels, whose memory is kept how long, and what happens when
// it fails.
#include <gtest/gtest.h>

#include <algorithm>

#include "rpc/protocol/session.h"
#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Flight;
using testing::Harness;
using testing::pattern;
using testing::TestCall;

constexpr size_t kLarge = 5000;

class SessionRead : public ::testing::Test {
 protected:
  SessionRead() {
    harness.can_read = true;
    harness.client.options.read_above_bytes = harness.server.options.read_above_bytes = 1000;
  }
  [[nodiscard]] size_t count(PacketType type) const {
    return static_cast<size_t>(std::count_if(harness.sent.begin(), harness.sent.end(),
                                             [&](const Flight& f) { return f.header.type == type; }));
  }
  /// Nothing of `type` gets through.
  void block(PacketType type) {
    harness.fate = [type](const Flight& f) {
      return f.header.type == type ? Harness::Fate{} : Harness::Fate{10 * kMicrosecond};
    };
  }
  void expect_ok(TestCall& call, size_t response_bytes) {
    ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
    EXPECT_EQ(call.code(), absl::StatusCode::kOk) << call.outcome.status;
    EXPECT_TRUE(call.response() == harness.expected_response(call, response_bytes));
    EXPECT_EQ(harness.runs[call.request], 1);
  }
  void rest() {
    harness.fate = nullptr;
    harness.run(10 * kSecond);
    harness.expect_rest();
  }

  Harness harness;
};

TEST_F(SessionRead, BothWays_OnePacketEachAndNothingCopied) {
  harness.serve(kLarge);
  expect_ok(harness.client.call(pattern(1, kLarge)), kLarge);
  rest();
  EXPECT_EQ(count(PacketType::kRequest), 1u);
  EXPECT_EQ(count(PacketType::kResponse), 1u);
  EXPECT_EQ(count(PacketType::kPull), 0u);
  EXPECT_EQ(count(PacketType::kRelease), 1u);
  EXPECT_EQ(harness.client.copied_bytes + harness.server.copied_bytes, 0u);
  EXPECT_EQ(harness.client.fetched, 1);
  EXPECT_EQ(harness.server.fetched, 1);
}

TEST_F(SessionRead, Small_GoInPackets) {
  harness.serve(900);
  expect_ok(harness.client.call(pattern(1, 900)), 900);
  rest();
  EXPECT_EQ(harness.client.fetched + harness.server.fetched, 0);
}

TEST_F(SessionRead, LostAnnouncements_AreRepeated) {
  harness.serve(kLarge);
  size_t seen = 0;
  harness.fate = [&](const Flight& f) {
    const bool lose = (f.header.flags & packet_flags::kByRead) != 0 && seen++ < 4;
    return lose ? Harness::Fate{} : Harness::Fate{10 * kMicrosecond};
  };
  expect_ok(harness.client.call(pattern(1, kLarge)), kLarge);
  rest();
}

TEST_F(SessionRead, FailedReads_GoInPackets) {
  harness.client.read_works = harness.server.read_works = [] { return false; };
  harness.serve(kLarge);
  expect_ok(harness.client.call(pattern(1, kLarge)), kLarge);
  rest();
  EXPECT_GT(count(PacketType::kRequest), kLarge / 100);
  EXPECT_GT(count(PacketType::kResponse), kLarge / 100);
}

/// The server announces its response, and sends it in packets besides. Then the READ fails.
TEST_F(SessionRead, PacketsOfAResponseThatIsBeingRead_AreNotMixedWithTheOnesThatFollow) {
  harness.client.read_works = [] { return false; };
  harness.serve(kLarge);
  TestCall& call = harness.client.call("x");
  ASSERT_TRUE(harness.run_until([&] { return !harness.client.fetches.empty(); }));
  PacketHeader piece = harness.header_to(false, PacketType::kResponse, call.call.slot);
  piece.message_bytes = kLarge;
  for (uint16_t i = 0; i < 3; ++i) {
    piece.packet_index = i;
    harness.inject(false, piece, std::string(100, '!'));
  }
  expect_ok(call, kLarge);
  rest();
}

TEST_F(SessionRead, ReceiverThatCannotRead_GetsPackets) {
  // Announced while reading works, refused by the receiver, where it does not any more.
  harness.serve(kLarge);
  TestCall& call = harness.client.call(pattern(1, kLarge));
  harness.transmit();
  harness.can_read = false;
  expect_ok(call, kLarge);
  rest();
}

TEST_F(SessionRead, Deadline_SourceStaysUntilTheReaderIsDone) {
  harness.read_ns = 100 * kMillisecond;
  TestCall& call = harness.client.call(pattern(1, kLarge), 20 * kMillisecond);
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_EQ(call.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(call.outcome.may_have_executed);
  EXPECT_EQ(harness.client.session->lingering_slots(), 1u);
  EXPECT_EQ(harness.client.announced.size(), 1u) << "the server is reading it";
  ASSERT_TRUE(harness.run_until([&] { return harness.client.session->lingering_slots() == 0; }));
  EXPECT_EQ(harness.server.fetched, 1);
  EXPECT_EQ(harness.server.delivered, 0);
  rest();
}

TEST_F(SessionRead, Release_IsRepeatedUntilAnswered) {
  harness.read_ns = 100 * kMillisecond;
  harness.client.call(pattern(1, kLarge), 20 * kMillisecond);
  block(PacketType::kReleased);
  harness.run(kSecond);
  EXPECT_EQ(harness.client.session->lingering_slots(), 1u);
  EXPECT_GT(count(PacketType::kRelease), 2u);
  rest();
}

TEST_F(SessionRead, Release_OvertakesItsRequest) {
  // The announcement comes when its memory is the application's again: nobody may read by it.
  harness.fate = [&](const Flight& f) {
    return Harness::Fate{f.header.type == PacketType::kRequest ? 2 * kSecond : 10 * kMicrosecond};
  };
  TestCall& call = harness.client.call(pattern(1, kLarge), 20 * kMillisecond);
  ASSERT_TRUE(harness.run_until([&] { return call.done() && harness.client.session->lingering_slots() == 0; }));
  harness.run(5 * kSecond);
  EXPECT_EQ(harness.server.fetched, 0);
  EXPECT_EQ(harness.server.delivered, 0);
  rest();
}

TEST_F(SessionRead, Cancel_WhileTheResponseIsRead) {
  harness.serve(kLarge);
  harness.read_ns = 50 * kMillisecond;
  TestCall& call = harness.client.call("small");
  ASSERT_TRUE(harness.run_until([&] { return !harness.client.fetches.empty(); }));
  harness.client.session->cancel(call.call, absl::CancelledError("no"), harness.now);
  EXPECT_EQ(call.code(), absl::StatusCode::kCancelled);
  // All four slots are wanted; the one whose memory is being written to is not given away.
  std::vector<TestCall*> others;
  for (int i = 0; i < 8; ++i) others.push_back(&harness.client.call("other " + std::to_string(i)));
  EXPECT_EQ(harness.client.session->lingering_slots(), 1u);
  for (TestCall* other : others) expect_ok(*other, kLarge);
  rest();
}

TEST_F(SessionRead, Interrupt_CutsThePeerOffFirst) {
  harness.read_ns = kSecond;
  TestCall& call = harness.client.call(pattern(1, kLarge));
  ASSERT_TRUE(harness.run_until([&] { return !harness.server.fetches.empty(); }));
  harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
  EXPECT_EQ(harness.severed, 1);
  EXPECT_EQ(call.code(), absl::StatusCode::kUnavailable);
  harness.server.session->interrupt(absl::UnavailableError("gone"), harness.now);
  harness.run(5 * kSecond);
  EXPECT_EQ(harness.server.delivered, 0);
  harness.open();
  harness.serve(10);
  expect_ok(harness.client.call("again"), 10);
  rest();
}

TEST_F(SessionRead, Pending_NothingIsToldBeforeItIsLent) {
  harness.serve(kLarge);
  harness.client.lending_waits = harness.server.lending_waits = true;
  TestCall& call = harness.client.call(pattern(1, kLarge));
  harness.run(kSecond);
  EXPECT_EQ(count(PacketType::kRequest), 0u);
  harness.client.on_lent(true);
  harness.run(kSecond);
  EXPECT_EQ(harness.server.delivered, 1);
  EXPECT_EQ(count(PacketType::kResponse), 0u);
  harness.server.on_lent(true);
  expect_ok(call, kLarge);
  EXPECT_EQ(harness.client.fetched, 1);
  EXPECT_EQ(harness.server.fetched, 1);
  rest();
}

TEST_F(SessionRead, Pending_WhatCannotBeLentGoesInPackets) {
  harness.serve(kLarge);
  harness.client.lending_waits = harness.server.lending_waits = true;
  TestCall& call = harness.client.call(pattern(1, kLarge));
  harness.client.on_lent(false);
  harness.run(kSecond);
  EXPECT_EQ(harness.server.delivered, 1);
  harness.server.on_lent(false);
  expect_ok(call, kLarge);
  EXPECT_EQ(harness.client.fetched + harness.server.fetched, 0);
  rest();
}

TEST_F(SessionRead, Pending_ACallThatEndsBeforeItIsLent) {
  harness.client.lending_waits = true;
  TestCall& call = harness.client.call(pattern(1, kLarge), 20 * kMillisecond);
  harness.client.call(pattern(2, kLarge));
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_FALSE(call.outcome.may_have_executed);
  EXPECT_EQ(harness.client.session->lingering_slots(), 0u);
  harness.client.session->interrupt(absl::UnavailableError("gone"), harness.now);
  harness.server.session->interrupt(absl::UnavailableError("gone"), harness.now);
  EXPECT_TRUE(harness.client.announced.empty()) << "also that of the call which waits for the next connection";
  harness.client.lending_waits = false;
  harness.open();
  harness.serve(10);
  harness.run(kSecond);
  EXPECT_EQ(harness.server.delivered, 1);
  rest();
}

TEST_F(SessionRead, LateFetch_IsNobodysAfterReopening) {
  harness.read_ns = kSecond;
  harness.client.call(pattern(1, kLarge));
  ASSERT_TRUE(harness.run_until([&] { return !harness.server.fetches.empty(); }));
  for (testing::Side* side : {&harness.client, &harness.server}) {
    side->session->interrupt(absl::UnavailableError("gone"), harness.now);
  }
  harness.open();
  harness.serve(10);
  harness.read_ns = 3 * kSecond;
  TestCall& next = harness.client.call(pattern(2, kLarge), 20 * kSecond);
  expect_ok(next, 10);
  EXPECT_EQ(harness.server.delivered, 1);
  rest();
}

TEST_F(SessionRead, NoMemory_IsTyped) {
  harness.server.memory = 100;
  TestCall& call = harness.client.call(pattern(1, kLarge));
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_EQ(call.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(call.outcome.may_have_executed);
  harness.serve(kLarge);
  harness.client.memory = 100;
  TestCall& other = harness.client.call("small");
  ASSERT_TRUE(harness.run_until([&] { return other.done(); }));
  EXPECT_EQ(other.code(), absl::StatusCode::kResourceExhausted);
  harness.client.memory = harness.server.memory = SIZE_MAX;
  rest();
}

TEST_F(SessionRead, Hostile_AnnouncementsAreDropped) {
  harness.serve(10);
  for (const bool to_server : {true, false}) {
    PacketHeader header = harness.header_to(to_server, to_server ? PacketType::kRequest : PacketType::kResponse, 0);
    header.flags = packet_flags::kByRead;
    header.message_bytes = 5000;
    harness.inject(to_server, header, "");
    harness.inject(to_server, header, "garbage");
    ReadList list;
    list.connection = 1;
    list.span_count = 1;
    list.spans[0] = {1, 2, 4999};  // not what the header says
    std::string bytes(list.encoded_bytes(), '\0');
    list.encode(std::as_writable_bytes(std::span(bytes)));
    harness.inject(to_server, header, bytes);
    header.message_bytes = UINT32_MAX;
    harness.inject(to_server, header, bytes);
    PacketHeader released = harness.header_to(to_server, PacketType::kReleased, 0);
    harness.inject(to_server, released);
  }
  EXPECT_EQ(harness.client.fetches.size() + harness.server.fetches.size(), 0u);
  expect_ok(harness.client.call("still here"), 10);
  rest();
}

TEST_F(SessionRead, Hostile_ASlotHasOneFetchWhateverComes) {
  harness.read_ns = kSecond;
  const std::string source(kLarge, 's');
  ReadList list;
  list.connection = 1;
  list.span_count = 1;
  list.spans[0] = {reinterpret_cast<uintptr_t>(source.data()), 77, kLarge};
  std::string bytes(list.encoded_bytes(), '\0');
  list.encode(std::as_writable_bytes(std::span(bytes)));
  for (uint32_t req_num = 0; req_num < 400; req_num += 4) {
    PacketHeader header = harness.header_to(true, PacketType::kRequest, req_num);
    header.flags = packet_flags::kByRead;
    header.message_bytes = kLarge;
    harness.inject(true, header, bytes);
    PacketHeader small = harness.header_to(true, PacketType::kRequest, req_num + 4);
    small.message_bytes = 1;
    harness.inject(true, small, "x");
    for (const uint8_t flags : {uint8_t{0}, packet_flags::kByRead}) {
      PacketHeader release = harness.header_to(true, PacketType::kRelease, req_num + (flags == 0 ? 0 : 8));
      release.flags = flags;
      harness.inject(true, release);
    }
  }
  EXPECT_EQ(harness.server.fetches.size(), 1u);
  harness.run(5 * kSecond);
  EXPECT_EQ(harness.server.delivered, 0);
}

/// Loss, duplicates, reordering, failing READs, deadlines and cancels, all at random: every call ends once, answers are
/// right, no handler runs twice, and everything is given back.
TEST_F(SessionRead, Random) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Harness world;
    world.can_read = true;
    world.client.options.read_above_bytes = world.server.options.read_above_bytes = 1000;
    world.read_ns = static_cast<DurationNs>(rng.between(1, 5 * kMillisecond));
    const double failing = rng.uniform() * 0.3;
    world.client.read_works = world.server.read_works = [&] { return !rng.chance(failing); };
    world.client.lending_waits = world.server.lending_waits = rng.chance(0.5);
    const double loss = rng.uniform() * 0.2;
    world.fate = [&](const Flight&) {
      Harness::Fate copies;
      while (copies.size() < 3 && (copies.empty() ? !rng.chance(loss) : rng.chance(0.1))) {
        copies.push_back(static_cast<DurationNs>(rng.between(10, rng.chance(0.05) ? 20'000 : 100)) * kMicrosecond);
      }
      return copies;
    };
    constexpr size_t kAnswer = 3000;
    world.serve(kAnswer);
    std::vector<TestCall*> calls;
    for (int i = 0; i < 30; ++i) {
      const size_t size = rng.chance(0.5) ? rng.between(1001, 6000) : rng.below(200);
      const DurationNs timeout =
          rng.chance(0.3) ? static_cast<DurationNs>(rng.between(1, 20)) * kMillisecond : 20 * kSecond;
      calls.push_back(
          &world.client.call(std::to_string(i) + pattern(seed * 100 + static_cast<uint64_t>(i), size), timeout));
      world.run(static_cast<DurationNs>(rng.below(3 * kMillisecond)));
      if (rng.chance(0.5)) world.client.on_lent(!rng.chance(failing));
      if (rng.chance(0.5)) world.server.on_lent(!rng.chance(failing));
      if (TestCall& victim = *calls[rng.below(calls.size())]; rng.chance(0.15) && !victim.done()) {
        world.client.session->cancel(victim.call, absl::CancelledError("no"), world.now);
      }
    }
    world.client.lending_waits = world.server.lending_waits = false;
    world.client.on_lent(true);
    world.server.on_lent(true);
    ASSERT_TRUE(
        world.run_until([&] { return std::all_of(calls.begin(), calls.end(), [](auto* c) { return c->done(); }); }));
    for (TestCall* call : calls) {
      if (call->code() == absl::StatusCode::kOk) {
        EXPECT_TRUE(call->response() == world.expected_response(*call, kAnswer));
      }
      EXPECT_LE(world.runs[call->request], 1);
    }
    world.fate = nullptr;
    world.run(20 * kSecond);
    world.expect_rest();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace skua::rpc
