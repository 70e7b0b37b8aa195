// Responses that are kept long with memory of the application's: the callee asks for them, and learns that its peer is
// gone.
#include <gtest/gtest.h>

#include <algorithm>

#include "rpc/protocol/session.h"
#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Flight;
using testing::Harness;
using testing::TestCall;

constexpr DurationNs kLatency = 10 * kMicrosecond;

void release_body(void* released) {
  ++*static_cast<int*>(released);
}

class SessionKept : public ::testing::TestWithParam<bool> {
 protected:
  SessionKept() {
    harness.can_read = GetParam();
    for (Side* side : {&harness.client, &harness.server}) side->options.read_above_bytes = 1000;
    harness.server.handler = [this](ArrivedRequest&& request) {
      MessagePtr response = harness.server.messages.make();
      ASSERT_TRUE(response->add_body(as_byte_span(memory), &release_body, &released));
      ASSERT_TRUE(harness.server.session->respond(request.slot, request.req_num, absl::StatusCode::kOk, false,
                                                  std::move(response), harness.now));
    };
  }
  using Side = testing::Side;

  /// A call that has its answer.
  void run_call() {
    TestCall& call = harness.client.call("give");
    ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
    EXPECT_EQ(call.response(), memory);
  }
  /// Nothing of `type` gets through.
  void block(PacketType type) {
    harness.fate = [type](const Flight& f) {
      return f.header.type == type ? Harness::Fate{} : Harness::Fate{kLatency};
    };
  }
  [[nodiscard]] size_t count(PacketType type) const {
    return static_cast<size_t>(std::count_if(harness.sent.begin(), harness.sent.end(),
                                             [&](const Flight& f) { return f.header.type == type; }));
  }
  [[nodiscard]] size_t kept() const { return harness.server.session->retained().responses; }

  std::string memory = std::string(5000, 'm');
  int released = 0;
  Harness harness;
};

TEST_P(SessionKept, LostRelease_IsAskedFor) {
  block(PacketType::kRelease);
  run_call();
  harness.run(100 * kMillisecond);
  EXPECT_EQ(released, 0);
  EXPECT_GT(kept(), 0u);
  harness.fate = nullptr;
  harness.run(2 * kSecond);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(count(PacketType::kAck), 1u);
  EXPECT_EQ(count(PacketType::kRelease), 2u);
  harness.run(300 * kSecond);
  EXPECT_EQ(count(PacketType::kAck), 1u) << "there is nothing to ask for";
  harness.expect_rest();
}

TEST_P(SessionKept, SmallResponse_IsAskedForToo) {
  memory.resize(80);
  run_call();
  EXPECT_EQ(count(PacketType::kRelease), 0u) << "not worth a packet, usually";
  harness.run(2 * kSecond);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(count(PacketType::kRelease), 1u);
  harness.expect_rest();
}

TEST_P(SessionKept, WithoutBodies_NobodyAsks) {
  harness.serve(80);
  TestCall& call = harness.client.call("give");
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  harness.run(300 * kSecond);
  EXPECT_EQ(count(PacketType::kAck) + count(PacketType::kPing), 0u);
  EXPECT_EQ(kept(), 1u);
  harness.expect_rest();
}

TEST_P(SessionKept, CallerThatNeverReleases_IsAskedLessAndLess) {
  // A peer that is older than questions: it is alive, and says nothing to them.
  block(PacketType::kRelease);
  run_call();
  const DurationNs first = harness.server.options.kept_question_ns;
  harness.run((1 + 2 + 4 + 8 + 16 + 32 + 64) * first + kSecond / 2);
  EXPECT_EQ(count(PacketType::kAck), 7u);
  harness.run(128 * first);
  EXPECT_EQ(count(PacketType::kAck), 9u);
  EXPECT_FALSE(harness.server.session->peer_silent(harness.now)) << "it answers pings";
  EXPECT_LE(count(PacketType::kPing), 9u);
  EXPECT_EQ(released, 0);
  // The next call in the sslot ends it, as always.
  for (uint32_t i = 0; i < harness.setup.terms.window; ++i) run_call();
  EXPECT_GE(released, 1);
  harness.fate = nullptr;
  harness.run(300 * kSecond);
  harness.expect_rest();
}

TEST_P(SessionKept, Number_LeftBehindIsReleasedAsWell) {
  // The sslot was used again, and the callee never heard of that call.
  harness.setup.terms.window = 1;
  harness.open();
  block(PacketType::kRelease);
  run_call();
  harness.fate = [](const Flight& f) { return f.to_server ? Harness::Fate{} : Harness::Fate{kLatency}; };
  TestCall& unheard = harness.client.call("unheard", 100 * kMillisecond);
  ASSERT_TRUE(harness.run_until([&] { return unheard.done(); }));
  EXPECT_EQ(released, 0);
  harness.fate = nullptr;
  harness.run(5 * kSecond);
  EXPECT_EQ(released, 1);
  harness.expect_rest();
}

