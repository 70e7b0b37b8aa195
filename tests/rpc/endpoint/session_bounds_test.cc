// What one peer may hold of an endpoint.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/wire/handshake.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {
namespace {

/// An endpoint at `address` of the network.
struct Place {
  Place(SimNetwork& network, uint8_t address, const EndpointOptions& options)
      : transport(network.attach(address, identity(address), {})),
        endpoint(std::make_unique<Endpoint>(*transport, network.clock(), options)) {}

  static EndpointIdentity identity(uint8_t number) {
    EndpointIdentity out;
    out.uuid.bytes[0] = number;
    out.incarnation = 1;
    return out;
  }
  /// What `server` says to an offer of this endpoint.
  absl::StatusCode open(Place& server, std::vector<SessionId>& sessions) {
    auto offer = endpoint->begin_connect(server.transport->local_descriptor()).value();
    const std::string answer = server.endpoint->accept_offer(as_byte_span(offer.bytes));
    const absl::Status status = endpoint->finish_connect(offer.session, as_byte_span(answer));
    if (status.ok()) sessions.push_back(offer.session);
    if (!status.ok()) endpoint->close(offer.session);
    return status.code();
  }

  std::unique_ptr<SimTransport> transport;
  std::unique_ptr<Endpoint> endpoint;
};

/// Runs all until `condition`; false: it never came in `limit_ns`.
template <typename Condition>
bool run_until(SimNetwork& network, const std::vector<Place*>& places, const Condition& condition,
               DurationNs limit_ns = 2 * kSecond) {
  const TimeNs end = network.now_ns() + limit_ns;
  while (!condition()) {
    if (network.now_ns() >= end) return false;
    TimeNs next = kTimeNever;
    for (Place* place : places) {
      while (place->endpoint->poll() > 0) {
      }
      next = std::min(next, place->endpoint->next_timer_ns());
    }
    next = std::min(next, network.next_event_ns());
    network.advance_to(std::clamp(next, network.now_ns() + kMicrosecond, end));
  }
  return true;
}

TEST(SessionBounds, OnePeerDoesNotTakeThemAll) {
  SimNetwork network(1);
  EndpointOptions options;
  options.sessions_max = 32;
  options.sessions_per_peer_max = 3;
  Place server(network, 1, options);
  Place greedy(network, 2, {});
  Place modest(network, 3, {});
  std::vector<SessionId> taken;
  std::vector<SessionId> others;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(greedy.open(server, taken), absl::StatusCode::kOk);
  // Those that are used are counted as the peer's.
  EXPECT_TRUE(run_until(network, {&greedy, &server}, [&] { return server.endpoint->session_count() == 3; }));
  EXPECT_EQ(modest.open(server, others), absl::StatusCode::kOk);
  EXPECT_TRUE(run_until(network, {&modest, &server}, [&] { return server.endpoint->session_count() == 4; }));
  // What is closed may be opened again.
  for (const SessionId session : taken) greedy.endpoint->close(session);
  EXPECT_TRUE(run_until(network, {&greedy, &server}, [&] { return server.endpoint->session_count() == 1; }));
  EXPECT_EQ(greedy.open(server, taken), absl::StatusCode::kOk);
  EXPECT_FALSE(run_until(network, {&greedy, &server}, [&] { return server.endpoint->session_count() != 2; }));
}

TEST(SessionBounds, SomeAreKeptForThoseWhoMayHaveThem) {
  SimNetwork network(1);
  EndpointOptions options;
  options.sessions_max = 8;
  options.sessions_reserved = 3;
  Place server(network, 1, options);
  Place greedy(network, 2, {});
  Place node(network, 3, {});
  server.endpoint->keep_for([](const EndpointIdentity& peer) { return peer == Place::identity(3); });
  std::vector<SessionId> taken;
  std::vector<SessionId> kept;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(greedy.open(server, taken), i < 5 ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted) << i;
  }
  EXPECT_EQ(node.open(server, kept), absl::StatusCode::kOk);
  EXPECT_EQ(node.open(server, kept), absl::StatusCode::kOk);
  // The endpoint's own, too.
  EXPECT_TRUE(server.endpoint->connect(node.transport->local_descriptor()).ok());
  EXPECT_FALSE(server.endpoint->connect(node.transport->local_descriptor()).ok());
  EXPECT_EQ(node.open(server, kept), absl::StatusCode::kResourceExhausted);
}

