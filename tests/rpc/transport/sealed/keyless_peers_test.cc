// Peers without keys beside peers with keys, while a cluster turns protection on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rpc/transport/sealed/sealed_transport.h"
#include "rpc/wire/handshake.h"
#include "rpc/wire/packet_header.h"
#include "tests/rpc/transport/sealed/sealed_fixture.h"

namespace skua::rpc {
namespace {

using ::testing::HasSubstr;

SealedOptions admitting() {
  SealedOptions options;
  options.admits_keyless = true;
  return options;
}

/// kBareDatagrams may be damaged on the way. All others detect that themselves.
enum class Wire : uint8_t { kDatagrams, kBareDatagrams, kConnections };

class KeylessPeersTest : public SealedTransportTest, public ::testing::WithParamInterface<Wire> {
 protected:
  KeylessPeersTest()
      : SealedTransportTest(
            {.connected = GetParam() == Wire::kConnections, .integrity = GetParam() != Wire::kBareDatagrams}) {
    serve_with(admitting());
    caller_ = std::make_unique<Host>(network_, 5, admitting(), wire_);
  }

  void serve_with(std::optional<SealedOptions> options) {
    server_.reset();
    server_ = std::make_unique<Host>(network_, next_address_++, std::move(options), wire_);
  }
  void call_from(std::optional<SealedOptions> options) {
    caller_.reset();
    caller_ = std::make_unique<Host>(network_, next_address_++, std::move(options), wire_);
  }
  /// The answer to a call of this host, which stands where caller_ does meanwhile.
  std::string call_of(std::unique_ptr<Host>& host, SessionId session, const std::string& text) {
    std::swap(caller_, host);
    std::string answer = call(session, text);
    std::swap(caller_, host);
    return answer;
  }
  /// Small ones, and such that take many packets.
  void expect_calls_work(SessionId session) {
    for (const size_t bytes : {0u, 10u, 5'000u, 100'000u}) {
      const std::string text(bytes, 'k');
      EXPECT_TRUE(call(session, text) == text) << bytes;
    }
  }
  [[nodiscard]] bool was_sealed() const { return server_->seals->sealed_counters().opened > 0; }
  [[nodiscard]] bool was_keyless() const { return server_->seals->sealed_counters().keyless > 0; }

