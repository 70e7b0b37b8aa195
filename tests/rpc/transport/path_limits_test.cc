// Sessions over a transport that knows paths narrower than its devices: their terms when they are made, and what
// becomes of them when a path is found out.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/wire/handshake.h"

namespace skua::rpc {
namespace {

constexpr MethodId kEcho = 1;
constexpr uint32_t kDevicePayload = 1024;
constexpr uint32_t kNarrow = 300;

/// A wire that drops what is larger than the path, and says so when it is told to.
class NarrowTransport final : public Transport {
 public:
  explicit NarrowTransport(std::unique_ptr<Transport> wire) : wire_(std::move(wire)) {}

  uint32_t carries = UINT32_MAX;   // the path
  uint32_t believed = UINT32_MAX;  // what payload_max_bytes() says
  uint32_t largest_sent = 0;

  void find_out(PeerId peer) {
    believed = carries;
    LinkEvent event;
    event.peer = peer;
    event.kind = LinkEvent::Kind::kRefused;
    event.why = absl::OutOfRangeError("the path is narrow");
    events_.push_back(event);
  }

  [[nodiscard]] uint32_t payload_max_bytes(PeerId /*peer*/) const override { return believed; }
  [[nodiscard]] const Capabilities& capabilities() const override { return wire_->capabilities(); }
  [[nodiscard]] const TransportCounters& counters() const override { return wire_->counters(); }
  [[nodiscard]] Descriptor local_descriptor() const override { return wire_->local_descriptor(); }
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override { return wire_->resolve(peer); }
  size_t tx_burst(std::span<TxPacket> packets) override {
    for (size_t i = 0; i < packets.size(); ++i) {
      largest_sent = std::max(largest_sent, packets[i].payload_bytes);
      if (packets[i].payload_bytes > carries) {
        packets[i].done = true;
      } else if (wire_->tx_burst(packets.subspan(i, 1)) == 0) {
        return i;
      }
    }
    return packets.size();
  }
  size_t rx_burst(std::span<RxPacket> packets) override { return wire_->rx_burst(packets); }
  void release(std::span<const RxBufferId> buffers) override { wire_->release(buffers); }
  size_t reap(std::span<TxToken> tokens) override { return wire_->reap(tokens); }
  void abandon_tx() override { wire_->abandon_tx(); }
  size_t poll_links(std::span<LinkEvent> events) override {
    if (events_.empty()) return 0;
    events[0] = events_.back();
    events_.pop_back();
    return 1;
  }
  void wait(DurationNs timeout_ns) override { wire_->wait(timeout_ns); }
  void wake() override { wire_->wake(); }

 private:
  std::unique_ptr<Transport> wire_;
  std::vector<LinkEvent> events_;
};

class PathLimitsTest : public testing::Test {
 protected:
  struct Host {
    std::unique_ptr<NarrowTransport> transport;
    std::unique_ptr<Endpoint> endpoint;
  };

  Host make(uint32_t address) {
    EndpointIdentity identity;
    identity.uuid.bytes = {0x9a, static_cast<uint8_t>(address)};
    identity.incarnation = 1;
    SimTransportOptions options;
    options.payload_max_bytes = kDevicePayload;
    Host host;
    host.transport = std::make_unique<NarrowTransport>(network_.attach(address, identity, options));
    host.endpoint = std::make_unique<Endpoint>(*host.transport, network_.clock(), endpoint_options_);
    host.endpoint->serve(kEcho, [endpoint = host.endpoint.get()](IncomingCall&& call) {
      MessagePtr answer = endpoint->make_message();
      answer->append_copy(call.request.bytes());
      call.reply.reply(std::move(answer));
    });
    return host;
  }

  void SetUp() override {
    client_ = make(1);
    server_ = make(2);
    client_.endpoint->on_session_event([this](const SessionEvent& event) { events_.push_back(event.kind); });
  }

  void run_for(DurationNs time) {
    for (const TimeNs end = network_.now_ns() + time; network_.now_ns() < end;) {
      for (Host* host : {&client_, &server_}) host->endpoint->poll();
      const TimeNs next = std::min({network_.next_event_ns(), client_.endpoint->next_timer_ns(),
                                    server_.endpoint->next_timer_ns(), network_.now_ns() + kMillisecond});
      network_.advance_to(std::max(next, network_.now_ns() + kMicrosecond));
    }
  }

  void connect() { session_ = *client_.endpoint->connect(server_.endpoint->local_descriptor()); }

