// What the engine itself costs per small call: both endpoints on one thread, over a wire that is two arrays of packets.
//
//   build/release/bin/engine_bench                                         time per call, client and server together
//   perf stat -e instructions:u build/release/bin/engine_bench --benchmark_min_time=5
//
// BM_SmallCalls: a call is 2 packets sent and 2 received; the wire's own cost (BM_Wire) is to be subtracted.
// Instructions repeat, times drift.
#include <benchmark/benchmark.h>

#include <array>

#include "rpc/base/check.h"
#include "tests/perf/perfect_pair.h"

namespace {

using namespace skua;       // NOLINT(google-build-using-namespace)
using namespace skua::rpc;  // NOLINT(google-build-using-namespace)

/// range(0) calls of 32 bytes in flight, spread over range(1) of the sessions open, range(2).
void BM_SmallCalls(benchmark::State& state) {
  WirePair wire(false, static_cast<uint32_t>(state.range(2)));
  SmallCalls calls(wire.pair, static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)));
  for (auto iteration : state) {
    static_cast<void>(iteration);
    calls.turn();
  }
  calls.finish();
  const auto done = static_cast<double>(calls.done());
  state.SetItemsProcessed(static_cast<int64_t>(calls.done()));
  state.counters["calls"] = benchmark::Counter(done, benchmark::Counter::kIsRate);
  state.counters["ns_per_call"] =
      benchmark::Counter(done / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
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
  WirePair wire(false, 1);
  LargeMessages messages(wire.pair, static_cast<size_t>(state.range(0)), static_cast<size_t>(state.range(1)));
  const uint64_t packets_before = messages.packets();
  for (auto iteration : state) {
    static_cast<void>(iteration);
    messages.call();
  }
  const uint64_t packets = messages.packets() - packets_before;
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
