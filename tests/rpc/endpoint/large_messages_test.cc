// Large messages between two endpoints: trains out of frames or of the application's memory, runs in bursts, and what
// damage, loss and disorder do to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc {
namespace {

constexpr MethodId kEcho = 1;

EndpointIdentity identity(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes[0] = number;
  out.incarnation = 1;
  return out;
}

std::string content(size_t bytes, uint64_t seed) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(mix64(seed + i / 8) >> (i % 8 * 8));
  return out;
}

/// An echo between two endpoints.
class LargeMessagesTest : public ::testing::Test {
 protected:
  struct Trust {
    bool caller = false;
    bool server = false;
  };
  void open(uint32_t inline_max_bytes) { open(inline_max_bytes, {}); }
  void open(uint32_t inline_max_bytes, const Trust& trust) {
    caller_.reset();
    server_.reset();
    caller_transport_.reset();
    server_transport_.reset();
    SimTransportOptions options;
    options.inline_max_bytes = inline_max_bytes;
    caller_transport_ = network_.attach(1, identity(1), options);
    server_transport_ = network_.attach(2, identity(2), options);
    EndpointOptions endpoint_options;
    endpoint_options.simulation_seed = 3;
    endpoint_options.trusted_wire = trust.caller;
    caller_ = std::make_unique<Endpoint>(*caller_transport_, network_.clock(), endpoint_options);
    endpoint_options.simulation_seed = 4;
    endpoint_options.trusted_wire = trust.server;
    server_ = std::make_unique<Endpoint>(*server_transport_, network_.clock(), endpoint_options);
    server_->serve(kEcho, [this](IncomingCall&& call) {
      ++served_;
      call.reply.reply(MessagePtr::copy_of(call.request.bytes()));
    });
    session_ = caller_->connect(server_transport_->local_descriptor()).value();
    run([&] { return caller_->is_connected(session_); });
  }
  template <typename Condition>
  void run(const Condition& condition) {
    for (int turn = 0; turn < 200'000 && !condition(); ++turn) {
      for (Endpoint* endpoint : {caller_.get(), server_.get()}) endpoint->poll();
      TimeNs next = std::min(network_.next_event_ns(), network_.now_ns() + kMillisecond);
      // What arrives within the time of a burst is taken together.
      next = std::max(next, network_.now_ns() + kMicrosecond);
      network_.advance_to(next);
    }
    EXPECT_TRUE(condition());
  }
  /// What comes back of a message whose head and bodies are `parts`.
  std::string echo(const std::vector<std::string>& parts) {
    MessagePtr request = caller_->make_message();
    EXPECT_TRUE(request->append_head(as_byte_span(parts.front())));
    for (size_t i = 1; i < parts.size(); ++i) {
      EXPECT_TRUE(request->add_body(as_byte_span(parts[i]), nullptr, nullptr));
    }
    bool done = false;
    std::string answer;
    EXPECT_TRUE(caller_
                    ->call(session_, kEcho, std::move(request), {.timeout_ns = 60 * kSecond},
                           [&](CallResult&& result) {
                             answer = result.status.ok() ? std::string(as_string_view(result.response.bytes()))
                                                         : std::string(result.status.message());
                             done = true;
                           })
                    .ok());
    run([&] { return done; });
    return answer;
  }
  void expect_echo(const std::vector<std::string>& parts) {
    std::string whole;
    for (const std::string& part : parts) whole += part;
    EXPECT_TRUE(echo(parts) == whole) << "of " << whole.size() << " bytes";
  }
  [[nodiscard]] uint64_t damaged() const {
    const auto index = static_cast<size_t>(DropReason::kBadChecksum);
    return caller_->counters().drops[index] + server_->counters().drops[index];
  }

  SimNetwork network_{11};
  std::unique_ptr<SimTransport> caller_transport_;
  std::unique_ptr<SimTransport> server_transport_;
  std::unique_ptr<Endpoint> caller_;
  std::unique_ptr<Endpoint> server_;
  SessionId session_;
  int served_ = 0;
};

