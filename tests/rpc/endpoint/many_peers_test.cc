// Answers to many peers that have a call or two each: they leave together, in a burst, and not one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc {
namespace {

constexpr MethodId kEcho = 1;
constexpr uint32_t kServerAddress = 100;

EndpointIdentity identity(uint32_t number) {
  EndpointIdentity out;
  out.uuid.bytes[0] = static_cast<uint8_t>(number);
  out.incarnation = 1;
  return out;
}

/// A transport that counts the frames of each burst.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(Transport& wire) : wire_(wire) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return wire_.capabilities(); }
  [[nodiscard]] const TransportCounters& counters() const override { return wire_.counters(); }
  [[nodiscard]] Descriptor local_descriptor() const override { return wire_.local_descriptor(); }
  void set_placer(RxPlacer* placer) override { wire_.set_placer(placer); }
  void set_peer_use(const PeerUse* use) override { wire_.set_peer_use(use); }
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override { return wire_.resolve(peer); }
  size_t tx_burst(std::span<TxPacket> packets) override { return wire_.tx_burst(packets); }
  bool has_room(PeerId peer) override { return wire_.has_room(peer); }
  TxFrame take_frame(PeerId peer) override { return wire_.take_frame(peer); }
  void send_frames(std::span<const TxFrame> frames) override {
    bursts.push_back(frames.size());
    wire_.send_frames(frames);
  }
  size_t rx_burst(std::span<RxPacket> packets) override {
    const size_t count = wire_.rx_burst(packets);
    if (count > 0) received.push_back(count);
    return count;
  }
  void release(std::span<const RxBufferId> buffers) override { wire_.release(buffers); }
  size_t reap(std::span<TxToken> tokens) override { return wire_.reap(tokens); }
  void abandon_tx() override { wire_.abandon_tx(); }
  size_t poll_links(std::span<LinkEvent> events) override { return wire_.poll_links(events); }
  void wait(DurationNs timeout_ns) override { wire_.wait(timeout_ns); }
  void wake() override { wire_.wake(); }
  [[nodiscard]] uint32_t payload_max_bytes(PeerId peer) const override { return wire_.payload_max_bytes(peer); }

  std::vector<size_t> bursts;
  std::vector<size_t> received;

 private:
  Transport& wire_;
};

class ManyPeersTest : public ::testing::Test {
 protected:
  struct Caller {
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<Endpoint> endpoint;
    SessionId session;
  };

  void start(uint32_t callers) {
    EndpointOptions options;
    options.simulation_seed = 4;
    server_ = std::make_unique<Endpoint>(wire_, network_.clock(), options);
    server_->serve(kEcho, [](IncomingCall&& call) { call.reply.reply(MessagePtr::copy_of(call.request.bytes())); });
    for (uint32_t i = 0; i < callers; ++i) {
      Caller& caller = callers_.emplace_back();
      caller.transport = network_.attach(i + 1, identity(i + 1), {});
      options.simulation_seed = 10 + i;
      caller.endpoint = std::make_unique<Endpoint>(*caller.transport, network_.clock(), options);
      caller.session = caller.endpoint->connect(server_->local_descriptor()).value();
    }
    // They join, and calls are small ones from then on.
    for (int round = 0; round < 3; ++round) call_all(1);
    wire_.bursts.clear();
    wire_.received.clear();
  }

  /// So many calls of each at the same time.
  void call_all(int calls) {
    size_t wanted = done_;
    for (Caller& caller : callers_) {
      for (int i = 0; i < calls; ++i, ++wanted) {
        const std::string text = std::to_string(wanted);
        const auto call = caller.endpoint->call(caller.session, kEcho, MessagePtr::copy_of(as_byte_span(text)), {},
                                                [this, text](CallResult&& result) {
                                                  EXPECT_TRUE(result.status.ok()) << result.status;
                                                  EXPECT_EQ(as_string_view(result.response.bytes()), text);
                                                  ++done_;
                                                });
        ASSERT_TRUE(call.ok());
      }
    }
    const TimeNs limit = network_.now_ns() + 60 * kSecond;
    while (done_ < wanted && network_.now_ns() < limit) pump();
    ASSERT_EQ(done_, wanted);
  }
  void pump() {
    for (Caller& caller : callers_) caller.endpoint->poll();
    // The server is slower than they are: what they send together comes together.
    network_.advance_to(network_.now_ns() + 200 * kMicrosecond);
    server_->poll();
    network_.advance_to(network_.now_ns() + 200 * kMicrosecond);
  }

  SimNetwork network_{11};
  std::unique_ptr<SimTransport> server_transport_ = network_.attach(kServerAddress, identity(kServerAddress), {});
  CountingTransport wire_{*server_transport_};
  std::unique_ptr<Endpoint> server_;
  std::vector<Caller> callers_;
  size_t done_ = 0;
};

TEST_F(ManyPeersTest, OneCallEach_AnswersLeaveInOneBurst) {
  start(12);
  call_all(1);
  EXPECT_EQ(wire_.received, std::vector<size_t>{12});
  EXPECT_EQ(wire_.bursts, std::vector<size_t>{12});
}

TEST_F(ManyPeersTest, OnePeer_AnswersLeaveAtOnce) {
  start(1);
  call_all(1);
  EXPECT_EQ(wire_.bursts, std::vector<size_t>{1});
}

TEST_F(ManyPeersTest, ManyCallsEach_AnswersLeaveWithTheBundleThatTheyAnswer) {
  start(3);
  for (int round = 0; round < 4; ++round) call_all(32);  // until all know how deep they are
  wire_.bursts.clear();
  call_all(32);
  EXPECT_GE(wire_.bursts.size(), 3u * 2);
  EXPECT_EQ(*std::max_element(wire_.bursts.begin(), wire_.bursts.end()), 1u);
}

/// Above that, a burst's answers fill a burst.
TEST_F(ManyPeersTest, MoreThanABurst_IsReceivedAndAnsweredInBursts) {
  start(70);
  call_all(1);
  EXPECT_EQ(std::accumulate(wire_.received.begin(), wire_.received.end(), size_t{0}), 70u);
  EXPECT_EQ(wire_.received, wire_.bursts);
  EXPECT_EQ(*std::max_element(wire_.received.begin(), wire_.received.end()), kBurstMax);
}

}  // namespace
}  // namespace skua::rpc
