// Packets that no honest peer sends, or that come too late: each is dropped and counted, and changes nothing.
#include <gtest/gtest.h>

#include "rpc/protocol/session.h"
#include "tests/rpc/protocol/session_harness.h"

namespace skua::rpc {
namespace {

using testing::Flight;
using testing::Harness;
using testing::pattern;
using testing::TestCall;

std::string encoded(const PacketSet& set) {
  std::string out(PacketSet::kEncodedMax, '\0');
  out.resize(set.encode(reinterpret_cast<std::byte*>(out.data())));
  return out;
}

std::string set_of(uint16_t base, std::initializer_list<uint64_t> words) {
  PacketSet set;
  set.base = base;
  for (const uint64_t word : words) set.words[set.word_count++] = word;
  return encoded(set);
}

/// A server with one request of 50 bytes delivered in slot 0 (and nobody answering it).
class HostileToServer : public ::testing::Test {
 protected:
  void SetUp() override {
    harness.client.call(pattern(1, 50), 60 * kSecond);
    harness.run(100 * kMicrosecond);
    ASSERT_EQ(harness.server.requests.size(), 1u);
    harness.server.drops.clear();
  }
  void send(PacketHeader header, std::string_view payload = {}) { harness.inject(true, header, payload); }
  [[nodiscard]] PacketHeader request(uint32_t req_num, uint32_t bytes, uint16_t index = 0) const {
    PacketHeader header = harness.header_to(true, PacketType::kRequest, req_num);
    header.message_bytes = bytes;
    header.packet_index = index;
    return header;
  }
  int drops(DropReason reason) { return harness.server.drops[reason]; }
  /// The honest call still ends well.
  void expect_unharmed() {
    harness.run(10 * kMillisecond);
    EXPECT_EQ(harness.server.delivered, 1);
    EXPECT_TRUE(harness.server.respond(harness.server.requests[0], "fine"));
    harness.server.requests.clear();
    harness.run(10 * kMillisecond);
    EXPECT_EQ(harness.client.calls[0].response(), "fine");
    harness.expect_rest();
  }

