// Packets for a session that come from somebody who knows its numbers, and is not its peer.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/wire/handshake.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {
namespace {

constexpr MethodId kEcho = 1;

EndpointIdentity identity(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes[0] = number;
  out.incarnation = 1;
  return out;
}

/// A caller and a server with a session; a stranger that knows everything that was said when the session was made.
class ForeignPacketsTest : public ::testing::Test {
 protected:
  ForeignPacketsTest() {
    endpoint_options_.simulation_seed = 3;
    caller_ = std::make_unique<Endpoint>(*caller_transport_, network_.clock(), endpoint_options_);
    endpoint_options_.simulation_seed = 4;  // or the generations are the same
    server_ = std::make_unique<Endpoint>(*server_transport_, network_.clock(), endpoint_options_);
    server_->serve(kEcho, [this](IncomingCall&& call) {
      ++served_;
      call.reply.reply(MessagePtr::copy_of(call.request.bytes()));
    });
    auto offer = caller_->begin_connect(server_transport_->local_descriptor()).value();
    session_ = offer.session;
    offer_ = SessionOffer::decode(as_byte_span(offer.bytes)).value();
    const std::string answer = server_->accept_offer(as_byte_span(offer.bytes));
    answer_ = SessionAnswer::decode(as_byte_span(answer)).value();
    EXPECT_TRUE(caller_->finish_connect(session_, as_byte_span(answer)).ok());
    // The stranger has a session of its own, so that the server knows it.
    stranger_ = std::make_unique<Endpoint>(*stranger_transport_, network_.clock(), endpoint_options_);
    const SessionId known = stranger_->connect(server_transport_->local_descriptor()).value();
    run([&] { return stranger_->is_connected(known); });
    to_server_ = stranger_transport_->resolve(server_transport_->local_descriptor()).value();
    to_caller_ = stranger_transport_->resolve(caller_transport_->local_descriptor()).value();
  }