 private:
  uint32_t next_address_ = 20;
};

TEST_P(KeylessPeersTest, ACallerWithoutKeysIsServed) {
  call_from(std::nullopt);
  const auto session = open(*caller_);
  ASSERT_TRUE(session.ok()) << session.status();
  expect_calls_work(*session);
  EXPECT_TRUE(was_keyless());
  EXPECT_FALSE(was_sealed());
}

TEST_P(KeylessPeersTest, AServerWithoutKeysIsCalled) {
  serve_with(std::nullopt);
  const auto session = open(*caller_);
  ASSERT_TRUE(session.ok()) << session.status();
  expect_calls_work(*session);
  const auto second = open(*caller_);
  ASSERT_TRUE(second.ok()) << second.status();
  expect_calls_work(*second);
  EXPECT_GT(caller_->seals->sealed_counters().keyless, 0u);
}

TEST_P(KeylessPeersTest, WhoHasKeysUsesThem) {
  const auto session = open(*caller_);
  ASSERT_TRUE(session.ok()) << session.status();
  expect_calls_work(*session);
  EXPECT_TRUE(was_sealed());
  EXPECT_FALSE(was_keyless());
}

/// The carrier of their offers is not known to be secret.
TEST_P(KeylessPeersTest, WhoProvedNoNameIsGivenNoSecret) {
  const auto offer = caller_->endpoint->begin_connect(server_->endpoint->local_descriptor()).value();
  const std::string answer = server_->endpoint->accept_offer(as_byte_span(offer.bytes), {.source = 1, .principal = ""});
  EXPECT_FALSE(KeyedRecord::read(as_byte_span(answer)).has_channel);
  ASSERT_TRUE(caller_->endpoint->finish_connect(offer.session, as_byte_span(answer)).ok());
  expect_calls_work(offer.session);
  EXPECT_FALSE(was_sealed());
}

TEST_P(KeylessPeersTest, WhoProvedNoNameAndWantsKeysIsRefused) {
  call_from(SealedOptions{});
  EXPECT_THAT(std::string(open(*caller_, "").status().message()),
              HasSubstr("keys are for those who show a certificate"));
}

/// Their channels are limited by themselves, and packets alone push nobody out.
TEST_P(KeylessPeersTest, KeylessPeersHaveTheirOwnShare) {
  SealedOptions few = admitting();
  few.channels_max = 8;  // of which two are reserved
  serve_with(few);
  constexpr size_t kPlaces = 6;
  std::vector<std::unique_ptr<Host>> callers;
  std::vector<SessionId> sessions;
  for (uint32_t i = 0; i < kPlaces; ++i) {
    callers.push_back(std::make_unique<Host>(network_, 100 + i, std::nullopt, wire_));
    sessions.push_back(open(*callers.back()).value());
    EXPECT_EQ(call_of(callers[i], sessions[i], "first"), "first");
  }
  callers.push_back(std::make_unique<Host>(network_, 200, std::nullopt, wire_));
  const auto excess = open(*callers.back());
  EXPECT_NE(call_of(callers[kPlaces], excess.value_or(SessionId{}), "too many"), "too many");
  EXPECT_EQ(call(open(*caller_).value(), "with keys"), "with keys");
  for (uint32_t i = 0; i < kPlaces; ++i) EXPECT_EQ(call_of(callers[i], sessions[i], "still"), "still");
}

/// An offer may name any address. Who makes many of them takes only his own share, also if he answers at all of them.
TEST_P(KeylessPeersTest, ClaimsOfOneOriginKeepNobodyElseOut) {
  if (GetParam() == Wire::kConnections) GTEST_SKIP() << "there a peer is known by its packets";
  SealedOptions few = admitting();
  few.channels_max = 128;
  serve_with(few);
  const OfferOrigin flooder{.source = 77, .principal = ""};
  std::vector<std::unique_ptr<Host>> claimed;
  std::vector<SessionAnswer> answers;
  for (uint32_t i = 0; i < few.channels_max; ++i) {
    claimed.push_back(std::make_unique<Host>(network_, 1000 + i, std::nullopt, wire_));
    Endpoint& endpoint = *claimed.back()->endpoint;
    const auto offer = endpoint.begin_connect(server_->endpoint->local_descriptor()).value();
    const std::string answer = server_->endpoint->accept_offer(as_byte_span(offer.bytes), flooder);
    answers.push_back(SessionAnswer::decode(as_byte_span(answer)).value());
    if (i % 2 == 0 && endpoint.finish_connect(offer.session, as_byte_span(answer)).ok()) {
      EXPECT_EQ(call_of(claimed.back(), offer.session, "proof"), "proof");
    }
  }
  EXPECT_EQ(answers.front().code, absl::StatusCode::kOk);
  EXPECT_EQ(answers.back().code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(answers.back().text, HasSubstr("has 64 channels without keys"));
  call_from(std::nullopt);
  const auto session = open(*caller_);
  ASSERT_TRUE(session.ok()) << session.status();
  expect_calls_work(*session);
}

TEST_P(KeylessPeersTest, ARepeatedOfferGetsTheSameAnswer) {
  call_from(std::nullopt);
  const auto offer = caller_->endpoint->begin_connect(server_->endpoint->local_descriptor()).value();
  const OfferOrigin origin{.source = 1, .principal = ""};
  const std::string answer = server_->endpoint->accept_offer(as_byte_span(offer.bytes), origin);
  EXPECT_EQ(server_->endpoint->accept_offer(as_byte_span(offer.bytes), origin), answer);
  ASSERT_TRUE(caller_->endpoint->finish_connect(offer.session, as_byte_span(answer)).ok());
  expect_calls_work(offer.session);
}

TEST_P(KeylessPeersTest, BothKindsAreServedAtOnce) {
  const SessionId sealed = open(*caller_).value();
  ASSERT_EQ(call(sealed, "1"), "1");
  const std::unique_ptr<Host> with_keys = std::move(caller_);
  call_from(std::nullopt);
  const SessionId keyless = open(*caller_).value();
  expect_calls_work(keyless);
  const std::unique_ptr<Host> without = std::move(caller_);
  caller_ = std::make_unique<Host>(network_, 6, admitting(), wire_);
  expect_calls_work(open(*caller_).value());
  EXPECT_TRUE(was_sealed() && was_keyless());
}

TEST_P(KeylessPeersTest, WhoAdmitsNoneRefusesThemInEitherDirection) {
  serve_with(SealedOptions{});
  call_from(std::nullopt);
  EXPECT_THAT(std::string(open(*caller_).status().message()), HasSubstr("this node seals its packets"));
  serve_with(std::nullopt);
  call_from(SealedOptions{});
  EXPECT_THAT(std::string(open(*caller_).status().message()), HasSubstr("the peer seals its packets"));
  // An answer without keys, to an offer that asked for them.
  serve_with(admitting());
  const auto offer = caller_->endpoint->begin_connect(server_->endpoint->local_descriptor()).value();
  const KeyedRecord asked = KeyedRecord::read(as_byte_span(offer.bytes));
  const std::string answer = server_->endpoint->accept_offer(asked.session, {.source = 1, .principal = ""});
  EXPECT_THAT(std::string(caller_->endpoint->finish_connect(offer.session, as_byte_span(answer)).message()),
              HasSubstr("the peer does not seal its packets"));
}

TEST_P(KeylessPeersTest, WithOneThatAdmitsNone_WhoHasKeysIsSealed) {
  serve_with(SealedOptions{});
  const auto session = open(*caller_);
  ASSERT_TRUE(session.ok()) << session.status();
  expect_calls_work(*session);
  EXPECT_TRUE(was_sealed());
  EXPECT_FALSE(was_keyless());
}

TEST_P(KeylessPeersTest, SessionsSurviveBrokenConnections) {
  if (GetParam() != Wire::kConnections) GTEST_SKIP() << "there are no connections";
  call_from(std::nullopt);
  const SessionId session = open(*caller_).value();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(call(session, std::to_string(i)), std::to_string(i));
    network_.break_connections();
  }
}

TEST_P(KeylessPeersTest, AChannelThatNobodyUsesEnds) {
  call_from(std::nullopt);
  const SessionId session = open(*caller_).value();
  ASSERT_EQ(call(session, "x"), "x");
  EXPECT_EQ(server_->seals->channel_count(), 1u);
  caller_->endpoint->close(session);
  EXPECT_TRUE(run_until([&] { return server_->seals->channel_count() == 0; }));
  EXPECT_EQ(call(open(*caller_).value(), "y"), "y");
}

/// A stranger who knows all numbers of a session that has keys says them in packets without a seal.
TEST_P(KeylessPeersTest, AnUnsealedPacketIsNotTakenForASessionWithKeys) {
  const auto offer = caller_->endpoint->begin_connect(server_->endpoint->local_descriptor()).value();
  const std::string answer =
      server_->endpoint->accept_offer(as_byte_span(offer.bytes), {.source = 1, .principal = "client/a"});
  const SessionAnswer numbers = SessionAnswer::decode(KeyedRecord::read(as_byte_span(answer)).session).value();
  ASSERT_TRUE(caller_->endpoint->finish_connect(offer.session, as_byte_span(answer)).ok());
  // The stranger has a session of his own, so his packets are taken.
  Host stranger(network_, 9, std::nullopt, wire_);
  ASSERT_TRUE(open(stranger).ok());
  const PeerId to_server = stranger.transport->resolve(server_->transport->local_descriptor()).value();
  const auto speaks = [&] {
    PacketHeader header;
    header.type = PacketType::kDisconnect;
    header.session_index = numbers.session_index;
    header.session_generation = numbers.session_generation;
    TxFrame frame = stranger.transport->take_frame(to_server);
    if (frame.bytes != nullptr) {
      encode_sealed_header(header, nullptr, 0, frame.bytes);
      frame.size = kPacketHeaderBytes;
      stranger.transport->send_frames(std::span(&frame, 1));
    }
    stranger.endpoint->poll();
    turn();
    return server_->seals->sealed_counters().keyless > 20;
  };
  // Before the session is bound to its peer, and after.
  ASSERT_TRUE(run_until(speaks));
  EXPECT_EQ(call(offer.session, "1"), "1");
  const uint64_t before = server_->seals->sealed_counters().keyless;
  ASSERT_TRUE(run_until([&] { return speaks() && server_->seals->sealed_counters().keyless > before + 20; }));
  EXPECT_EQ(call(offer.session, "2"), "2");
  EXPECT_EQ(server_->served, 2u);
}

/// Packets are damaged on the way: each is repeated until it arrives as it was sent.
TEST_P(KeylessPeersTest, DamageIsDetectedAsWithoutSeals) {
  if (GetParam() != Wire::kBareDatagrams) GTEST_SKIP() << "the wire detects damage itself";
  call_from(std::nullopt);
  const SessionId of_plain_caller = open(*caller_).value();
  network_.set_faults({.corrupt = 0.2});
  for (int i = 0; i < 20; ++i) expect_calls_work(of_plain_caller);
  EXPECT_GT(network_.fates().corrupted, 100u);
  EXPECT_GT(server_->seals->sealed_counters().unsealed, 0u);
  serve_with(std::nullopt);
  call_from(admitting());
  const SessionId of_plain_server = open(*caller_).value();
  for (int i = 0; i < 20; ++i) expect_calls_work(of_plain_server);
  EXPECT_GT(caller_->seals->sealed_counters().unsealed, 0u);
}

const char* name_of(Wire wire) {
  if (wire == Wire::kConnections) return "Connections";
  return wire == Wire::kDatagrams ? "Datagrams" : "BareDatagrams";
}

INSTANTIATE_TEST_SUITE_P(Wires, KeylessPeersTest,
                         ::testing::Values(Wire::kDatagrams, Wire::kBareDatagrams, Wire::kConnections),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace skua::rpc
