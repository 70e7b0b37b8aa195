// What a call over sealed packets takes while somebody forges packets of its session.
//
//   attack_latency [CALLS [FORGERIES]]    100,000 calls with and as many without an attacker; prints one line of JSON
//
// Two endpoints on one thread, over a wire that is two arrays of packets (perfect_pair.h), one call of 32 bytes at a
// time. The attacker is on the path: before each request it puts one packet, or FORGERIES, of the kinds below in turn.
// None is opened (checked). Blocks with and without an attacker alternate. Percentiles are of the processor's time for
// a call at both ends, without what forging takes. What a network adds is the same with an attacker, so it would only
// bring the two closer.
//
//   one bit flipped, cut short, replayed, reflected to the sender, another generation, another mode, another channel,
//   not sealed at all
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sealed/sealed_frame.h"
#include "rpc/transport/sealed/sealed_transport.h"
#include "tests/perf/perfect_pair.h"

namespace skua::rpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr MethodId kEcho = 1;
constexpr int kCallsPerBlock = 1000;

/// One end: an endpoint over sealed packets over its end of the wire.
struct End {
  End(uint8_t number, Pipe& out, Pipe& in, const ManualClock& clock)
      : sealed(std::make_unique<WireTransport>(number, out, in, true), clock, SealedOptions{}) {
    EndpointOptions options;
    options.spin_ns = kTimeNever;
    endpoint = std::make_unique<Endpoint>(sealed, clock, options);
  }
  SealedTransport sealed;
  std::unique_ptr<Endpoint> endpoint;
};

class Attacked {
 public:
  explicit Attacked(int forgeries)
      : forgeries_(forgeries), client_(1, there_, back_, clock_), server_(2, back_, there_, clock_) {
    server_.endpoint->serve(kEcho, [](IncomingCall&& call) { call.reply.reply(call.request.bytes()); });
    auto offer = client_.endpoint->begin_connect(server_.endpoint->local_descriptor());
    SKUA_CHECK(offer.ok(), "an offer can be made");
    const auto answer =
        server_.endpoint->accept_offer(as_byte_span(offer->bytes), {.source = 1, .principal = "client/a"});
    SKUA_CHECK(client_.endpoint->finish_connect(offer->session, as_byte_span(answer)).ok(), "the session opens");
    session_ = offer->session;
    for (int i = 0; i < kCallsPerBlock; ++i) call_ns(false);
    call_ns(true);  // so that there is a request before
  }

  /// How long the processor works on one call.
  double call_ns(bool attacked) {
    bool done = false;
    Clock::duration attack_time{};  // the attacker's own work
    const auto begin = Clock::now();
    const auto started = client_.endpoint->call(session_, kEcho, ByteSpan(content_), {}, [&done](CallResult&& result) {
      SKUA_CHECK(result.status.ok(), "an honest call succeeds");
      done = true;
    });
    SKUA_CHECK(started.ok(), "a call can be made");
    while (!done) {
      clock_.advance(kMicrosecond);
      client_.endpoint->poll();
      if (attacked) attack_time += time_of_attack();
      server_.endpoint->poll();
    }
    return std::chrono::duration<double, std::nano>(Clock::now() - begin - attack_time).count();
  }
  [[nodiscard]] uint64_t refused() const {
    return client_.sealed.sealed_counters().refused() + server_.sealed.sealed_counters().refused();
  }
  [[nodiscard]] uint64_t forged() const { return forged_; }
  [[nodiscard]] uint64_t served() const { return server_.endpoint->counters().requests_served; }

 private:
  Clock::duration time_of_attack() {
    const auto begin = Clock::now();
    attack();
    return Clock::now() - begin;
  }
  /// Puts forgeries of the packet that is under way before that packet.
  void attack() {
    if (there_.written == there_.read) return;
    const WirePacket& genuine = packet_ = there_.ring[--there_.written % kWirePackets];
    for (int i = 0; i < forgeries_; ++i) forge(genuine, forged_ % kKinds);
    copy(genuine, there_);
    before_ = genuine;
  }

  static constexpr uint64_t kKinds = 8;
  void forge(const WirePacket& genuine, uint64_t kind) {
    ++forged_;
    constexpr uint64_t kReplayed = 6;
    constexpr uint64_t kReflected = 7;
    WirePacket& forgery = copy(kind == kReplayed ? before_ : genuine, kind == kReflected ? back_ : there_);
    switch (kind) {
      case 0: forgery.payload[rng_.below(forgery.payload_bytes)] ^= std::byte{1}; break;
      case 1: forgery.payload_bytes /= 2; break;
      case 2: forgery.header[1] ^= std::byte{2}; break;    // the generation
      case 3: forgery.header[0] ^= std::byte{3}; break;    // the mode
      case 4: forgery.header[8] ^= std::byte{1}; break;    // the channel
      case 5: forgery.header[0] = std::byte{0x20}; break;  // not sealed
      default: break;
    }
  }
  static WirePacket& copy(const WirePacket& packet, Pipe& to) {
    WirePacket& slot = to.ring[to.written++ % kWirePackets];
    slot.header = packet.header;
    slot.payload_bytes = packet.payload_bytes;
    std::memcpy(slot.payload.data(), packet.payload.data(), packet.payload_bytes);
    return slot;
  }

  const int forgeries_;
  ManualClock clock_;
  Pipe there_;
  Pipe back_;
  End client_;
  End server_;
  SessionId session_;
  const std::array<std::byte, 32> content_{};
  WirePacket packet_{};
  WirePacket before_{};  // the request before
  Rng rng_{7};
  uint64_t forged_ = 0;
};

double percentile(std::vector<double>& sorted, double which) {
  return sorted[static_cast<size_t>(which * static_cast<double>(sorted.size() - 1))];
}

int run(int calls, int forgeries) {
  Attacked pair(forgeries);
  std::vector<double> times[2];  // without an attacker, and with one
  for (int block = 0; block < 2 * ((calls + kCallsPerBlock - 1) / kCallsPerBlock); ++block) {
    for (int i = 0; i < kCallsPerBlock; ++i) times[block % 2].push_back(pair.call_ns(block % 2 == 1));
  }
  SKUA_CHECK(pair.refused() == pair.forged(), "every forgery was refused, and nothing else");
  for (std::vector<double>& each : times) std::sort(each.begin(), each.end());
  std::printf(R"({"calls": %zu, "forged": %llu, "alone_p50_ns": %.0f, "alone_p99_ns": %.0f, "attacked_p50_ns": %.0f, )"
              R"("attacked_p99_ns": %.0f})"
              "\n",
              times[0].size(), static_cast<unsigned long long>(pair.forged()),  // NOLINT(google-runtime-int): printf
              percentile(times[0], 0.5), percentile(times[0], 0.99), percentile(times[1], 0.5),
              percentile(times[1], 0.99));
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace skua::rpc

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 100'000;  // NOLINT(cert-err34-c): 0 is refused below
  const int forgeries = argc > 2 ? std::atoi(argv[2]) : 1;    // NOLINT(cert-err34-c)
  if (argc > 3 || calls <= 0 || forgeries <= 0 || forgeries > 100) {
    std::fprintf(stderr, "usage: attack_latency [CALLS [FORGERIES]], for example attack_latency 100000 8\n");
    return EXIT_FAILURE;
  }
  return skua::rpc::run(calls, forgeries);
}
