// Calls, both sides on this thread, for a tool that counts the instructions of count_calls():
//
//   call_instructions wire 32 20000         32 bytes, 32 in flight, over two arrays of packets: the engine alone
//   call_instructions dpdk 32 20000         over DPDK's ring device: the transport's part as well
//   call_instructions memif requests 20     requests of 1 MiB over a memif pair, whose driver copies; or responses
//   call_instructions jumbo requests 20     the same in frames of 9,000 bytes
//   call_instructions trusted requests 20   the same over memif without checksums
//
// Prints how many calls (packets, of large messages) were counted, and the time of each. tests/perf/instructions.py
// runs it.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
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

[[gnu::noinline]] void count_calls(LargeMessages& messages, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) messages.call();
}

namespace {

struct Load {
  std::string_view kind;  // how many in flight, or which messages are large
  uint64_t count;
};

void report(uint64_t count, TimeNs began_ns) {
  const auto time_ns = static_cast<double>(SteadyClock().now_ns() - began_ns);
  std::fprintf(stderr, "%.1f ns each\n", time_ns / static_cast<double>(count));
  std::printf("%llu\n", static_cast<unsigned long long>(count));
}

void run_large(Pair& pair, const Load& load) {
  constexpr size_t kLarge = 1 << 20;
  constexpr size_t kSmall = 4;
  const bool is_requests = load.kind == "requests";
  LargeMessages messages(pair, is_requests ? kLarge : kSmall, is_requests ? kSmall : kLarge);
  for (int i = 0; i < 3; ++i) messages.call();
  const uint64_t before = messages.packets();
  const TimeNs began_ns = SteadyClock().now_ns();
  count_calls(messages, load.count);
  report(messages.packets() - before, began_ns);
}

void run(Pair& pair, const Load& load) {
  if (load.kind == "requests" || load.kind == "responses") return run_large(pair, load);
  constexpr uint64_t kWarmUp = 2000;
  SmallCalls calls(pair, static_cast<uint32_t>(std::strtoul(std::string(load.kind).c_str(), nullptr, 10)), 1);
  for (const uint64_t end = kWarmUp; calls.done() < end;) calls.turn();
  const uint64_t before = calls.done();
  const TimeNs began_ns = SteadyClock().now_ns();
  count_calls(calls, load.count);
  report(calls.done() - before, began_ns);
  calls.finish();
}

/// Two ports: what goes out by the first comes in by the second.
std::vector<DpdkPortOptions> memif_pair(const std::string& socket, bool is_jumbo) {
  const auto device = [&](const char* role) {
    return std::string("net_memif") + (std::string_view(role) == "server" ? "0" : "1") + ",role=" + role +
           ",socket=" + socket + ",socket-abstract=no" + (is_jumbo ? ",bsize=9216" : "");
  };
  return {{device("server"), "10.77.0.1/24", ""}, {device("client"), "10.78.0.1/24", ""}};
}

void run_over_dpdk(std::string_view wire, const Load& load) {
  const bool is_jumbo = wire == "jumbo";
  const bool is_memif = is_jumbo || wire == "memif" || wire == "trusted";
  DpdkOptions options;
  const std::string socket = "/tmp/call-instructions-" + std::to_string(getpid()) + ".sock";
  options.ports =
      is_memif ? memif_pair(socket, is_jumbo) : std::vector<DpdkPortOptions>{{"net_ring0", "10.77.0.1/24", ""}};
  options.lanes = 2;
  options.mtu = is_jumbo ? 8986 : is_memif ? 1010 : 0;  // frames of 9,000 and of 1,024 bytes
  options.huge_pages = false;
  options.mbuf_count = 8191;
  const auto fabric = DpdkFabric::start(options);
  SKUA_CHECK(fabric.ok(), std::string(fabric.status().message()).c_str());
  const auto is_up = [&] {
    const std::vector<std::string> ports = (*fabric)->describe();
    return std::all_of(ports.begin(), ports.end(), [](const std::string& p) { return p.ends_with("link up"); });
  };
  const SteadyClock clock;
  const TimeNs give_up_ns = clock.now_ns() + 10 * kSecond;
  while (!is_up()) {
    SKUA_CHECK(clock.now_ns() < give_up_ns, "the ports have no link after ten seconds");
    usleep(1000);
  }
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
  Pair pair(*client, *server, 1, wire == "trusted");
  // Both lanes poll both ports. Whoever receives the large message takes all that there is, and nothing is left for the
  // other one, who would have to hand it over.
  if (is_memif) (load.kind == "responses" ? pair.client_polls : pair.server_polls) = 4;
  run(pair, load);
}

}  // namespace
}  // namespace skua::rpc

int main(int argc, char** argv) {
  using namespace skua::rpc;  // NOLINT(google-build-using-namespace)
  if (argc != 4) {
    std::fputs("usage: call_instructions wire|dpdk|memif|jumbo|trusted OUTSTANDING|requests|responses CALLS\n", stderr);
    return 2;
  }
  const std::string_view wire_name = argv[1];
  const Load load{argv[2], std::strtoull(argv[3], nullptr, 10)};
  if (wire_name == "wire") {
    WirePair wire(false, 1);
    run(wire.pair, load);
  } else {
    run_over_dpdk(wire_name, load);
  }
  return 0;
}
