// Sealed packets over real TCP, where a peer may have no connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sealed/sealed_transport.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::rpc {
namespace {

constexpr MethodId kEcho = 1;
constexpr DurationNs kPatience = 60 * kSecond;

struct Host {
  Host(const Clock& clock, uint8_t number) {
    TcpOptions options;
    options.listen_ip = "127.0.0.1";
    options.self.uuid.bytes = {number};
    options.self.incarnation = 1;
    transport = std::make_unique<SealedTransport>(*TcpTransport::create(options), clock, SealedOptions{});
    endpoint = std::make_unique<Endpoint>(*transport, clock, EndpointOptions{});
    endpoint->serve(kEcho, [](IncomingCall&& call) { call.reply.reply(MessagePtr::copy_of(call.request.bytes())); });
  }

  std::unique_ptr<SealedTransport> transport;
  std::unique_ptr<Endpoint> endpoint;
};

class SealedTcpTest : public ::testing::Test {
 protected:
  SessionId open(Host& to) {
    const auto offer = caller_.endpoint->begin_connect(to.endpoint->local_descriptor()).value();
    const std::string answer = to.endpoint->accept_offer(as_byte_span(offer.bytes), {.source = 1, .principal = "test"});
    EXPECT_TRUE(caller_.endpoint->finish_connect(offer.session, as_byte_span(answer)).ok());
    return offer.session;
  }

  void turn() {
    for (Host* host : {&caller_, living_.get(), dying_.get()}) {
      if (host != nullptr) host->endpoint->poll();
    }
  }
  bool run_until(const std::function<bool()>& done) {
    const TimeNs end = clock_.now_ns() + kPatience;
    while (!done() && clock_.now_ns() < end) turn();
    return done();
  }

  std::shared_ptr<std::optional<absl::Status>> start(SessionId session, const std::string& text) {
    auto outcome = std::make_shared<std::optional<absl::Status>>();
    const auto started =
        caller_.endpoint->call(session, kEcho, MessagePtr::copy_of(as_byte_span(text)), {.timeout_ns = kPatience},
                               [outcome](CallResult&& result) { *outcome = result.status; });
    if (!started.ok()) *outcome = started.status();
    return outcome;
  }
  bool call(SessionId session, size_t bytes) {
    const auto outcome = start(session, std::string(bytes, 'x'));
    return run_until([&] { return outcome->has_value(); }) && (*outcome)->ok();
  }

  const SteadyClock clock_;
  Host caller_{clock_, 1};
  std::unique_ptr<Host> living_ = std::make_unique<Host>(clock_, 2);
  std::unique_ptr<Host> dying_ = std::make_unique<Host>(clock_, 3);
};

TEST_F(SealedTcpTest, MessagesOfAllSizesArrive) {
  const SessionId session = open(*living_);
  for (const size_t bytes : {0u, 1u, 100u, 16'000u, 17'000u, 1'000'000u}) EXPECT_TRUE(call(session, bytes)) << bytes;
}

TEST_F(SealedTcpTest, LargeMessagesAtOnceArriveSoon) {
  const SessionId session = open(*living_);
  ASSERT_TRUE(call(session, 1));
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<std::optional<absl::Status>>> calls;
    for (int i = 0; i < 3; ++i) calls.push_back(start(session, std::string(300'000, 'x')));
    ASSERT_TRUE(
        run_until([&] { return std::ranges::all_of(calls, [](const auto& one) { return one->has_value(); }); }));
    for (const auto& one : calls) EXPECT_TRUE((*one)->ok()) << **one;
  }
}

/// The packets for a peer that is gone may not stand in the way of others, whether or not somebody answers at its
/// address.
TEST_F(SealedTcpTest, APeerThatIsGoneHoldsNobodyUp) {
  const SessionId to_living = open(*living_);
  const SessionId to_dying = open(*dying_);
  ASSERT_TRUE(call(to_living, 100'000));
  ASSERT_TRUE(call(to_dying, 100'000));
  dying_.reset();
  const auto lost = start(to_dying, std::string(100'000, 'x'));
  // Longer than the caller takes for the dead one to be silent.
  while (!lost->has_value()) ASSERT_TRUE(call(to_living, 100'000));
  EXPECT_FALSE((*lost)->ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(call(to_living, 100'000));
}

}  // namespace
}  // namespace skua::rpc
