// The two sides of a measurement: a server that echoes sizes, and a client that keeps calls in flight.
//
// A request's first four bytes say how long the response is to be. Responses up to 256 bytes are copied behind the header, larger
// ones sent from one buffer that stays where it is; so do requests.
#ifndef SKUA_RPC_TOOLS_PERF_RUN_H_
#define SKUA_RPC_TOOLS_PERF_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/histogram.h"
#include "rpc/endpoint.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/tools/perf_exchange.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::rpc::perf {

inline constexpr MethodId kEchoSize = 1;

/// What carries the packets of a test.
struct TransportChoice {
  std::string name = "tcp";
  DpdkSettings dpdk;
  VerbsSettings verbs;
  /// Share of the packets sent by this side that are thrown away (unreliable transports).
  double loss = 0;
  /// Of this side.
  TrafficSettings traffic;
  /// EndpointOptions::trusted_wire, of this side.
  bool trusted_wire = false;
};

/// Of tests that pause (TestOptions::idle_ns): so many calls in a row follow the first, for comparison.
inline constexpr uint32_t kCallsBetweenPauses = 1000;

/// Makes transports of one kind for stand-alone tools: no cluster, a fresh identity each. Lives longer than they do.
class TransportSource {
 public:
  /// For up to `lanes` transports at a time. INVALID_ARGUMENT names the transports there are, or what is wrong with the settings.
  static absl::StatusOr<std::unique_ptr<TransportSource>> open(const TransportChoice& choice, uint16_t lanes);

  /// `listen_host`: where a transport that listens does so; empty: it only dials. `beside`: one that was made here, which
  /// the same thread polls; null: none.
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
  std::unique_ptr<DpdkFabric> dpdk_;
  std::unique_ptr<VerbsFabric> verbs_;
};

struct TestOptions {
  TransportChoice transport;
  uint32_t request_bytes = 32;
  uint32_t response_bytes = 32;
  uint32_t outstanding = 1;
  /// Sessions to open, and how many of them (spread evenly) carry the calls; 0: all.
  uint32_t sessions = 1;
  uint32_t active_sessions = 0;
  /// Endpoints that call, each with its own transport, sessions and outstanding calls; one thread polls them in turn.
  /// Above 1 it spins.
  uint16_t endpoints = 1;
  /// Above 0: after each such pause, in which nothing is sent, one call is measured apart.
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
  /// Of the first call after each pause.
  Histogram after_idle_ns{100 * static_cast<uint64_t>(kSecond)};
  EndpointCounters engine;
  TransportCounters transport;

  [[nodiscard]] double seconds() const { return static_cast<double>(elapsed_ns) / 1e9; }
  [[nodiscard]] double calls_per_second() const { return static_cast<double>(calls) / seconds(); }
};

/// Where a test's transport comes from.
struct Place {
  TransportSource& source;
  uint16_t lane = 0;
  std::string listen_host;
};

/// Serves one client until it closes `control` or `stop` is set. Thread: the caller's polls.
absl::Status serve_client(const Socket& control, const Place& place, const std::atomic<bool>& stop);

/// Runs one test against the server behind `control`, on the source's lanes from `place.lane` on, one for each endpoint.
/// When `stop` is set it ends early, with what was measured till then; CANCELLED: nothing was.
absl::StatusOr<TestResult> run_client(const Socket& control, const Place& place, const TestOptions& options,
                                      const std::atomic<bool>& stop);

inline absl::Status stopped_early() {
  return absl::CancelledError("stopped before anything was measured");
}

}  // namespace skua::rpc::perf

#endif  // SKUA_RPC_TOOLS_PERF_RUN_H_