// Sizes around the boundaries of pieces, bursts and words of 64 pieces, in parts that end anywhere within a piece.
void echo_all_sizes(const std::function<void(const std::vector<std::string>&)>& expect_echo) {
  for (const size_t size : {1025u, 2047u, 2048u, 2049u, 16'384u, 16'385u, 65'535u, 65'536u, 65'537u, 300'001u}) {
    expect_echo({"", content(size, size)});
  }
  expect_echo({content(256, 1), content(5000, 2), content(1, 3), content(1023, 4), content(40'000, 5)});
  expect_echo({content(100, 1), content(924, 2), content(1024, 3), content(2048, 4), content(7, 5)});
}

TEST_F(LargeMessagesTest, FromTheApplicationsMemory) {
  open(0);
  echo_all_sizes([this](const auto& parts) { expect_echo(parts); });
  EXPECT_EQ(caller_->counters().tx_copied_bytes, 0u);
  EXPECT_EQ(caller_->counters().retransmits, 0u);
}

TEST_F(LargeMessagesTest, OutOfFrames) {
  open(1024);
  echo_all_sizes([this](const auto& parts) { expect_echo(parts); });
  EXPECT_GT(caller_->counters().tx_copied_bytes, 300'000u);
  EXPECT_EQ(caller_->counters().retransmits, 0u);
}

TEST_F(LargeMessagesTest, FramesForPiecesThatAreSmallEnoughOnly) {
  open(1023);
  expect_echo({"", content(50'000, 1)});
  EXPECT_EQ(caller_->counters().tx_copied_bytes, 0u);
}

TEST_F(LargeMessagesTest, DamageLossAndDisorderAreMended) {
  for (const uint32_t inline_max_bytes : {0u, 1024u}) {
    network_.set_faults({});
    open(inline_max_bytes);
    SimFaults faults;
    faults.loss = faults.duplicate = faults.corrupt = 0.02;
    faults.reorder = 0.1;
    network_.set_faults(faults);
    const int served = served_;
    for (uint64_t seed = 0; seed < 20; ++seed) expect_echo({"", content(100'000, seed)});
    EXPECT_EQ(served_ - served, 20);
    EXPECT_GT(damaged(), 20u);
    EXPECT_GT(caller_->counters().retransmits, 20u);
  }
}

TEST_F(LargeMessagesTest, TrustedWire_NoChecksumsIfBothSay) {
  for (const uint32_t inline_max_bytes : {0u, 1024u}) {
    for (const Trust trust : {Trust{false, true}, Trust{true, false}, Trust{true, true}}) {
      network_.set_faults({});
      open(inline_max_bytes, trust);
      echo_all_sizes([this](const auto& parts) { expect_echo(parts); });
      EXPECT_EQ(damaged(), 0u);
      // Damage is found where anybody looks for it.
      SimFaults faults;
      faults.corrupt = 0.2;
      network_.set_faults(faults);
      const std::string sent = content(100'000, 1);
      EXPECT_EQ(echo({"", sent}) == sent, !(trust.caller && trust.server));
    }
  }
}

TEST_F(LargeMessagesTest, TrustedWire_ASessionThatIsNoneIsReported) {
  open(0, {true, true});
  expect_echo({"", content(3000, 1)});
  // Another life of the server, at the same address.
  server_.reset();
  server_transport_.reset();
  EndpointIdentity again = identity(2);
  again.incarnation = 2;
  server_transport_ = network_.attach(2, again, {});
  EndpointOptions options;
  options.simulation_seed = 9;
  server_ = std::make_unique<Endpoint>(*server_transport_, network_.clock(), options);
  ASSERT_TRUE(server_transport_->resolve(caller_transport_->local_descriptor()).ok());  // it knows whom to tell
  const TimeNs before_ns = network_.now_ns();
  static_cast<void>(echo({"", content(3000, 1)}));
  EXPECT_LT(network_.now_ns() - before_ns, kSecond) << "the caller learned it from nobody";
}

}  // namespace
}  // namespace skua::rpc
