// Calls of 32 bytes, both sides on this thread, for a tool that counts the instructions of count_calls():
//
//   call_instructions wire 32 20000     over two arrays of packets: the engine alone
//   call_instructions dpdk 32 20000     over DPDK's ring device: the transport's part as well
//
// Prints how many calls were counted. tests/perf/instructions.py runs it.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "tests/perf/perfect_pair.h"

namespace skua::rpc {

/// Its name is what the tool looks for.
[[gnu::noinline]] void count_calls(SmallCalls& calls, uint64_t count) {
  const uint64_t end = calls.done() + count;
  while (calls.done() < end) calls.turn();
}

namespace {

void run(Pair& pair, uint32_t outstanding, uint64_t count) {
  constexpr uint64_t kWarmUp = 2000;
  SmallCalls calls(pair, outstanding, 1);
  for (const uint64_t end = kWarmUp; calls.done() < end;) calls.turn();
  const uint64_t before = calls.done();
  count_calls(calls, count);
  std::printf("%llu\n", static_cast<unsigned long long>(calls.done() - before));
  calls.finish();
}

void run_over_dpdk(uint32_t outstanding, uint64_t count) {
  DpdkOptions options;
  options.ports = {{"net_ring0", "10.77.0.1/24", ""}};
  options.lanes = 2;
  options.huge_pages = false;
  options.mbuf_count = 8191;
  const auto fabric = DpdkFabric::start(options);
  SKUA_CHECK(fabric.ok(), std::string(fabric.status().message()).c_str());
  const auto end = [&](uint16_t lane) {
    EndpointIdentity identity;
    identity.uuid.bytes = {static_cast<uint8_t>(lane + 1)};
    identity.incarnation = 1;
    auto transport = (*fabric)->make_transport(lane, identity);
    SKUA_CHECK(transport.ok(), std::string(transport.status().message()).c_str());
    return *std::move(transport);
  };
  const std::unique_ptr<Transport> client = end(0);
  const std::unique_ptr<Transport> server = end(1);
  Pair pair(*client, *server, 1);
  run(pair, outstanding, count);
}

}  // namespace
}  // namespace skua::rpc

int main(int argc, char** argv) {
  using namespace skua::rpc;  // NOLINT(google-build-using-namespace)
  if (argc != 4) {
    std::fputs("usage: call_instructions wire|dpdk OUTSTANDING CALLS\n", stderr);
    return 2;
  }
  const auto outstanding = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const uint64_t count = std::strtoull(argv[3], nullptr, 10);
  if (std::string_view(argv[1]) == "dpdk") {
    run_over_dpdk(outstanding, count);
  } else {
    WirePair wire(false, 1);
    run(wire.pair, outstanding, count);
  }
  return 0;
}
