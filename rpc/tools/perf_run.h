// The two sides of a measurement: a server that answers with the wanted number of bytes, and a client that keeps calls
// in flight.
//
// The first four bytes of a request tell how long the response shall be. Requests and responses up to 256 bytes are
// copied behind the header. Larger ones are sent from one buffer that never moves.
#ifndef SKUA_RPC_TOOLS_PERF_RUN_H_
#define SKUA_RPC_TOOLS_PERF_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/histogram.h"
#include "rpc/base/tsc_clock.h"
#include "rpc/endpoint.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/tools/perf_exchange.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/sealed/packet_protection.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::rpc::perf {

inline constexpr MethodId kEchoSize = 1;

/// What carries the packets of a test.
struct TransportChoice {
  std::string name = "tcp";
  DpdkSettings dpdk;
  VerbsSettings verbs;
  /// Share of the packets sent by this side that are thrown away. Only for unreliable transports.
  double loss = 0;
  /// The traffic settings of this side.
  TrafficSettings traffic;
  /// EndpointOptions::trusted_wire, of this side.
  bool trusted_wire = false;
  /// Both sides must choose it, or none. Keys go over the exchange in the clear: this measures, and protects nothing.
  PacketProtection packets = PacketProtection::kOff;
};

/// Tests that pause (TestOptions::idle_ns) make this many calls in a row after the first one, for comparison.
inline constexpr uint32_t kCallsBetweenPauses = 1000;

/// Makes transports of one kind for stand-alone tools: without a cluster, each with a new identity. Must outlive the
/// transports.
class TransportSource {
 public:
  /// Makes a source for up to `lanes` transports at a time. INVALID_ARGUMENT names the available transports, or what is
  /// wrong with the settings.
  static absl::StatusOr<std::unique_ptr<TransportSource>> open(const TransportChoice& choice, uint16_t lanes);

  /// `listen_host`: where a listening transport listens; empty: it only dials. `beside`: a transport of this source
  /// that the same thread polls; null: none.
  absl::StatusOr<std::unique_ptr<Transport>> make(uint16_t lane, const std::string& listen_host,
                                                  const Transport* beside = nullptr);
  [[nodiscard]] const TransportChoice& choice() const { return choice_; }
  /// Null unless the transport is dpdk.
  [[nodiscard]] DpdkFabric* dpdk() const { return dpdk_.get(); }

 private:
  explicit TransportSource(TransportChoice choice) : choice_(std::move(choice)) {}
  absl::StatusOr<std::unique_ptr<Transport>> make_plain(uint16_t lane, const std::string& listen_host,
                                                        const Transport* beside);

  const TransportChoice choice_;
  const TscClock clock_;
  std::unique_ptr<DpdkFabric> dpdk_;
  std::unique_ptr<VerbsFabric> verbs_;
};

struct TestOptions {
  TransportChoice transport;
  uint32_t request_bytes = 32;
  uint32_t response_bytes = 32;
  uint32_t outstanding = 1;
  /// Sessions to open, and how many of them (evenly spread) carry the calls; 0: all.
  uint32_t sessions = 1;
  uint32_t active_sessions = 0;
  /// Endpoints that call. Each has its own transport, sessions and outstanding calls. One thread polls them in turn;
  /// with more than one endpoint the thread never sleeps.
  uint16_t endpoints = 1;
  /// Above 0: pauses of this length, in which nothing is sent. After each pause one call is measured separately.
  DurationNs idle_ns = 0;
  DurationNs warm_up_ns = 200 * kMillisecond;
  DurationNs duration_ns = 3 * kSecond;
  bool busy = true;
};

struct TestResult {
  uint64_t calls = 0;
  uint64_t failed = 0;
  absl::Status first_failure;
  DurationNs elapsed_ns = 0;
  /// Round trips in nanoseconds.
  Histogram latency_ns{100 * static_cast<uint64_t>(kSecond)};
  /// Round trips of the first call after each pause, in nanoseconds.
  Histogram after_idle_ns{100 * static_cast<uint64_t>(kSecond)};
  EndpointCounters engine;
  TransportCounters transport;

  [[nodiscard]] double seconds() const { return static_cast<double>(elapsed_ns) / 1e9; }
  [[nodiscard]] double calls_per_second() const { return static_cast<double>(calls) / seconds(); }
};

/// Where the transport of a test comes from: a source, a lane and the address to listen on.
struct Place {
  TransportSource& source;
  uint16_t lane = 0;
  std::string listen_host;
};

/// Serves one client until the client closes `control` or `stop` is set. Thread: the caller's; it polls the endpoint.
absl::Status serve_client(const Socket& control, const Place& place, const std::atomic<bool>& stop);

/// Runs one test against the server behind `control`. Uses one lane of the source per endpoint, from `place.lane` on.
/// If `stop` is set, the test ends early with what was measured until then. CANCELLED: nothing was measured.
absl::StatusOr<TestResult> run_client(const Socket& control, const Place& place, const TestOptions& options,
                                      const std::atomic<bool>& stop);

inline absl::Status stopped_early() {
  return absl::CancelledError("stopped before anything was measured");
}

}  // namespace skua::rpc::perf

#endif  // SKUA_RPC_TOOLS_PERF_RUN_H_
