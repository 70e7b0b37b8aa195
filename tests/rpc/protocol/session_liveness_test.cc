// Sessions whose peer says nothing: when it is asked whether it lives, and when it is given up.
#include <gtest/gtest.h>

#include "rpc/protocol/session.h"
#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Flight;
using testing::Harness;
using testing::TestCall;

TEST(SessionLiveness, Ping_OnlyWhileCallsWaitAndNothingIsHeard) {
  Harness harness;
  harness.serve(1);
  harness.client.call("x");
  harness.run(30 * kSecond);
  EXPECT_EQ(harness.sent_count(PacketType::kPing), 0u);  // quiet
  harness.server.handler = nullptr;
  harness.client.call("slow", 60 * kSecond);
  harness.run(20 * kSecond);
  EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
  EXPECT_EQ(harness.sent_count(PacketType::kPing), harness.sent_count(PacketType::kPong));
}

TEST(SessionLiveness, Ping_OnARepliableTransportWithoutProbes) {
  Harness harness({.reliable = true});
  harness.client.call("slow", 60 * kSecond);
  harness.run(10 * kSecond);
  EXPECT_GE(harness.sent_count(PacketType::kPing), 10u);
  EXPECT_EQ(harness.sent_count(PacketType::kPing), harness.sent_count(PacketType::kPong));
  EXPECT_EQ(harness.sent_count(PacketType::kRequest), 1u);
  EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
}

TEST(SessionLiveness, PeerSilent_AfterTheTimeoutAndNotBefore) {
  for (const bool reliable : {false, true}) {
    Harness harness({.reliable = reliable});
    harness.fate = [](const Flight&) { return Harness::Fate{}; };
    harness.client.call("x", 60 * kSecond);
    harness.run(4 * kSecond);
    EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
    harness.run(2 * kSecond);
    EXPECT_TRUE(harness.client.session->peer_silent(harness.now));
    EXPECT_GE(harness.sent_count(PacketType::kPing), 5u);
  }
}

/// Nothing of the peer arrives as a whole, for longer than it may be silent.
TEST(SessionLiveness, PeerSilent_NotWhileALargePacketComesOrGoes) {
  Harness harness({.reliable = true});
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  harness.client.call("x", 60 * kSecond);
  for (int i = 1; i <= 30; ++i) {
    harness.client.progress_now = static_cast<uint64_t>(i);
    harness.run(kSecond);
    ASSERT_FALSE(harness.client.session->peer_silent(harness.now)) << i;
  }
  harness.run(6 * kSecond);
  EXPECT_TRUE(harness.client.session->peer_silent(harness.now)) << "the packet does not get on";
}

TEST(SessionLiveness, PeerSilent_CountsFromTheCallNotFromTheLastWord) {
  Harness harness;
  harness.serve(1);
  harness.client.call("x");
  harness.run(100 * kSecond);  // nobody has anything to say
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  harness.client.call("y", 60 * kSecond);
  harness.run(4 * kSecond);
  EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
  harness.run(2 * kSecond);
  EXPECT_TRUE(harness.client.session->peer_silent(harness.now));
}

TEST(SessionLiveness, PeerSilent_NotBecauseOfAPingLongAgo) {
  Harness harness;
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  harness.client.call("x", kSecond);
  harness.run(2 * kSecond);  // a ping was lost, the call has ended
  harness.fate = nullptr;
  harness.run(100 * kSecond);
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  harness.client.call("y", 60 * kSecond);
  harness.run(kSecond);
  EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
}

TEST(SessionLiveness, PeerSilent_ThoughNoCallWaitsSoLong) {
  for (const bool reliable : {false, true}) {
    for (const DurationNs pause : {kMillisecond, 2 * kSecond}) {
      Harness harness({.reliable = reliable});
      harness.serve(1);
      harness.client.call("x");
      harness.run(kSecond);
      harness.fate = [](const Flight&) { return Harness::Fate{}; };
      const TimeNs began_ns = harness.now;
      while (!harness.client.session->peer_silent(harness.now)) {
        ASSERT_LT(harness.now - began_ns, 9 * kSecond);
        TestCall& call = harness.client.call("y", 100 * kMillisecond);
        ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
        harness.run(pause);
      }
      EXPECT_GE(harness.now - began_ns, 4 * kSecond);
    }
  }
}

TEST(SessionLiveness, PeerSilent_ThoughTheCallIsOver) {
  Harness harness;
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  harness.client.call("x", kSecond);
  harness.run(4 * kSecond);
  EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
  harness.run(2 * kSecond);
  EXPECT_TRUE(harness.client.session->peer_silent(harness.now));
}

TEST(SessionLiveness, Ping_NotAgainOnceItIsAnswered) {
  Harness harness;
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  harness.client.call("x", kSecond);
  harness.run(2 * kSecond);
  harness.fate = nullptr;
  harness.run(10 * kSecond);
  const size_t pings = harness.sent_count(PacketType::kPing);
  harness.run(100 * kSecond);
  EXPECT_EQ(harness.sent_count(PacketType::kPing), pings);
  EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
}

TEST(SessionLiveness, PeerSilent_NotForTimeInWhichWeDidNotRun) {
  Harness harness;
  harness.serve(1);
  harness.client.call("x", 60 * kSecond);
  harness.transmit();
  harness.now += 30 * kSecond;  // the process was stopped; the answer waits in the socket
  static_cast<void>(harness.client.session->on_timer(harness.now));
  EXPECT_FALSE(harness.client.session->peer_silent(harness.now));
  harness.run(kSecond);
  EXPECT_TRUE(harness.client.calls[0].done());
}

TEST(SessionLiveness, SendPing_IsAnswered) {
  Harness harness;
  harness.client.session->send_ping();
  harness.run(100 * kMillisecond);
  ASSERT_EQ(harness.sent.size(), 2u);
  EXPECT_EQ(harness.sent[0].header.type, PacketType::kPing);
  EXPECT_EQ(harness.sent[1].header.type, PacketType::kPong);
  EXPECT_GT(harness.client.session->last_heard_ns(), kSecond);
}

}  // namespace
}  // namespace skua::rpc
