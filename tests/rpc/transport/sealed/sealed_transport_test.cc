#include "rpc/transport/sealed/sealed_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/transport/sealed/channel_records.h"
#include "rpc/wire/handshake.h"
#include "tests/rpc/transport/sealed/sealed_fixture.h"

namespace skua::rpc {
namespace {

using ::testing::HasSubstr;

class SealedConnectionsTest : public SealedTransportTest {
 protected:
  SealedConnectionsTest() : SealedTransportTest({.connected = true}) {}
};

TEST_F(SealedTransportTest, NothingReadableIsOnTheWire) {
  size_t seen = 0;
  network_.set_watch([&](uint32_t, uint32_t, std::vector<std::byte>& packet) {
    ++seen;
    EXPECT_EQ(static_cast<uint8_t>(packet[0]) >> 4, kSealedVersion);
    EXPECT_EQ(as_string_view(packet).find("plain words"), std::string_view::npos);
  });
  const SessionId session = open(*caller_).value();
  EXPECT_EQ(call(session, "plain words"), "plain words");
  const std::string large(100'000, 'l');
  EXPECT_EQ(call(session, large), large);
  EXPECT_GT(seen, 100u);
}

TEST_F(SealedTransportTest, MessagesOfAllSizesArrive) {
  const SessionId session = open(*caller_).value();
  const size_t payload = caller_->transport->capabilities().payload_max_bytes;
  for (const size_t size : {size_t{0}, size_t{1}, payload - 1, payload, payload + 1, 16 * payload, 64 * payload + 1}) {
    const std::string text(size, 't');
    EXPECT_TRUE(call(session, text) == text) << size;
  }
}

TEST_F(SealedTransportTest, SessionsOfOnePrincipalShareAChannel) {
  const SessionId one = open(*caller_).value();
  const SessionId other = open(*caller_).value();
  EXPECT_EQ(call(one, "1"), "1");
  EXPECT_EQ(call(open(*caller_).value(), "3"), "3") << "the secret was forgotten, the channel was not";
  EXPECT_EQ(call(other, "2"), "2");
  EXPECT_EQ(server_->seals->channel_count(), 1u);
}

TEST_F(SealedTransportTest, AnotherPrincipalGetsNoneOfTheChannel) {
  const SessionId session = open(*caller_, "client/a").value();
  EXPECT_EQ(call(session, "1"), "1");
  // The same process under another name: the acceptor does not join the two.
  const SessionId other = open(*caller_, "client/b").value();
  EXPECT_EQ(call(other, "2"), "2");
  EXPECT_GE(server_->seals->channel_count(), 2u);
}

TEST_F(SealedTransportTest, ARepeatedOfferGetsTheSameAnswer) {
  auto offer = caller_->endpoint->begin_connect(server_->endpoint->local_descriptor()).value();
  const OfferOrigin origin{.source = 1, .principal = "client/a"};
  const std::string answer = server_->endpoint->accept_offer(as_byte_span(offer.bytes), origin);
  EXPECT_EQ(server_->endpoint->accept_offer(as_byte_span(offer.bytes), origin), answer);
  EXPECT_TRUE(caller_->endpoint->finish_connect(offer.session, as_byte_span(answer)).ok());
  EXPECT_EQ(call(offer.session, "x"), "x");
}

TEST_F(SealedTransportTest, SealedAndUnsealedEndsSayWhyTheyDoNotMeet) {
  Host plain(network_, 3, std::nullopt);
  EXPECT_THAT(std::string(open(plain).status().message()), HasSubstr("this node seals its packets, the peer does not"));
  server_ = std::make_unique<Host>(network_, 4, std::nullopt);
  EXPECT_THAT(std::string(open(*caller_).status().message()),
              HasSubstr("the peer seals its packets, this node does not"));
}

TEST_F(SealedTransportTest, SessionsAreNotOpenedByPackets) {
  EXPECT_EQ(caller_->endpoint->connect(server_->endpoint->local_descriptor()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // Nor by the packets of an endpoint that does not ask.
  Host plain(network_, 3, std::nullopt);
  ASSERT_TRUE(plain.endpoint->connect(server_->endpoint->local_descriptor()).ok());
  for (int i = 0; i < 1'000; ++i) {
    plain.endpoint->poll();
    turn();
  }
  EXPECT_EQ(server_->endpoint->session_count(), 0u);
  EXPECT_GT(server_->seals->sealed_counters().unsealed, 0u);
}

TEST_F(SealedTransportTest, TheStrongerModeIsTaken) {
  caller_.reset();
  caller_ = std::make_unique<Host>(network_, 3, SealedOptions{.mode = SealMode::kAuthenticate});
  bool was_readable = false;
  network_.set_watch([&](uint32_t, uint32_t, std::vector<std::byte>& packet) {
    was_readable = was_readable || as_string_view(packet).find("plain words") != std::string_view::npos;
  });
  EXPECT_EQ(call(open(*caller_).value(), "plain words"), "plain words");
  EXPECT_FALSE(was_readable);
}

/// A stranger on the path: each packet is followed by others that he made of it. The calls go on, each is served once,
/// and nothing of his is taken.
TEST_F(SealedTransportTest, WhatAStrangerSendsIsNotTaken) {
  const SessionId session = open(*caller_).value();
  ASSERT_EQ(call(session, "warm"), "warm");
  Host stranger(network_, 9, std::nullopt);
  const PeerId to_server = stranger.transport->resolve(server_->transport->local_descriptor()).value();
  std::vector<std::vector<std::byte>> seen;
  network_.set_watch([&](uint32_t from, uint32_t, std::vector<std::byte>& packet) {
    if (from != 9) seen.push_back(packet);
  });
  Rng rng(1);
  const uint64_t served_before = server_->served;
  const SealedCounters before = server_->seals->sealed_counters();
  constexpr int kCalls = 300;
  for (int i = 0; i < kCalls; ++i) {
    seen.clear();
    const std::string text = "call " + std::to_string(i);
    ASSERT_EQ(call(session, text), text);
    for (std::vector<std::byte> packet : std::vector(seen)) {
      if (rng.chance(0.7)) packet[rng.below(packet.size())] ^= static_cast<std::byte>(1 + rng.below(255));
      if (rng.chance(0.2)) packet.resize(kPacketHeaderBytes + rng.below(packet.size() - kPacketHeaderBytes + 1));
      TxFrame frame = stranger.transport->take_frame(to_server);
      ASSERT_NE(frame.bytes, nullptr);
      copy_bytes(frame.bytes, packet);
      frame.size = static_cast<uint32_t>(packet.size());
      stranger.transport->send_frames(std::span(&frame, 1));
    }
  }
  EXPECT_EQ(server_->served - served_before, static_cast<uint64_t>(kCalls));
  const SealedCounters& after = server_->seals->sealed_counters();
  EXPECT_GT(after.refused() - before.refused(), static_cast<uint64_t>(kCalls));
  EXPECT_GT(after.replayed, before.replayed);
  EXPECT_GT(after.forged, before.forged);
}

TEST_F(SealedTransportTest, AChannelThatNobodyUsesEnds) {
  const SessionId session = open(*caller_).value();
  EXPECT_EQ(call(session, "x"), "x");
  caller_->endpoint->close(session);
  EXPECT_TRUE(run_until([&] { return server_->seals->channel_count() + caller_->seals->channel_count() == 0; }));
  EXPECT_EQ(call(open(*caller_).value(), "y"), "y");
}

TEST_F(SealedTransportTest, ARestartedServerIsReachedAgain) {
  const SessionId session = open(*caller_).value();
  EXPECT_EQ(call(session, "x"), "x");
  server_.reset();
  server_ = std::make_unique<Host>(network_, kServer, options(), wire_);
  EXPECT_THAT(call(session, "lost"), HasSubstr("UNAVAILABLE"));
  EXPECT_EQ(call(open(*caller_).value(), "y"), "y");
}

TEST_F(SealedTransportTest, ChannelsAreBounded) {
  server_.reset();
  server_ = std::make_unique<Host>(network_, 4, SealedOptions{.channels_max = 4});
  const SessionId session = open(*caller_).value();
  for (int i = 0; i < 20; ++i) static_cast<void>(open(*caller_, "client/" + std::to_string(i)));
  EXPECT_LE(server_->seals->channel_count(), 4u);
  static_cast<void>(session);
}

TEST_F(SealedTransportTest, TheSecretIsForgottenWhenTheOpenerHasUsedIt) {
  const SessionId session = open(*caller_).value();
  EXPECT_TRUE(would_tell_secret("client/a"));
  EXPECT_EQ(call(session, "x"), "x");
  EXPECT_FALSE(would_tell_secret("client/a"));
}

/// Offers of channels as somebody sends who makes up new ones all the time.
class ChannelFlood {
 public:
  ChannelFlood(SealedTransport& at, const Descriptor& opener) : at_(at), opener_(opener) {}

  absl::Status offer(const std::string& principal, bool is_node = false) {
    ChannelOffer made;
    store_le(made.nonce.data(), ++number_);
    const std::string bytes = made.encode();
    return at_.accept(as_byte_span(bytes), opener_, {.source = 1, .principal = principal, .is_node = is_node}).status();
  }

 private:
  SealedTransport& at_;
  const Descriptor opener_;
  uint64_t number_ = 0;
};

TEST_F(SealedTransportTest, OnePrincipalCannotTakeAllChannels) {
  server_ = std::make_unique<Host>(network_, 4, SealedOptions{.channels_max = 160});
  ChannelFlood flood(*server_->seals, caller_->transport->local_descriptor());
  for (int i = 0; i < 80; ++i) ASSERT_TRUE(flood.offer("client/a").ok()) << i;
  const absl::Status refused = flood.offer("client/a");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("client/a has 80 channels of this endpoint"));
  EXPECT_EQ(call(open(*caller_, "client/b").value(), "x"), "x");
  // Many principals together: a quarter is left for nodes.
  for (int i = 0; i < 200; ++i) static_cast<void>(flood.offer("client/" + std::to_string(i)));
  EXPECT_EQ(server_->seals->channel_count(), 120u);
  EXPECT_TRUE(flood.offer("node/1", true).ok());
}

TEST_F(SealedTransportTest, AFloodPushesNobodyOut) {
  server_ = std::make_unique<Host>(network_, 4, SealedOptions{.channels_max = 160});
  const SessionId used = open(*caller_, "client/b").value();
  EXPECT_EQ(call(used, "x"), "x");
  ChannelFlood flood(*server_->seals, caller_->transport->local_descriptor());
  const TimeNs start = network_.now_ns();
  TimeNs next = start;
  uint64_t taken = 0;
  ASSERT_TRUE(run_until([&] {
    if (network_.now_ns() < next) return false;
    next = network_.now_ns() + 100 * kMillisecond;
    for (int i = 0; i < 200; ++i) taken += flood.offer("client/" + std::to_string(i % 20)).ok() ? 1 : 0;
    EXPECT_LE(server_->seals->channel_count(), 120u);
    return network_.now_ns() - start > 50 * kSecond;
  }));
  EXPECT_GT(taken, 200u) << "those that nobody used made room for others";
  EXPECT_EQ(call(used, "y"), "y");
}

TEST_F(SealedTransportTest, AnOfferThatIsUnderWayKeepsItsChannel) {
  server_ = std::make_unique<Host>(network_, 4, SealedOptions{.channels_max = 4});
  auto offer = caller_->endpoint->begin_connect(server_->endpoint->local_descriptor()).value();
  const std::string answer =
      server_->endpoint->accept_offer(as_byte_span(offer.bytes), {.source = 1, .principal = "client/a"});
  ChannelFlood flood(*server_->seals, caller_->transport->local_descriptor());
  for (int i = 0; i < 20; ++i) static_cast<void>(flood.offer("client/" + std::to_string(i)));
  EXPECT_TRUE(absl::IsResourceExhausted(flood.offer("client/a")));
  ASSERT_TRUE(caller_->endpoint->finish_connect(offer.session, as_byte_span(answer)).ok());
  EXPECT_EQ(call(offer.session, "x"), "x");
}

TEST_F(SealedTransportTest, AFloodEndsNoIdleChannelOfOthers) {
  server_ = std::make_unique<Host>(network_, 4, SealedOptions{.channels_max = 160});
  const SessionId session = open(*caller_, "client/b").value();
  EXPECT_EQ(call(session, "x"), "x");
  caller_->endpoint->close(session);
  const TimeNs start = network_.now_ns();
  ASSERT_TRUE(run_until([&] { return network_.now_ns() - start > 3 * kSecond; }));
  ChannelFlood flood(*server_->seals, caller_->transport->local_descriptor());
  for (int i = 0; i < 400; ++i) static_cast<void>(flood.offer("client/" + std::to_string(i % 20)));
  EXPECT_FALSE(would_tell_secret("client/b"));
}

TEST_F(SealedTransportTest, AnOfferThatComesAgainWaitsAnew) {
  server_ = std::make_unique<Host>(network_, 4, SealedOptions{.channels_max = 4});
  ChannelFlood flood(*server_->seals, caller_->transport->local_descriptor());
  EXPECT_TRUE(would_tell_secret("client/a"));
  EXPECT_TRUE(flood.offer("client/1").ok());
  EXPECT_TRUE(flood.offer("client/2").ok());
  network_.advance_to(network_.now_ns() + 20 * kSecond);
  EXPECT_TRUE(would_tell_secret("client/a"));
  network_.advance_to(network_.now_ns() + 6 * kSecond);
  EXPECT_TRUE(flood.offer("client/3").ok());
  EXPECT_TRUE(flood.offer("client/4").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(flood.offer("client/5")));
}

/// No session is bound to the channel before its opener has connected again.
TEST_F(SealedConnectionsTest, ASessionThatWaitsForAConnectionKeepsItsChannel) {
  server_ = std::make_unique<Host>(network_, 4, SealedOptions{.channels_max = 4}, wire_);
  const SessionId session = open(*caller_, "client/a").value();
  EXPECT_EQ(call(session, "x"), "x");
  network_.break_connections();
  for (int i = 0; i < 3; ++i) {
    server_->endpoint->poll();
    network_.advance_to(network_.now_ns() + kSecond);
  }
  ChannelFlood flood(*server_->seals, caller_->transport->local_descriptor());
  for (int i = 0; i < 20; ++i) static_cast<void>(flood.offer("client/a"));
  EXPECT_EQ(call(session, "y"), "y");
}

TEST_F(SealedConnectionsTest, CallsSurviveBrokenConnections) {
  const SessionId session = open(*caller_).value();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(call(session, std::to_string(i)), std::to_string(i));
    network_.break_connections();
  }
}

TEST_F(SealedConnectionsTest, ADamagedFrameBreaksTheConnectionAndIsRepeated) {
  const SessionId session = open(*caller_).value();
  ASSERT_EQ(call(session, "warm"), "warm");
  bool damage = true;
  network_.set_watch([&](uint32_t, uint32_t to, std::vector<std::byte>& packet) {
    if (to == kServer && std::exchange(damage, false)) packet.back() ^= std::byte{1};
  });
  EXPECT_EQ(call(session, "x"), "x");
  EXPECT_FALSE(damage);
  EXPECT_EQ(server_->seals->sealed_counters().forged, 1u);
}

}  // namespace
}  // namespace skua::rpc
