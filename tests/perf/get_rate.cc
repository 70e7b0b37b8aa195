// GETs per second by the client library over DPDK, with nothing around it: no workload, no measuring of single
// operations.
//
//   get_rate DEVICE ADDRESS CONTROL TABLE RECORDS BYTES OUTSTANDING SECONDS
//
// SECONDS 0: writes RECORDS values of BYTES. Above: reads keys at random, OUTSTANDING at a time, from one thread that
// never sleeps, and prints one line of JSON: gets_per_second, waited_ms (how long the thread waited for its processor
// meanwhile). Certificates come from SKUA_CERT, SKUA_KEY and SKUA_CA, how packets are protected from SKUA_PACKETS.
// tests/perf/get_ratio.py and packets_ratios.py run the program.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kvstore/client/async_client.h"
#include "kvstore/client/dpdk.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kArguments = 9;
constexpr auto kSetUpWithin = std::chrono::seconds(30);
constexpr auto kWarmUp = std::chrono::milliseconds(500);
constexpr auto kWait = std::chrono::milliseconds(10);
/// The clock is read once in so many turns.
constexpr uint64_t kBetweenLooks = 64;

[[noreturn]] void fail(const std::string& what, const absl::Status& status) {
  std::fprintf(stderr, "get_rate: %s: %s\n", what.c_str(), status.ToString().c_str());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): nobody else ends the program
}

void check(const std::string& what, const absl::Status& status) {
  if (!status.ok()) fail(what, status);
}

/// As the kernel counts it for the calling thread.
double waited_ms() {
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;
  FILE* file = std::fopen("/proc/thread-self/schedstat", "r");
  if (file == nullptr) return 0;
  const int found = std::fscanf(file, "%lu %lu", &ran_ns, &waited_ns);
  std::fclose(file);
  return found == 2 ? static_cast<double>(waited_ns) / 1e6 : 0;
}

class Bench {
 public:
  Bench(AsyncClient& client, std::string table, uint64_t records, size_t bytes, uint64_t outstanding)
      : client_(client), table_(std::move(table)), records_(records), bytes_(bytes), outstanding_(outstanding) {}

  void load() {
    const std::string value(bytes_, 'v');
    for (uint64_t i = 0; i < records_; ++i) {
      while (client_.in_flight() >= outstanding_) client_.poll();
      check("put", client_.put(table_, view(key_of(i)), std::string_view(value), {.durability = Durability::kMemory},
                               [](WriteResult&& result) { check("put", result.status); }));
    }
    while (client_.in_flight() > 0) client_.poll();
  }

  /// GETs per second.
  double run(Clock::duration time) {
    const Clock::time_point begin = Clock::now();
    const Clock::time_point end = begin + time;
    Clock::time_point now = begin;
    gets_ = 0;
    for (uint64_t turn = 0; now < end; ++turn) {
      while (client_.in_flight() < outstanding_) start();
      client_.poll(kWait);
      if (turn % kBetweenLooks == 0) now = Clock::now();
    }
    while (client_.in_flight() > 0) client_.poll(kWait);
    return static_cast<double>(gets_) / std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  /// 16 bytes, made rather than kept: keys in memory would cost the client a miss each.
  using Key = std::array<uint64_t, 2>;

  static Key key_of(uint64_t record) { return {mix64(record), mix64(~record)}; }
  static std::string_view view(const Key& key) { return {reinterpret_cast<const char*>(key.data()), sizeof key}; }

  void start() {
    check("get", client_.get(table_, view(key_of(rng_.below(records_))), {},
                             [this](const GetResult& result) { done(result); }));
  }

  void done(const GetResult& result) {
    check("get", result.status);
    if (result.value.bytes().size() != bytes_) fail("get", absl::DataLossError("a value of another size"));
    ++gets_;
  }

  AsyncClient& client_;
  const std::string table_;
  const uint64_t records_;
  const size_t bytes_;
  const uint64_t outstanding_;
  Rng rng_{1};
  uint64_t gets_ = 0;
};

std::string variable(const char* name) {
  const char* const found = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  return found == nullptr ? "" : found;
}

int run(char** arguments) {
  rpc::DpdkSettings settings = dpdk_client_settings();
  settings.devices = arguments[1];
  settings.addresses = arguments[2];
  absl::StatusOr<TransportMaker> maker = dpdk_transports(settings, 1);
  check("DPDK", maker.status());
  const std::string table = arguments[4];
  ClientOptions options;
  options.control_address = arguments[3];
  options.timeout = kSetUpWithin;
  options.spin = kSetUpWithin;
  options.make_transport = *std::move(maker);
  options.credentials = {variable("SKUA_CERT"), variable("SKUA_KEY"), variable("SKUA_CA")};
  if (variable("SKUA_PACKETS") == "off") options.packets = rpc::PacketProtection::kOff;
  if (variable("SKUA_PACKETS") == "authenticate") options.packets = rpc::PacketProtection::kAuthenticate;
  absl::StatusOr<std::unique_ptr<AsyncClient>> client = AsyncClient::create(std::move(options));
  check("client", client.status());
  check("warm up", (*client)->warm_up(table, kSetUpWithin));
  const auto number = [&](int i) { return std::strtoull(arguments[i], nullptr, 10); };
  Bench bench(**client, table, number(5), number(6), number(7));
  if (number(8) == 0) {
    bench.load();
    return 0;
  }
  bench.run(kWarmUp);
  const double waited_before = waited_ms();
  const double rate = bench.run(std::chrono::seconds(number(8)));
  std::printf("{\"gets_per_second\": %.0f, \"waited_ms\": %.1f}\n", rate, waited_ms() - waited_before);
  return 0;
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  if (argc == skua::kv::kArguments) return skua::kv::run(argv);
  std::fprintf(stderr, "usage: get_rate DEVICE ADDRESS CONTROL TABLE RECORDS BYTES OUTSTANDING SECONDS\n");
  return 2;
}