  /// What became of an echo of `bytes`, or nothing within `time`.
  std::shared_ptr<std::optional<absl::Status>> start_echo(size_t bytes) {
    auto out = std::make_shared<std::optional<absl::Status>>();
    const std::string text(bytes, 'x');
    MessagePtr request = client_.endpoint->make_message();
    request->append_copy(as_byte_span(text));
    auto done = [out, text](CallResult&& result) {
      *out = result.status;
      if (!result.status.ok()) return;
      EXPECT_EQ(as_string_view(result.response.bytes()), text);
    };
    EXPECT_TRUE(client_.endpoint->call(session_, kEcho, std::move(request), {}, done).ok());
    return out;
  }
  void expect_echo_works(size_t bytes) {
    const auto outcome = start_echo(bytes);
    run_for(100 * kMillisecond);
    ASSERT_TRUE(outcome->has_value()) << "no answer";
    EXPECT_TRUE((*outcome)->ok()) << **outcome;
  }
  [[nodiscard]] size_t count(SessionEvent::Kind kind) const {
    return static_cast<size_t>(std::count(events_.begin(), events_.end(), kind));
  }

  EndpointOptions endpoint_options_;
  SimNetwork network_{5};
  Host client_;
  Host server_;
  SessionId session_;
  std::vector<SessionEvent::Kind> events_;
};

TEST_F(PathLimitsTest, NothingIsKnownOfPaths_ThePacketsAreTheDevices) {
  SimNetwork network(1);
  EndpointIdentity identity;
  identity.uuid.bytes = {1};
  EXPECT_EQ(network.attach(1, identity, {})->payload_max_bytes(0), SimTransportOptions().payload_max_bytes);
}

TEST_F(PathLimitsTest, KnownPath_SessionsBeginWithPacketsThatFit) {
  client_.transport->carries = client_.transport->believed = kNarrow;
  connect();
  expect_echo_works(10'000);
  EXPECT_LE(client_.transport->largest_sent, kNarrow);
  EXPECT_LE(server_.transport->largest_sent, kNarrow) << "the session's size is both sides'";
}

TEST_F(PathLimitsTest, OnlyTheAcceptingSideKnows_SessionsFitAllTheSame) {
  client_.transport->carries = kNarrow;
  server_.transport->carries = server_.transport->believed = kNarrow;
  connect();
  expect_echo_works(10'000);
  EXPECT_LE(client_.transport->largest_sent, kNarrow);
}

TEST_F(PathLimitsTest, PathFoundOut_SessionIsOpenedAnewWithPacketsThatFit) {
  connect();
  expect_echo_works(100);
  client_.transport->carries = server_.transport->carries = kNarrow;
  const auto lost = start_echo(10'000);
  run_for(50 * kMillisecond);
  EXPECT_FALSE(lost->has_value()) << "repeated in vain";
  client_.transport->find_out(0);
  run_for(50 * kMillisecond);
  ASSERT_TRUE(lost->has_value());
  EXPECT_EQ((*lost)->code(), absl::StatusCode::kUnavailable) << **lost;
  EXPECT_EQ(count(SessionEvent::Kind::kBroken), 1u);
  EXPECT_EQ(count(SessionEvent::Kind::kReconnected), 1u);
  expect_echo_works(10'000);
}

TEST_F(PathLimitsTest, PathFoundOutByTheAcceptingSide_SessionIsOpenedAnew) {
  connect();
  expect_echo_works(100);
  client_.transport->carries = server_.transport->carries = kNarrow;
  server_.transport->find_out(0);
  run_for(10 * kMillisecond);
  const auto lost = start_echo(100);  // the server knows the session no more
  run_for(100 * kMillisecond);
  ASSERT_TRUE(lost->has_value());
  EXPECT_FALSE((*lost)->ok());
  expect_echo_works(10'000);
}

TEST_F(PathLimitsTest, PathAsWideAsTheSession_NothingBreaks) {
  connect();
  expect_echo_works(100);
  client_.transport->carries = kDevicePayload;
  client_.transport->find_out(0);
  expect_echo_works(10'000);
  EXPECT_EQ(count(SessionEvent::Kind::kBroken), 0u);
}

TEST_F(PathLimitsTest, PathFoundOutBetweenOfferAndAnswer_TheAnswerIsRefused) {
  const Endpoint::Offer offer = *client_.endpoint->begin_connect(server_.endpoint->local_descriptor());
  const std::string answer = server_.endpoint->accept_offer(as_byte_span(offer.bytes));
  client_.transport->carries = kNarrow;
  client_.transport->find_out(0);
  EXPECT_EQ(client_.endpoint->finish_connect(offer.session, as_byte_span(answer)).code(),
            absl::StatusCode::kUnavailable);
  const Endpoint::Offer second = *client_.endpoint->begin_connect(server_.endpoint->local_descriptor());
  EXPECT_EQ(SessionOffer::decode(as_byte_span(second.bytes))->terms.payload_bytes, kNarrow);
}

TEST_F(PathLimitsTest, CreditsFollowFromTheLink) {
  endpoint_options_.protocol.path_bytes = 200 * kDevicePayload;
  Host fast = make(3);
  const Endpoint::Offer offer = *fast.endpoint->begin_connect(server_.endpoint->local_descriptor());
  const uint32_t half = fast.transport->capabilities().lendable_count / 2;
  EXPECT_EQ(SessionOffer::decode(as_byte_span(offer.bytes))->terms.credits, std::min(200u, half));
}

}  // namespace
}  // namespace skua::rpc
