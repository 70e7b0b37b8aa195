// Endpoints on the simulated network whose packets are sealed, or not: for tests of the sealed transport.
#ifndef SKUA_TESTS_RPC_TRANSPORT_SEALED_SEALED_FIXTURE_H_
#define SKUA_TESTS_RPC_TRANSPORT_SEALED_SEALED_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rpc/endpoint.h"
#include "rpc/transport/sealed/channel_records.h"
#include "rpc/transport/sealed/sealed_transport.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc {

inline constexpr MethodId kEcho = 1;
inline constexpr uint32_t kServer = 1;
inline constexpr uint32_t kCaller = 2;

inline EndpointIdentity identity_of(uint32_t address) {
  EndpointIdentity identity;
  identity.uuid.bytes = {static_cast<uint8_t>(address)};
  identity.incarnation = 1;
  return identity;
}

/// An endpoint on the simulated network, sealed or not.
struct Host {
  Host(SimNetwork& network, uint32_t address, std::optional<SealedOptions> sealed, SimTransportOptions wire = {}) {
    std::unique_ptr<Transport> plain = network.attach(address, identity_of(address), wire);
    if (sealed.has_value()) {
      auto made = std::make_unique<SealedTransport>(std::move(plain), network.clock(), *sealed);
      seals = made.get();
      transport = std::move(made);
    } else {
      transport = std::move(plain);
    }
    EndpointOptions options;
    options.simulation_seed = address;
    options.protocol.peer_timeout_ns = kSecond;
    endpoint = std::make_unique<Endpoint>(*transport, network.clock(), options);
    endpoint->serve(kEcho, [this](IncomingCall&& call) {
      ++served;
      call.reply.reply(MessagePtr::copy_of(call.request.bytes()));
    });
  }

  std::unique_ptr<Transport> transport;
  SealedTransport* seals = nullptr;
  std::unique_ptr<Endpoint> endpoint;
  uint64_t served = 0;
};

class SealedTransportTest : public ::testing::Test {
 protected:
  explicit SealedTransportTest(SimTransportOptions wire = {})
      : wire_(wire),
        server_(std::make_unique<Host>(network_, kServer, options(), wire)),
        caller_(std::make_unique<Host>(network_, kCaller, options(), wire)) {}

  static SealedOptions options() { return {}; }

  /// As applications do: a channel that was lost is made anew by the next attempt.
  absl::StatusOr<SessionId> open(Host& from, const std::string& principal = "client/a") {
    const absl::StatusOr<SessionId> session = open_once(from, principal);
    if (!absl::IsAborted(session.status())) return session;
    turn();  // the sessions that used the lost one end
    return open_once(from, principal);
  }

  absl::StatusOr<SessionId> open_once(Host& from, const std::string& principal) {
    auto offer = from.endpoint->begin_connect(server_->endpoint->local_descriptor());
    if (!offer.ok()) return offer.status();
    const std::string answer =
        server_->endpoint->accept_offer(as_byte_span(offer->bytes), {.source = 1, .principal = principal});
    absl::Status status = from.endpoint->finish_connect(offer->session, as_byte_span(answer));
    if (!status.ok()) {
      from.endpoint->close(offer->session);
      return status;
    }
    return offer->session;
  }

  bool run_until(const std::function<bool()>& done) {
    const TimeNs end = network_.now_ns() + 60 * kSecond;
    while (!done()) {
      if (network_.now_ns() > end) return false;
      turn();
    }
    return true;
  }
  void turn() {
    server_->endpoint->poll();
    caller_->endpoint->poll();
    const TimeNs next =
        std::min({network_.next_event_ns(), server_->endpoint->next_timer_ns(), caller_->endpoint->next_timer_ns()});
    network_.advance_to(std::max(std::min(next, network_.now_ns() + kMillisecond), network_.now_ns()));
  }

  /// The answer, or the status in words.
  std::string call(SessionId session, std::string_view request) {
    std::optional<std::string> result;
    const auto started = caller_->endpoint->call(
        session, kEcho, MessagePtr::copy_of(as_byte_span(request)), {.timeout_ns = 5 * kSecond},
        [&](CallResult&& done) {
          result = done.status.ok() ? std::string(as_string_view(done.response.bytes())) : done.status.ToString();
        });
    if (!started.ok()) return started.status().ToString();
    EXPECT_TRUE(run_until([&] { return result.has_value(); }));
    return result.value_or("no outcome");
  }

  /// What the server answers to the caller's offer. True: the channel is new to it, or was not used yet.
  bool would_tell_secret(const std::string& principal) {
    const PeerId peer = caller_->transport->resolve(server_->transport->local_descriptor()).value();
    const std::string offer = caller_->seals->offer(peer);
    const auto accepted = server_->seals->accept(as_byte_span(offer), caller_->transport->local_descriptor(),
                                                 {.source = 1, .principal = principal});
    return ChannelAnswer::decode(as_byte_span(accepted.value().answer))->secret.has_value();
  }

  SimNetwork network_{5};
  const SimTransportOptions wire_;
  std::unique_ptr<Host> server_;
  std::unique_ptr<Host> caller_;
};

}  // namespace skua::rpc

#endif  // SKUA_TESTS_RPC_TRANSPORT_SEALED_SEALED_FIXTURE_H_
