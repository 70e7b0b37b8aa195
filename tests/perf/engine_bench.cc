// What the engine itself costs per small call: both endpoints on one thread, over a wire that is two arrays of packets.
//
//   build/release/bin/engine_bench                                         time per call, client and server together
//   perf stat -e instructions:u build/release/bin/engine_bench --benchmark_min_time=5
//
// BM_SmallCalls: a call is 2 packets sent and 2 received; the wire's own cost (BM_Wire) is to be subtracted. Instructions repeat, times drift.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/endpoint.h"

namespace {

using namespace skua;       // NOLINT(google-build-using-namespace)
using namespace skua::rpc;  // NOLINT(google-build-using-namespace)

constexpr size_t kWirePackets = 128;
constexpr size_t kWirePayload = 960;

struct WirePacket {
  std::array<std::byte, kPacketHeaderBytes> header;
  std::array<std::byte, kWirePayload> payload;
  uint32_t payload_bytes = 0;
};

/// One direction: a ring whose slots are lent to the receiver.
struct Pipe {
  std::vector<WirePacket> ring{kWirePackets};
  size_t written = 0;
  size_t read = 0;
};

class WireTransport final : public Transport {
 public:
  WireTransport(uint8_t number, Pipe& out, Pipe& in, bool integrity) : out_(out), in_(in) {
    identity_.uuid.bytes = {number};
    identity_.incarnation = 1;
    capabilities_.payload_max_bytes = kWirePayload;
    capabilities_.segments_max = kTxSegmentsMax;
    capabilities_.lendable_count = kWirePackets / 2;
    capabilities_.integrity = integrity;
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const TransportCounters& counters() const override { return counters_; }
  [[nodiscard]] Descriptor local_descriptor() const override { return {"wire", identity_, ""}; }
  absl::StatusOr<PeerId> resolve(const Descriptor& /*peer*/) override { return PeerId{0}; }
  size_t tx_burst(std::span<TxPacket> packets) override {
    for (TxPacket& packet : packets) {
      WirePacket& slot = out_.ring[out_.written++ % kWirePackets];
      std::memcpy(slot.header.data(), packet.header.data(), kPacketHeaderBytes);
      slot.payload_bytes = packet.payload_bytes;
      std::byte* to = slot.payload.data();
      for (size_t i = 0; i < packet.segment_count; ++i) {
        std::memcpy(to, packet.segments[i].data(), packet.segments[i].size());
        to += packet.segments[i].size();
      }
      packet.done = true;
    }
    return packets.size();
  }
  size_t rx_burst(std::span<RxPacket> packets) override {
    size_t count = 0;
    for (; count < packets.size() && in_.read < in_.written; ++count) {
      const WirePacket& slot = in_.ring[in_.read++ % kWirePackets];
      RxPacket& packet = packets[count];
      packet.from = 0;
      packet.placed = false;
      packet.header = slot.header;
      packet.payload = ByteSpan(slot.payload).first(slot.payload_bytes);
      packet.buffer = 1;
    }
    return count;
  }
  void release(std::span<const RxBufferId> /*buffers*/) override {}
  void wait(DurationNs /*timeout_ns*/) override {}
  void wake() override {}

 private:
  Pipe& out_;
  Pipe& in_;
  EndpointIdentity identity_;
  Capabilities capabilities_;
  TransportCounters counters_;
};

struct Pair {
  Pair(bool integrity, uint32_t sessions)
      : client_wire(1, there, back, integrity), server_wire(2, back, there, integrity) {
    EndpointOptions options;
    options.spin_ns = kTimeNever;
    options.protocol.window = 64;
    options.sessions_max = options.sessions_per_peer_max = options.sessions_per_host_max = sessions + 1;
    client = std::make_unique<Endpoint>(client_wire, clock, options);
    server = std::make_unique<Endpoint>(server_wire, clock, options);
    server->serve(1, [this](IncomingCall&& call) {
      MessagePtr response = server->make_message();
      SKUA_CHECK(response->append_head(call.request.bytes()), "requests here fit a head");
      call.reply.reply(std::move(response));
    });
    for (uint32_t i = 0; i < sessions; ++i) {
      session.push_back(client->connect(server->local_descriptor()).value());
      for (uint32_t turns = 0; !client->is_connected(session.back()); ++turns) {
        SKUA_CHECK(turns < 10'000, "a session does not open over a perfect wire: was it refused?");
        turn();
      }
    }
  }

  void turn() {
    clock.advance(kMicrosecond);  // a network of constant delay: nothing but the work varies
    client->poll();
    server->poll();
  }

  ManualClock clock;
  Pipe there;
  Pipe back;
  WireTransport client_wire;
  WireTransport server_wire;
  std::unique_ptr<Endpoint> client;
  std::unique_ptr<Endpoint> server;
  std::vector<SessionId> session;
};

/// range(0) calls of 32 bytes in flight, spread over range(1) of the sessions open, range(2).
void BM_SmallCalls(benchmark::State& state) {
  const auto outstanding = static_cast<uint32_t>(state.range(0));
  const auto active = static_cast<uint32_t>(state.range(1));
  Pair pair(false, static_cast<uint32_t>(state.range(2)));
  const std::array<std::byte, 32> content{};
  uint32_t in_flight = 0;
  uint64_t done = 0;
  uint32_t next = 0;
  const uint32_t stride = static_cast<uint32_t>(state.range(2)) / active;
  for (auto iteration : state) {
    static_cast<void>(iteration);
    while (in_flight < outstanding) {
      MessagePtr request = pair.client->make_message();
      SKUA_CHECK(request->append_head(content), "fits");
      const SessionId session = pair.session[(next++ % active) * stride];
      const auto call = pair.client->call(session, 1, std::move(request), {}, [&](CallResult&& result) {
        SKUA_CHECK(result.status.ok(), "a call over a perfect wire failed");
        --in_flight;
        ++done;
      });
      SKUA_CHECK(call.ok(), "a call was refused");
      ++in_flight;
    }
    pair.turn();
  }
  while (in_flight > 0) pair.turn();
  state.SetItemsProcessed(static_cast<int64_t>(done));
  state.counters["calls"] = benchmark::Counter(static_cast<double>(done), benchmark::Counter::kIsRate);
  state.counters["ns_per_call"] =
      benchmark::Counter(static_cast<double>(done) / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_SmallCalls)
    ->Args({32, 1, 1})
    ->Args({1, 1, 1})
    ->Args({128, 1, 1})
    ->Args({256, 1, 1})
    ->Args({64, 64, 64})
    ->Args({64, 64, 20'000});

/// Messages of range(0) bytes there and range(1) bytes back, one at a time.
void BM_LargeMessages(benchmark::State& state) {
  Pair pair(false, 1);
  const std::vector<std::byte> content(static_cast<size_t>(std::max(state.range(0), state.range(1))));
  auto message = [&](Endpoint& endpoint, int64_t bytes) {
    MessagePtr out = endpoint.make_message();
    SKUA_CHECK(out->add_body(ByteSpan(content).first(static_cast<size_t>(bytes)), nullptr, nullptr), "one body");
    return out;
  };
  pair.server->serve(2, [&](IncomingCall&& call) { call.reply.reply(message(*pair.server, state.range(1))); });
  const uint64_t packets_before = pair.client->counters().packets_sent + pair.server->counters().packets_sent;
  for (auto iteration : state) {
    static_cast<void>(iteration);
    bool done = false;
    const auto call =
        pair.client->call(pair.session[0], 2, message(*pair.client, state.range(0)), {}, [&done](CallResult&& result) {
          SKUA_CHECK(result.status.ok(), "a call over a perfect wire failed");
          done = true;
        });
    SKUA_CHECK(call.ok(), "a call was refused");
    while (!done) pair.turn();
  }
  const uint64_t packets = pair.client->counters().packets_sent + pair.server->counters().packets_sent - packets_before;
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * (state.range(0) + state.range(1)));
  state.counters["packets_per_message"] =
      benchmark::Counter(static_cast<double>(packets), benchmark::Counter::kAvgIterations);
  state.counters["ns_per_packet"] =
      benchmark::Counter(static_cast<double>(packets) / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_LargeMessages)->Args({1 << 20, 4})->Args({4, 1 << 20});

/// The wire alone: two packets there and back.
void BM_Wire(benchmark::State& state) {
  Pipe there;
  Pipe back;
  WireTransport client(1, there, back, true);
  WireTransport server(2, back, there, true);
  std::array<TxPacket, kBurstMax> tx;
  std::array<RxPacket, kBurstMax> rx;
  const std::array<std::byte, 32> content{};
  for (TxPacket& packet : tx) {
    packet.segment_count = 1;
    packet.payload_bytes = content.size();
    packet.segments[0] = content;
  }
  for (auto iteration : state) {
    static_cast<void>(iteration);
    client.tx_burst(tx);
    benchmark::DoNotOptimize(server.rx_burst(rx));
    server.tx_burst(tx);
    benchmark::DoNotOptimize(client.rx_burst(rx));
  }
  state.counters["ns_per_call"] = benchmark::Counter(static_cast<double>(state.iterations()) * kBurstMax / 1e9,
                                                     benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Wire);

}  // namespace
