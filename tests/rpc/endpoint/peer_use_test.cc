// Whose word the endpoint gives its transport, and which peers it says that its sessions use.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc {
namespace {

/// Remembers what it was asked.
class AskedTransport final : public Transport {
 public:
  explicit AskedTransport(std::unique_ptr<Transport> wire) : wire_(std::move(wire)) {}

  const PeerUse* use = nullptr;
  std::vector<std::string> dialled;
  std::vector<std::string> claimed;

  void set_peer_use(const PeerUse* told) override { use = told; }
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override {
    dialled.push_back(peer.address);
    return wire_->resolve(peer);
  }
  absl::StatusOr<PeerId> resolve_claimed(const Descriptor& peer) override {
    claimed.push_back(peer.address);
    return wire_->resolve(peer);
  }
  [[nodiscard]] const Capabilities& capabilities() const override { return wire_->capabilities(); }
  [[nodiscard]] const TransportCounters& counters() const override { return wire_->counters(); }
  [[nodiscard]] Descriptor local_descriptor() const override { return wire_->local_descriptor(); }
  size_t tx_burst(std::span<TxPacket> packets) override { return wire_->tx_burst(packets); }
  size_t rx_burst(std::span<RxPacket> packets) override { return wire_->rx_burst(packets); }
  void release(std::span<const RxBufferId> buffers) override { wire_->release(buffers); }
  size_t reap(std::span<TxToken> tokens) override { return wire_->reap(tokens); }
  void abandon_tx() override { wire_->abandon_tx(); }
  void wait(DurationNs timeout_ns) override { wire_->wait(timeout_ns); }
  void wake() override { wire_->wake(); }

  /// The same id whoever asks.
  PeerId id_of(const Transport& other) { return wire_->resolve(other.local_descriptor()).value(); }
  [[nodiscard]] bool is_used(const Transport& other) { return use->is_used(id_of(other)); }
  [[nodiscard]] bool is_awaited(const Transport& other) { return use->is_awaited(id_of(other)); }

 private:
  std::unique_ptr<Transport> wire_;
};

EndpointIdentity named(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes[0] = number;
  out.incarnation = 1;
  return out;
}

class PeerUseTest : public ::testing::Test {
 protected:
  PeerUseTest() {
    options_.simulation_seed = 1;
    caller_ = std::make_unique<Endpoint>(caller_transport_, network_.clock(), options_);
    options_.simulation_seed = 2;
    server_ = std::make_unique<Endpoint>(server_transport_, network_.clock(), options_);
  }

  void run_for(DurationNs time) {
    const TimeNs end = network_.now_ns() + time;
    while (network_.now_ns() < end) {
      for (Endpoint* endpoint : {caller_.get(), server_.get()}) endpoint->poll();
      const TimeNs next = std::min({network_.next_event_ns(), caller_->next_timer_ns(), server_->next_timer_ns(), end});
      network_.advance_to(std::max(next, network_.now_ns() + kMicrosecond));
    }
  }

  SimNetwork network_{5};
  AskedTransport caller_transport_{network_.attach(1, named(1), {})};
  AskedTransport server_transport_{network_.attach(2, named(2), {})};
  EndpointOptions options_;
  std::unique_ptr<Endpoint> caller_;
  std::unique_ptr<Endpoint> server_;
};

TEST_F(PeerUseTest, Offers_AreClaimsAndDialsAreNot) {
  const SessionId session = caller_->connect(server_transport_.local_descriptor()).value();
  run_for(kMillisecond);
  EXPECT_TRUE(caller_->is_connected(session));
  EXPECT_EQ(caller_transport_.dialled, std::vector<std::string>{"2"});
  EXPECT_TRUE(caller_transport_.claimed.empty());
  EXPECT_TRUE(server_transport_.dialled.empty()) << "what an offer says of its sender is no dial";
  EXPECT_FALSE(server_transport_.claimed.empty());

  server_transport_.claimed.clear();
  const auto offer = caller_->begin_connect(server_transport_.local_descriptor()).value();
  EXPECT_EQ(caller_transport_.dialled.size(), 2u);
  static_cast<void>(server_->accept_offer(as_byte_span(offer.bytes)));
  EXPECT_TRUE(server_transport_.dialled.empty());
  EXPECT_EQ(server_transport_.claimed, std::vector<std::string>{"1"});
}

TEST_F(PeerUseTest, IsUsed_AsLongAsASessionStandsHoweverIdle) {
  EXPECT_FALSE(caller_transport_.is_used(server_transport_));
  const auto offer = caller_->begin_connect(server_transport_.local_descriptor()).value();
  EXPECT_TRUE(caller_transport_.is_used(server_transport_)) << "before anything was sent";
  const std::string answer = server_->accept_offer(as_byte_span(offer.bytes));
  EXPECT_FALSE(server_transport_.is_used(caller_transport_)) << "an offer proves nothing";
  ASSERT_TRUE(caller_->finish_connect(offer.session, as_byte_span(answer)).ok());
  run_for(kMillisecond);
  EXPECT_TRUE(server_transport_.is_used(caller_transport_));
  for (int i = 0; i < 100; ++i) {
    run_for(3 * kSecond);
    EXPECT_TRUE(caller_transport_.is_used(server_transport_));
    EXPECT_TRUE(server_transport_.is_used(caller_transport_));
  }
  caller_->close(offer.session);
  run_for(kMillisecond);
  EXPECT_FALSE(caller_transport_.is_used(server_transport_));
  EXPECT_FALSE(server_transport_.is_used(caller_transport_));
}

TEST_F(PeerUseTest, IsAwaited_UntilAPacketHasComeOrTheOfferIsForgotten) {
  const auto used = caller_->begin_connect(server_transport_.local_descriptor()).value();
  const std::string answer = server_->accept_offer(as_byte_span(used.bytes));
  EXPECT_TRUE(server_transport_.is_awaited(caller_transport_));
  ASSERT_TRUE(caller_->finish_connect(used.session, as_byte_span(answer)).ok());
  run_for(kMillisecond);
  EXPECT_FALSE(server_transport_.is_awaited(caller_transport_));
  EXPECT_FALSE(caller_transport_.is_awaited(server_transport_)) << "its own dial";

  const auto unused = caller_->begin_connect(server_transport_.local_descriptor()).value();
  static_cast<void>(server_->accept_offer(as_byte_span(unused.bytes)));
  EXPECT_TRUE(server_transport_.is_awaited(caller_transport_));
  run_for(60 * kSecond);
  EXPECT_FALSE(server_transport_.is_awaited(caller_transport_));
}

TEST_F(PeerUseTest, IsUsed_UntilTheLastOfSeveralSessionsEnds) {
  const SessionId first = caller_->connect(server_transport_.local_descriptor()).value();
  const SessionId second = caller_->connect(server_transport_.local_descriptor()).value();
  run_for(kMillisecond);
  caller_->close(first);
  run_for(kMillisecond);
  EXPECT_TRUE(caller_transport_.is_used(server_transport_));
  EXPECT_TRUE(server_transport_.is_used(caller_transport_));
  caller_->close(second);
  run_for(kMillisecond);
  EXPECT_FALSE(caller_transport_.is_used(server_transport_));
  EXPECT_FALSE(server_transport_.is_used(caller_transport_));
}

}  // namespace
}  // namespace skua::rpc