/// Offers cost nothing: who sends many of them and no packet keeps nobody out.
TEST(SessionBounds, OffersThatNobodyUses_MakeRoomForOthers) {
  SimNetwork network(1);
  EndpointOptions options;
  options.sessions_max = 16;
  options.sessions_unproven_max = 4;
  Place server(network, 1, options);
  Place silent(network, 2, {});
  Place modest(network, 3, {});
  std::vector<SessionId> taken;
  std::vector<SessionId> used;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(silent.open(server, taken), absl::StatusCode::kOk);
  EXPECT_LE(server.endpoint->session_count(), 4u);
  EXPECT_EQ(modest.open(server, used), absl::StatusCode::kOk);
  EXPECT_FALSE(run_until(network, {&modest, &server}, [&] { return !modest.endpoint->is_connected(used[0]); }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(silent.open(server, taken), absl::StatusCode::kOk);
  EXPECT_TRUE(run_until(
      network, {&modest, &server}, [&] { return server.endpoint->session_count() == 1; }, 30 * kSecond))
      << "what nobody used is forgotten after a while";
  EXPECT_TRUE(modest.endpoint->is_connected(used[0]));
  EXPECT_EQ(server.endpoint->counters().sessions_broken, 0u);
}

/// Whoever carries the offers decides who gets a session: packets open none.
TEST(AcceptByPacket, Off_SessionsComeByOffersOnly) {
  SimNetwork network(1);
  EndpointOptions options;
  options.accept_by_packet = false;
  Place server(network, 1, options);
  Place caller(network, 2, {});
  const auto by_packet = caller.endpoint->connect(server.transport->local_descriptor());
  ASSERT_TRUE(by_packet.ok());
  EXPECT_FALSE(run_until(network, {&caller, &server}, [&] { return caller.endpoint->is_connected(*by_packet); }));
  EXPECT_EQ(server.endpoint->session_count(), 0u);
  EXPECT_GT(server.endpoint->counters().drops[static_cast<size_t>(DropReason::kRefusedHandshake)], 0u);
  std::vector<SessionId> by_offer;
  EXPECT_EQ(caller.open(server, by_offer), absl::StatusCode::kOk);
  EXPECT_EQ(server.endpoint->session_count(), 1u);
}

TEST(AcceptOffer, NamesTheSessionThatItMade) {
  SimNetwork network(1);
  EndpointOptions options;
  options.sessions_max = 1;
  Place server(network, 1, options);
  Place caller(network, 2, {});
  const auto offer = caller.endpoint->begin_connect(server.transport->local_descriptor()).value();
  SessionId made;
  const std::string answer = server.endpoint->accept_offer(as_byte_span(offer.bytes), {}, &made);
  ASSERT_TRUE(caller.endpoint->finish_connect(offer.session, as_byte_span(answer)).ok());
  SessionId again;
  EXPECT_EQ(server.endpoint->accept_offer(as_byte_span(offer.bytes), {}, &again), answer);
  EXPECT_EQ(again, made) << "an offer that is repeated";
  const auto more = caller.endpoint->begin_connect(server.transport->local_descriptor()).value();
  SessionId none;
  (void)server.endpoint->accept_offer(as_byte_span(more.bytes), {}, &none);
  EXPECT_EQ(none, SessionId{}) << "refused";
  server.endpoint->close(made);
  EXPECT_TRUE(run_until(network, {&caller, &server}, [&] { return !caller.endpoint->is_connected(offer.session); }));
}

constexpr uint32_t kLarge = 2 << 20;

EndpointOptions small_memory() {
  EndpointOptions options;
  options.memory_limit_bytes = size_t{64} << 20;
  options.protocol.window = 8;
  return options;
}

/// The first packets of requests in all slots of `sessions` sessions, and nothing more.
void send_half_requests(SimNetwork& network, Place& greedy, Place& server, const std::vector<Place*>& running,
                        int sessions) {
  const PeerId to = greedy.transport->resolve(server.transport->local_descriptor()).value();
  const std::string payload(1024, 'x');
  for (int i = 0; i < sessions; ++i) {
    auto offer = greedy.endpoint->begin_connect(server.transport->local_descriptor()).value();
    const std::string bytes = server.endpoint->accept_offer(as_byte_span(offer.bytes));
    const SessionAnswer answer = SessionAnswer::decode(as_byte_span(bytes)).value();
    for (uint32_t slot = 0; slot < answer.terms.window; ++slot) {
      PacketHeader header;
      header.type = PacketType::kRequest;
      header.session_index = answer.session_index;
      header.session_generation = answer.session_generation;
      header.req_num = slot;
      header.method = 1;
      header.message_bytes = kLarge;
      TxPacket packet;
      packet.peer = to;
      packet.payload_bytes = answer.terms.payload_bytes;
      packet.segments[0] = as_byte_span(payload).first(packet.payload_bytes);
      packet.segment_count = 1;
      encode_sealed_header(header, packet.segments.data(), 1, packet.header.data());
      ASSERT_EQ(greedy.transport->tx_burst({&packet, 1}), 1u);
    }
    (void)run_until(
        network, running, [] { return false; }, kMillisecond);
  }
}

void serve_echo(Place& server) {
  server.endpoint->serve(1, [](IncomingCall&& call) { call.reply.reply(MessagePtr::copy_of(call.request.bytes())); });
}

/// A large call of `caller` is answered.
void expect_echo(SimNetwork& network, Place& caller, SessionId session, Place& server) {
  const std::string large(kLarge, 'y');
  std::string answer;
  ASSERT_TRUE(caller.endpoint
                  ->call(session, 1, MessagePtr::copy_of(as_byte_span(large)), {.timeout_ns = 5 * kSecond},
                         [&](CallResult&& result) {
                           answer = result.status.ok() ? std::string(as_string_view(result.response.bytes()))
                                                       : std::string(result.status.message());
                         })
                  .ok());
  EXPECT_TRUE(run_until(
      network, {&server, &caller}, [&] { return !answer.empty(); }, 10 * kSecond));
  EXPECT_TRUE(answer == large) << answer.substr(0, 200);
}

TEST(SessionBounds, OffersThatNobodyUses_TakeTheRoomOfTheirOwnHost) {
  SimNetwork network(1);
  EndpointOptions options;
  options.sessions_unproven_max = 8;
  Place server(network, 1, options);
  Place flood(network, 2, {});
  Place modest(network, 3, {});
  const auto offer = [&](Place& from, uint64_t source) {
    auto made = from.endpoint->begin_connect(server.transport->local_descriptor()).value();
    const std::string answer =
        server.endpoint->accept_offer(as_byte_span(made.bytes), {.source = source, .principal = {}});
    EXPECT_TRUE(from.endpoint->finish_connect(made.session, as_byte_span(answer)).ok());
    return made.session;
  };
  for (int i = 0; i < 20; ++i) offer(flood, 7);
  const SessionId slow = offer(modest, 8);
  for (int i = 0; i < 100; ++i) offer(flood, 7);
  serve_echo(server);
  expect_echo(network, modest, slow, server);
}

TEST(SessionBounds, HalfRequests_OfOnePeerTakeNoMoreThanItsShare) {
  SimNetwork network(1);
  Place server(network, 1, small_memory());
  serve_echo(server);
  Place greedy(network, 2, small_memory());
  Place modest(network, 3, small_memory());
  std::vector<SessionId> others;
  ASSERT_EQ(modest.open(server, others), absl::StatusCode::kOk);
  send_half_requests(network, greedy, server, {&server, &modest}, 10);
  EXPECT_GT(server.endpoint->counters().drops[static_cast<size_t>(DropReason::kNoMemory)], 0u);
  expect_echo(network, modest, others[0], server);
}

TEST(SessionBounds, HalfRequests_OfManyPeersLeaveRoomForNodes) {
  SimNetwork network(1);
  Place server(network, 1, small_memory());
  serve_echo(server);
  server.endpoint->keep_for([](const EndpointIdentity& peer) { return peer == Place::identity(2); });
  Place node(network, 2, small_memory());
  std::vector<SessionId> sessions;
  ASSERT_EQ(node.open(server, sessions), absl::StatusCode::kOk);
  std::vector<std::unique_ptr<Place>> crowd;
  for (uint8_t i = 0; i < 12; ++i) {
    crowd.push_back(std::make_unique<Place>(network, static_cast<uint8_t>(10 + i), small_memory()));
    send_half_requests(network, *crowd.back(), server, {&server, &node}, 1);
  }
  EXPECT_GT(server.endpoint->counters().drops[static_cast<size_t>(DropReason::kNoMemory)], 0u);
  expect_echo(network, node, sessions[0], server);
}

/// session_nonce() says 0 of a session that is not there, and those who ask believe that.
TEST(SessionBounds, AnOfferWithoutANumber_IsRefused) {
  SimNetwork network(1);
  Place server(network, 1, {});
  Place liar(network, 3, {});
  auto genuine = liar.endpoint->begin_connect(server.transport->local_descriptor()).value();
  SessionOffer forged = SessionOffer::decode(as_byte_span(genuine.bytes)).value();
  forged.nonce = 0;
  const std::string answer = server.endpoint->accept_offer(as_byte_span(forged.encode()));
  const absl::StatusOr<SessionAnswer> decoded = SessionAnswer::decode(as_byte_span(answer));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(server.endpoint->session_count(), 0u);
}

/// An offer says what it likes: the identity of another endpoint, and its session's number with any generation.
TEST(SessionBounds, AnOfferInAnothersName_EndsNoSession) {
  SimNetwork network(1);
  Place server(network, 1, {});
  Place victim(network, 2, {});
  Place liar(network, 3, {});
  std::vector<SessionId> sessions;
  ASSERT_EQ(victim.open(server, sessions), absl::StatusCode::kOk);
  ASSERT_EQ(liar.open(server, sessions), absl::StatusCode::kOk);
  const std::vector<Place*> all = {&server, &victim, &liar};
  ASSERT_FALSE(run_until(network, all, [&] { return server.endpoint->session_count() != 2; }));

  auto genuine = victim.endpoint->begin_connect(server.transport->local_descriptor()).value();
  SessionOffer forged = SessionOffer::decode(as_byte_span(genuine.bytes)).value();
  victim.endpoint->close(genuine.session);
  forged.session_index = sessions[0].index;
  Descriptor descriptor = victim.transport->local_descriptor();
  for (const uint64_t incarnation : {uint64_t{0}, uint64_t{1}, uint64_t{2}, UINT64_MAX}) {
    for (const uint32_t generation : {0u, 1u << 30, 1u << 31, UINT32_MAX}) {
      descriptor.identity.incarnation = incarnation;
      forged.descriptor = descriptor.encode();
      forged.session_generation = generation;
      ++forged.nonce;
      (void)server.endpoint->accept_offer(as_byte_span(forged.encode()));
      // The same as a packet.
      ++forged.nonce;
      const std::string bytes = forged.encode();
      PacketHeader header;
      header.type = PacketType::kConnect;
      header.session_index = UINT32_MAX;
      header.message_bytes = static_cast<uint32_t>(bytes.size());
      TxPacket packet;
      packet.peer = liar.transport->resolve(server.transport->local_descriptor()).value();
      packet.payload_bytes = header.message_bytes;
      packet.segments[0] = as_byte_span(bytes);
      packet.segment_count = 1;
      encode_sealed_header(header, packet.segments.data(), 1, packet.header.data());
      ASSERT_EQ(liar.transport->tx_burst({&packet, 1}), 1u);
      EXPECT_FALSE(run_until(
          network, all, [&] { return !victim.endpoint->is_connected(sessions[0]); }, 10 * kMillisecond));
    }
  }
  EXPECT_FALSE(run_until(
      network, all, [&] { return !victim.endpoint->is_connected(sessions[0]); }, 30 * kSecond));
  EXPECT_EQ(victim.endpoint->counters().sessions_broken, 0u);
}

}  // namespace
}  // namespace skua::rpc