  template <typename Condition>
  void run(const Condition& condition) {
    for (int turn = 0; turn < 10'000 && !condition(); ++turn) pump();
    EXPECT_TRUE(condition());
  }
  void pump() {
    for (Endpoint* endpoint : {caller_.get(), server_.get(), stranger_.get()}) endpoint->poll();
    const TimeNs next = network_.next_event_ns();
    network_.advance_to(next == kTimeNever ? network_.now_ns() + kMicrosecond : next);
  }

  /// From the stranger, past its endpoint.
  void send(PeerId to, PacketType type, uint32_t index, uint32_t generation, std::string_view payload = {}) {
    PacketHeader header;
    header.type = type;
    header.session_index = index;
    header.session_generation = generation;
    header.req_num = 0;
    header.method = kEcho;
    header.message_bytes = static_cast<uint32_t>(payload.size());
    TxPacket packet;
    packet.peer = to;
    packet.payload_bytes = static_cast<uint32_t>(payload.size());
    packet.segments[0] = as_byte_span(payload);
    packet.segment_count = payload.empty() ? 0 : 1;
    encode_sealed_header(header, packet.segments.data(), packet.segment_count, packet.header.data());
    ASSERT_EQ(stranger_transport_->tx_burst({&packet, 1}), 1u);
    for (int turn = 0; turn < 50; ++turn) pump();
  }
  [[nodiscard]] std::string call(std::string_view text) {
    std::string answer = "none";
    EXPECT_TRUE(caller_
                    ->call(session_, kEcho, MessagePtr::copy_of(as_byte_span(text)), {.timeout_ns = kSecond},
                           [&](CallResult&& result) {
                             answer = result.status.ok() ? std::string(as_string_view(result.response.bytes()))
                                                         : std::string(result.status.message());
                           })
                    .ok());
    run([&] { return answer != "none"; });
    return answer;
  }
  static uint64_t foreign(const Endpoint& endpoint) {
    return endpoint.counters().drops[static_cast<size_t>(DropReason::kForeignSender)];
  }

  SimNetwork network_{11};
  std::unique_ptr<SimTransport> caller_transport_ = network_.attach(1, identity(1), {});
  std::unique_ptr<SimTransport> server_transport_ = network_.attach(2, identity(2), {});
  std::unique_ptr<SimTransport> stranger_transport_ = network_.attach(3, identity(3), {});
  EndpointOptions endpoint_options_;
  std::unique_ptr<Endpoint> caller_;
  std::unique_ptr<Endpoint> server_;
  std::unique_ptr<Endpoint> stranger_;
  SessionId session_;
  SessionOffer offer_;
  SessionAnswer answer_;
  PeerId to_server_ = kNoPeer;
  PeerId to_caller_ = kNoPeer;
  int served_ = 0;
};

TEST_F(ForeignPacketsTest, ToTheServer_AreDroppedWhateverTheirType) {
  uint64_t expected = 0;
  for (uint8_t type = 1; type <= kPacketTypeMax; ++type) {
    const auto what = static_cast<PacketType>(type);
    send(to_server_, what, answer_.session_index, answer_.session_generation, "forged");
    const bool names_a_session_of_the_receiver =
        what != PacketType::kConnect && what != PacketType::kUnknownSession && what != PacketType::kAccept;
    if (names_a_session_of_the_receiver) ++expected;
    EXPECT_EQ(foreign(*server_), expected) << int{type};
  }
  EXPECT_EQ(served_, 0);
  EXPECT_EQ(call("the session stands"), "the session stands");
  EXPECT_EQ(served_, 1);
}

TEST_F(ForeignPacketsTest, ToTheCaller_DoNotEndItsSession) {
  for (uint8_t type = 1; type <= kPacketTypeMax; ++type) {
    // Of its own session, and the echo of what it sends to the server.
    send(to_caller_, static_cast<PacketType>(type), offer_.session_index, offer_.session_generation, "forged");
    send(to_caller_, static_cast<PacketType>(type), answer_.session_index, answer_.session_generation, "forged");
  }
  EXPECT_EQ(call("the session stands"), "the session stands");
  EXPECT_EQ(caller_->counters().sessions_broken, 0u);
}

/// Each type that the protocol has is somebody's: none but the end of a session ends it.
TEST_F(ForeignPacketsTest, FromThePeer_OnlyDisconnectEndsTheSession) {
  const PeerId from_caller = caller_transport_->resolve(server_transport_->local_descriptor()).value();
  stranger_transport_.swap(caller_transport_);  // send() now speaks as the caller
  for (uint8_t type = 1; type <= kPacketTypeMax; ++type) {
    const auto what = static_cast<PacketType>(type);
    if (what == PacketType::kDisconnect) continue;
    send(from_caller, what, answer_.session_index, answer_.session_generation);
    EXPECT_EQ(server_->session_count(), 2u) << int{type};
  }
  send(from_caller, PacketType::kDisconnect, answer_.session_index, answer_.session_generation);
  EXPECT_EQ(server_->session_count(), 1u);
  stranger_transport_.swap(caller_transport_);
}

TEST_F(ForeignPacketsTest, Generations_ComeFromTheSystem) {
  endpoint_options_.simulation_seed = 0;
  SimNetwork network(1);
  uint32_t generations[2] = {};
  for (uint32_t& generation : generations) {
    const auto transport = network.attach(1, identity(1), {});
    const auto peer = network.attach(2, identity(2), {});
    Endpoint endpoint(*transport, network.clock(), endpoint_options_);
    const auto offer = endpoint.begin_connect(peer->local_descriptor()).value();
    generation = SessionOffer::decode(as_byte_span(offer.bytes))->session_generation;
  }
  EXPECT_NE(generations[0], generations[1]) << "the same clock, the same identity, another life";
}

}  // namespace
}  // namespace skua::rpc