  Harness harness;
};

/// Memory for a request is taken when its first packet comes: who never sends the rest does not keep it.
TEST_F(HostileToServer, Request_WhoseRestNeverComes) {
  const size_t lent = harness.server.lent.size();
  send(request(5, 50'000), std::string(100, 'x'));
  send(request(6, 50'000, 7), std::string(100, 'x'));
  harness.run(harness.server.options.request_timeout_ns / 2);
  EXPECT_EQ(harness.server.session->retained().requests, 2u);
  // More of the same does not make it live longer.
  send(request(5, 50'000, 1), std::string(100, 'x'));
  harness.run(harness.server.options.request_timeout_ns);
  EXPECT_EQ(harness.server.session->retained().requests, 0u);
  EXPECT_EQ(harness.server.lent.size(), lent);
  expect_unharmed();
}

TEST_F(HostileToServer, Request_WrongLengths) {
  send(request(4, 50), std::string(49, 'x'));
  send(request(4, 50), std::string(51, 'x'));
  send(request(4, 0), "x");
  send(request(4, 150), std::string(50, 'x'));      // piece 0 must be full
  send(request(4, 150, 1), std::string(100, 'x'));  // piece 1 is the rest
  send(request(4, 150, 2), std::string(50, 'x'));   // there is no piece 2
  send(request(4, 100, 1), "");                     // nor here
  send(request(4, 50, UINT16_MAX), std::string(50, 'x'));
  EXPECT_EQ(drops(DropReason::kBadLength), 8);
  expect_unharmed();
}

TEST_F(HostileToServer, Request_AboveTheLimit) {
  send(request(4, 100'001), std::string(100, 'x'));
  send(request(4, UINT32_MAX), std::string(100, 'x'));
  send(request(4, UINT32_MAX, UINT16_MAX), std::string(100, 'x'));
  EXPECT_EQ(drops(DropReason::kTooLarge), 3);
  expect_unharmed();
}

TEST_F(HostileToServer, Request_StaleNumbers) {
  for (const uint32_t req_num : {static_cast<uint32_t>(-4), static_cast<uint32_t>(-400), 0x80000004u}) {
    send(request(req_num, 1), "x");
  }
  EXPECT_EQ(drops(DropReason::kStaleRequest), 3);
  expect_unharmed();
}

TEST_F(HostileToServer, Request_ChangesItsSizeHalfway) {
  send(request(1, 250, 0), std::string(100, 'a'));
  send(request(1, 350, 1), std::string(100, 'b'));
  EXPECT_EQ(drops(DropReason::kBadLength), 1);
  EXPECT_EQ(harness.server.session->retained().requests, 1u);
  // A newer one in the same slot ends it.
  send(request(5, 0), "");
  EXPECT_EQ(harness.server.session->retained().requests, 0u);
  EXPECT_EQ(harness.server.delivered, 2);
  harness.server.delivered = 1;
  harness.server.requests.pop_back();
  expect_unharmed();
}

TEST_F(HostileToServer, Request_OneWayOfAMethodThatAnswers) {
  PacketHeader header = request(1, 1);
  header.method = testing::kAnswersOnly;
  header.flags = packet_flags::kOneWay;
  const size_t packets = harness.sent.size();
  send(header, "x");
  harness.transmit();
  ASSERT_EQ(harness.sent.size(), packets + 1);
  EXPECT_EQ(harness.sent.back().header.method, static_cast<uint16_t>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(harness.sent.back().header.flags, packet_flags::kEngineStatus) << "certainly not executed";
  expect_unharmed();
}

TEST_F(HostileToServer, Request_DuplicatePieces) {
  for (int i = 0; i < 5; ++i) send(request(1, 250, 1), std::string(100, 'b'));
  EXPECT_EQ(drops(DropReason::kDuplicate), 4);
  send(request(1, 250, 0), std::string(100, 'a'));
  send(request(1, 250, 2), std::string(50, 'c'));
  ASSERT_EQ(harness.server.requests.size(), 2u);
  EXPECT_EQ(as_string_view(harness.server.requests[1].request.bytes()),
            std::string(100, 'a') + std::string(100, 'b') + std::string(50, 'c'));
  harness.server.delivered = 1;
  harness.server.requests.pop_back();
  expect_unharmed();
}

TEST_F(HostileToServer, Pull_Malformed) {
  const PacketHeader pull = harness.header_to(true, PacketType::kPull, 0);
  const std::string whole = set_of(0, {1, 2, 3, 4});
  for (size_t size = 0; size < whole.size(); ++size) {
    if (size == 4 && whole[2] == 0) continue;
    send(pull, std::string_view(whole).substr(0, size));
  }
  send(pull, whole + "x");
  send(pull, set_of(0, {}).replace(2, 1, 1, '\5') + std::string(40, '\0'));
  EXPECT_EQ(drops(DropReason::kBadLength), static_cast<int>(whole.size()) + 2);
  expect_unharmed();
}

TEST_F(HostileToServer, Pull_OfAnotherNumber) {
  send(harness.header_to(true, PacketType::kPull, 4), set_of(0, {1}));
  send(harness.header_to(true, PacketType::kPull, static_cast<uint32_t>(-4)), set_of(0, {1}));
  send(harness.header_to(true, PacketType::kPull, 1), set_of(0, {1}));  // a slot that was never used
  EXPECT_EQ(drops(DropReason::kStaleRequest), 3);
  expect_unharmed();
}

TEST_F(HostileToServer, Pull_BeyondTheResponseSendsNothingOfIt) {
  EXPECT_TRUE(harness.server.respond(harness.server.requests[0], std::string(250, 'r')));
  harness.run(10 * kMillisecond);
  const size_t packets = harness.sent.size();
  send(harness.header_to(true, PacketType::kPull, 0), set_of(0, {0b1111}));
  send(harness.header_to(true, PacketType::kPull, 0), set_of(3, {1}));
  send(harness.header_to(true, PacketType::kPull, 0), set_of(UINT16_MAX, {1}));
  send(harness.header_to(true, PacketType::kPull, 0), set_of(UINT16_MAX, {0, 0, 0, uint64_t{1} << 63}));
  EXPECT_EQ(drops(DropReason::kBadLength), 4);
  harness.run(kMillisecond);
  EXPECT_EQ(harness.sent.size(), packets);
  harness.server.requests.clear();
  harness.expect_rest();
}

TEST_F(HostileToServer, Pull_OfEverythingAgainAndAgainIsBounded) {
  EXPECT_TRUE(harness.server.respond(harness.server.requests[0], std::string(250, 'r')));
  harness.server.requests.clear();
  harness.run(10 * kMillisecond);
  const size_t packets = harness.sent.size();
  for (int i = 0; i < 1000; ++i) send(harness.header_to(true, PacketType::kPull, 0), set_of(0, {0b111}));
  harness.run(kMillisecond);
  EXPECT_EQ(harness.sent.size(), packets + 3);  // the state says what to send, packets do not queue up
  harness.expect_rest();
}

TEST_F(HostileToServer, Release_OfWhatIsNotThere) {
  send(harness.header_to(true, PacketType::kRelease, 4));
  send(harness.header_to(true, PacketType::kRelease, static_cast<uint32_t>(-4)));
  send(harness.header_to(true, PacketType::kRelease, 3));
  EXPECT_EQ(drops(DropReason::kStaleRequest), 3);
  expect_unharmed();
}

TEST_F(HostileToServer, Ping_FloodIsAnsweredOnce) {
  const size_t packets = harness.sent.size();
  for (int i = 0; i < 1000; ++i) send(harness.header_to(true, PacketType::kPing, 0));
  harness.transmit();
  EXPECT_EQ(harness.sent.size(), packets + 1);
  expect_unharmed();
}

TEST_F(HostileToServer, Types_ThatAreNoneOfASessions) {
  for (const PacketType type :
       {PacketType::kUnknownSession, PacketType::kConnect, PacketType::kAccept, PacketType::kDisconnect}) {
    send(harness.header_to(true, type, 0), "whatever");
  }
  EXPECT_EQ(drops(DropReason::kBadType), 4);
  expect_unharmed();
}

TEST_F(HostileToServer, ClientsPackets_ToASideThatCallsNobody) {
  send(harness.header_to(true, PacketType::kAck, 0), set_of(1, {}));
  send(harness.header_to(true, PacketType::kResponse, 0), "");
  EXPECT_EQ(drops(DropReason::kUnexpectedResponse), 2);
  expect_unharmed();
}

TEST(HostileToNewServer, AnyTypeAsTheFirstPacket) {
  for (uint8_t type = 1; type <= kPacketTypeMax; ++type) {
    for (const std::string& payload : {std::string(), set_of(0, {1}), std::string(100, 'x')}) {
      Harness harness;
      PacketHeader header = harness.header_to(true, static_cast<PacketType>(type), 0);
      header.message_bytes = static_cast<uint32_t>(payload.size());
      harness.inject(true, header, payload);
      harness.server.requests.clear();
      harness.run(kMillisecond);
      harness.expect_rest();
    }
  }
}

// --- Against the caller ----------------------------------------------------------------------------------------------

/// A client with one call in flight in slot 0 whose packets are on their way to nowhere.
class HostileToClient : public ::testing::Test {
 protected:
  void start(size_t request_bytes) {
    call = &harness.client.call(pattern(1, request_bytes), 60 * kSecond);
    harness.transmit();
    flights = harness.take_wire();
  }
  void send(PacketHeader header, std::string_view payload = {}) { harness.inject(false, header, payload); }
  [[nodiscard]] PacketHeader response(uint32_t req_num, uint32_t bytes, uint16_t index = 0) const {
    PacketHeader header = harness.header_to(false, PacketType::kResponse, req_num);
    header.message_bytes = bytes;
    header.packet_index = index;
    return header;
  }
  [[nodiscard]] PacketHeader ack() const { return harness.header_to(false, PacketType::kAck, 0); }
  int drops(DropReason reason) { return harness.client.drops[reason]; }
  void expect_unharmed(size_t response_bytes) {
    EXPECT_FALSE(call->done());
    harness.serve(response_bytes);
    ASSERT_TRUE(harness.run_until([&] { return call->done(); }));
    EXPECT_EQ(call->response(), harness.expected_response(*call, response_bytes));
    harness.run(kSecond);
    EXPECT_EQ(harness.runs[call->request], 1);
    harness.expect_rest();
  }

  Harness harness;
  TestCall* call = nullptr;
  std::vector<Flight> flights;
};

TEST_F(HostileToClient, Ack_ForPiecesNeverSent) {
  start(2000);  // 20 pieces, 8 credits
  ASSERT_EQ(flights.size(), 8u);
  send(ack(), set_of(9, {}));
  send(ack(), set_of(20, {}));
  send(ack(), set_of(UINT16_MAX, {}));
  send(ack(), set_of(0, {1u << 8}));
  send(ack(), set_of(5, {0b1001}));
  send(ack(), set_of(0, {0, 0, 0, 1}));
  EXPECT_EQ(drops(DropReason::kBadLength), 6);
  EXPECT_EQ(harness.client.session->credits_missing(), 8u);
  expect_unharmed(10);
}

TEST_F(HostileToClient, Ack_Malformed) {
  start(2000);
  const std::string whole = set_of(0, {1});
  for (size_t size = 0; size < whole.size(); ++size) send(ack(), std::string_view(whole).substr(0, size));
  send(ack(), whole + "x");
  EXPECT_EQ(drops(DropReason::kBadLength), static_cast<int>(whole.size()) + 1);
  expect_unharmed(10);
}

TEST_F(HostileToClient, Ack_OfAnotherNumberOrBeforeAnythingWasSent) {
  harness.client.room = 0;
  call = &harness.client.call("x", 60 * kSecond);
  send(ack(), set_of(1, {}));  // not even sent
  EXPECT_EQ(drops(DropReason::kUnexpectedResponse), 1);
  harness.client.room = SIZE_MAX;
  harness.transmit();
  PacketHeader other = ack();
  other.req_num = 4;
  send(other, set_of(1, {}));
  other.req_num = 1;
  send(other, set_of(1, {}));
  EXPECT_EQ(drops(DropReason::kUnexpectedResponse), 3);
  expect_unharmed(10);
}

TEST_F(HostileToClient, Ack_RepeatedGivesNoCreditTwice) {
  start(2000);
  for (int i = 0; i < 100; ++i) {
    send(ack(), set_of(3, {}));
    EXPECT_EQ(harness.client.session->credits_missing(), 5u);
  }
  harness.transmit();
  EXPECT_EQ(harness.client.session->credits_missing(), 8u);
  // The first three never arrived: the server gives the request up.
  harness.run(61 * kSecond);
  EXPECT_EQ(call->code(), absl::StatusCode::kUnavailable);
  harness.expect_rest();
}

TEST_F(HostileToClient, Response_WrongLengths) {
  start(10);
  send(response(0, 50), std::string(49, 'x'));
  send(response(0, 50), std::string(51, 'x'));
  send(response(0, 0), "x");
  send(response(0, 150, 0), std::string(50, 'x'));
  send(response(0, 150, 2), std::string(50, 'x'));
  send(response(0, 50, 1), "");
  EXPECT_EQ(drops(DropReason::kBadLength), 6);
  send(response(0, 100'001), std::string(100, 'x'));
  send(response(0, UINT32_MAX, UINT16_MAX), std::string(100, 'x'));
  EXPECT_EQ(drops(DropReason::kTooLarge), 2);
  expect_unharmed(10);
}

TEST_F(HostileToClient, Response_ToNobody) {
  start(10);
  send(response(4, 1), "x");
  send(response(static_cast<uint32_t>(-4), 1), "x");
  send(response(1, 1), "x");
  EXPECT_EQ(drops(DropReason::kUnexpectedResponse), 3);
  expect_unharmed(10);
  send(response(0, 1), "x");  // of a call that has ended
  EXPECT_EQ(drops(DropReason::kUnexpectedResponse), 4);
}

TEST_F(HostileToClient, Response_PiecesThatWereNotPulled) {
  start(10);
  send(response(0, 2000, 7), std::string(100, '7'));  // before the first
  EXPECT_EQ(drops(DropReason::kUnexpectedResponse), 1);
  send(response(0, 2000, 0), std::string(100, '0'));
  send(response(0, 2000, 19), std::string(100, '9'));
  EXPECT_EQ(drops(DropReason::kUnexpectedResponse), 2);
  EXPECT_FALSE(call->done());
}

TEST_F(HostileToClient, Response_ChangesItsSizeHalfway) {
  start(10);
  send(response(0, 2000, 0), std::string(100, '0'));
  send(response(0, 1900, 0), std::string(100, '0'));
  send(response(0, 50, 0), std::string(50, '0'));
  EXPECT_EQ(drops(DropReason::kBadLength), 2);
  EXPECT_FALSE(call->done());
}

TEST_F(HostileToClient, Response_BeforeTheRequestWasSentWhole) {
  start(2000);
  // Only part of the request has left. Whoever answers that need not see the rest.
  send(response(0, 5), "early");
  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->response(), "early");
  harness.run(kSecond);
  harness.expect_rest();
}

TEST_F(HostileToClient, Response_LargeBeforeTheRequestWasSentWhole) {
  start(2000);
  send(response(0, 250, 0), std::string(100, 'a'));
  harness.transmit();
  send(response(0, 250, 1), std::string(100, 'b'));
  send(response(0, 250, 2), std::string(50, 'c'));
  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->response().size(), 250u);
  harness.run(kSecond);
  harness.expect_rest();
}

TEST_F(HostileToClient, Response_TextOfAnErrorIsCut) {
  start(10);
  PacketHeader header = response(0, 5000, 0);
  header.method = static_cast<uint16_t>(absl::StatusCode::kInternal);
  for (uint16_t i = 0; i < 50; ++i) {
    header.packet_index = i;
    send(header, std::string(100, 'e'));
    harness.transmit();
  }
  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->code(), absl::StatusCode::kInternal);
  EXPECT_EQ(call->outcome.status.message().size(), 1024u);
}

TEST_F(HostileToClient, Stamp_FromNowhereDoesNotStopProbes) {
  start(10);
  PacketHeader header = ack();
  for (const Ticks stamp : {0u, UINT32_MAX, to_ticks(harness.now) + 1, to_ticks(harness.now) - 0x7fffffff}) {
    header.stamp = stamp;
    send(header, set_of(0, {}));
  }
  const size_t packets = harness.sent.size();
  harness.fate = [](const Flight&) { return Harness::Fate{}; };
  harness.run(5 * kSecond);
  EXPECT_GE(harness.sent.size(), packets + 5);
}

// --- Storms ----------------------------------------------------------------------------------------------------------

// Anything with the right session and generation, at both sides, while honest calls go on. Their
// content may be lies then, but every call ends, and everything is given back.
TEST(HostileStorm, RandomPackets) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Harness harness;
    harness.server.handler = [&](ArrivedRequest&& request) {
      if (rng.chance(0.2)) {
        harness.server.requests.push_back(std::move(request));
      } else {
        harness.server.respond(request, pattern(1, rng.below(1000)));
      }
    };
    harness.client.handler = harness.server.handler;
    const auto lie = [&] {
      const bool to_server = rng.chance(0.5);
      PacketHeader header = harness.header_to(to_server, static_cast<PacketType>(rng.between(1, kPacketTypeMax)),
                                              static_cast<uint32_t>(rng.below(30)));
      if (!harness.sent.empty() && rng.chance(0.5)) header.req_num = harness.sent.back().header.req_num;
      header.flags = static_cast<uint8_t>(rng.below(4));
      header.method = static_cast<uint16_t>(rng.below(20));
      header.message_bytes = static_cast<uint32_t>(rng.chance(0.1) ? rng.next() : rng.below(1000));
      header.packet_index = static_cast<uint16_t>(rng.below(12));
      header.stamp = static_cast<Ticks>(rng.next());
      size_t size = rng.below(110);
      if (rng.chance(0.7)) size = std::min<size_t>(100, header.message_bytes);
      std::string payload = pattern(seed, size);
      if (header.type == PacketType::kAck || header.type == PacketType::kPull) {
        PacketSet set;
        set.base = static_cast<uint16_t>(rng.below(12));
        set.word_count = static_cast<uint16_t>(rng.below(3));
        for (size_t i = 0; i < set.word_count; ++i) set.words[i] = rng.next() & rng.next() & 0xffff;
        payload = encoded(set);
      }
      harness.inject(to_server, header, payload);
    };
    for (int i = 0; i < 300; ++i) {
      if (rng.chance(0.3) && harness.client.session->outstanding_calls() < 20) {
        harness.client.call(pattern(1, rng.below(1000)), 50 * kMillisecond);
      }
      lie();
      if (rng.chance(0.5)) harness.run(static_cast<DurationNs>(rng.below(50'000)));
      ASSERT_LE(harness.client.session->credits_missing(), 8u);
      ASSERT_LE(harness.server.session->credits_missing(), 8u);
    }
    harness.run(200 * kMillisecond);
    harness.server.requests.clear();
    for (const TestCall& call : harness.client.calls) ASSERT_EQ(call.completions, 1);
    harness.expect_rest();
  }
}

}  // namespace
}  // namespace skua::rpc