TEST_P(SessionKept, CallThatWaits_AsksForItsResponse) {
  // Responses are lost for longer than the callee waits: its question is no end of the call.
  block(PacketType::kResponse);
  TestCall& call = harness.client.call("give", 60 * kSecond);
  harness.run(3 * kSecond);
  EXPECT_FALSE(call.done());
  EXPECT_EQ(count(PacketType::kRelease), 0u);
  harness.fate = nullptr;
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  EXPECT_EQ(call.response(), memory);
  EXPECT_EQ(harness.runs["give"], 1);
  harness.run(3 * kSecond);
  EXPECT_EQ(released, 1);
  harness.expect_rest();
}

TEST_P(SessionKept, ReadThatTakesLong_IsNotReleased) {
  harness.read_ns = 10 * kSecond;
  TestCall& call = harness.client.call("give", 60 * kSecond);
  harness.run(5 * kSecond);
  if (GetParam()) {
    EXPECT_EQ(released, 0);
    harness.client.session->cancel(call.call, absl::CancelledError("enough"), harness.now);
    harness.run(3 * kSecond);
    EXPECT_EQ(released, 0) << "its memory is being read";
  }
  harness.run(20 * kSecond);
  EXPECT_TRUE(call.done());
  EXPECT_EQ(released, 1);
  harness.expect_rest();
}

TEST_P(SessionKept, PeerThatIsGone_IsFoundOut) {
  block(PacketType::kRelease);
  run_call();
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  const ProtocolOptions& options = harness.server.options;
  harness.run(options.kept_question_ns + options.ping_after_ns);
  EXPECT_GE(count(PacketType::kPing), 1u);
  EXPECT_FALSE(harness.server.session->peer_silent(harness.now));
  harness.run(options.peer_timeout_ns);
  EXPECT_TRUE(harness.server.session->peer_silent(harness.now));
  harness.server.session->interrupt(absl::UnavailableError("gone"), harness.now);
  EXPECT_EQ(released, 1);
}

TEST_P(SessionKept, PeerThatWasSilentForLong_HasItsTime) {
  // Nobody asked for a minute; that is no minute of silence.
  block(PacketType::kRelease);
  run_call();
  harness.run(60 * kSecond);
  EXPECT_FALSE(harness.server.session->peer_silent(harness.now));
  harness.fate = nullptr;
  harness.run(130 * kSecond);
  EXPECT_FALSE(harness.server.session->peer_silent(harness.now));
  EXPECT_EQ(released, 1);
  harness.expect_rest();
}

TEST_P(SessionKept, Claims_OfNumbersThatWereNeverUsed) {
  run_call();
  harness.run(kMillisecond);
  const size_t before = count(PacketType::kRelease);
  const uint32_t number = harness.sent.front().header.req_num;
  std::array<std::byte, PacketSet::kEncodedMax> encoded;
  const size_t bytes = PacketSet{.base = 1}.encode(encoded.data());
  for (const uint32_t ahead : {1u, 2u, 4u, 4000u, 1u << 30}) {
    harness.inject(false, harness.header_to(false, PacketType::kAck, number + ahead),
                   as_string_view(ByteSpan(encoded).first(bytes)));
    harness.run(kMillisecond);
  }
  EXPECT_EQ(count(PacketType::kRelease), before);
  harness.run(3 * kSecond);
  harness.expect_rest();
}

INSTANTIATE_TEST_SUITE_P(Ways, SessionKept, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "ByRead" : "InPackets"; });

/// A caller on a stream does not probe: after an ack by a new connection it would wait for ever for the response that
/// was lost with the old one.
TEST(SessionKeptByStream, IsNotAskedFor) {
  // For longer than the harness keeps responses.
  const std::string memory(4000, 'm');
  int released = 0;
  Harness harness(
      {.terms = {.window = 4, .credits = 8, .message_max_bytes = 100'000, .payload_bytes = 5000}, .reliable = true});
  harness.server.handler = [&](ArrivedRequest&& request) {
    MessagePtr response = harness.server.messages.make();
    ASSERT_TRUE(response->add_body(as_byte_span(memory), &release_body, &released));
    harness.server.session->respond(request.slot, request.req_num, absl::StatusCode::kOk, false, std::move(response),
                                    harness.now);
  };
  TestCall& call = harness.client.call("give");
  ASSERT_TRUE(harness.run_until([&] { return call.done(); }));
  harness.run(200 * kSecond);
  EXPECT_TRUE(std::none_of(harness.sent.begin(), harness.sent.end(), [](const Flight& flight) {
    return flight.header.type == PacketType::kAck || flight.header.type == PacketType::kPing;
  }));
  EXPECT_EQ(released, 0);
  for (uint32_t i = 0; i < 4; ++i) {  // its sslot is used again
    TestCall& next = harness.client.call("give");
    ASSERT_TRUE(harness.run_until([&] { return next.done(); }));
  }
  EXPECT_GE(released, 1);
}

}  // namespace
}  // namespace skua::rpc
