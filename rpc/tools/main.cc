// skua-perf: latency, rate and bandwidth of the engine over each transport.
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/config.h"
#include "app/exit.h"
#include "app/signals.h"
#include "app/transport_options.h"
#include "rpc/tools/perf_exchange.h"
#include "rpc/tools/perf_memory.h"
#include "rpc/tools/perf_report.h"
#include "rpc/tools/perf_run.h"

namespace skua::rpc::perf {
namespace {

constexpr char kProgram[] = "skua-perf";
constexpr int kAcceptPollMs = 200;

struct Settings {
  TestOptions test;
  std::string server;
  std::string listen = "127.0.0.1:18520";
  bool json = false;
  bool once = false;
  /// Clients that a server serves at a time, each by a thread and a lane of its own.
  uint16_t clients = 1;
};

std::string text_of(const absl::Status& status) {
  return std::string(status.message());
}

/// What a change of settings or of the machine cures is a matter of usage.
[[noreturn]] void fail(const absl::Status& status) {
  const bool usage =
      absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status);
  if (usage) app::fail_usage(kProgram, text_of(status));
  app::fail(kProgram, text_of(status));
}

/// Serves clients one after another until `stop`; several threads may share the listener.
absl::Status serve_all(const Socket& listener, const Place& place, bool once, const std::atomic<bool>& stop) {
  while (!stop) {
    absl::StatusOr<Socket> control = accept_from(listener, kAcceptPollMs);
    if (!control.ok()) continue;
    absl::Status status = serve_client(*control, place, stop);
    if (!status.ok()) std::fprintf(stderr, "%s: a client's test failed: %s\n", kProgram, text_of(status).c_str());
    if (once) return status;
  }
  return absl::OkStatus();
}

int run_server(const Settings& settings, app::StopSignal& signal) {
  absl::StatusOr<HostPort> address = HostPort::parse(settings.listen);
  if (!address.ok()) app::fail_usage(kProgram, text_of(address.status()));
  absl::StatusOr<Socket> listener = listen_on(*address);
  if (!listener.ok()) app::fail_usage(kProgram, text_of(listener.status()));
  absl::StatusOr<std::unique_ptr<TransportSource>> source =
      TransportSource::open(settings.test.transport, settings.clients);
  if (!source.ok()) fail(source.status());
  std::fprintf(stderr, "%s: serving on %s; stop with Ctrl-C\n", kProgram, settings.listen.c_str());
  std::atomic<bool> stop = false;
  std::atomic<bool> all_well = true;
  std::atomic<uint16_t> serving = settings.clients;
  std::vector<std::thread> servers;
  servers.reserve(settings.clients);
  for (uint16_t lane = 0; lane < settings.clients; ++lane) {
    servers.emplace_back([&, lane] {
      if (!serve_all(*listener, {**source, lane, address->host}, settings.once, stop).ok()) all_well = false;
      if (--serving == 0) signal.request_stop();
    });
  }
  signal.wait();
  stop = true;
  for (std::thread& server : servers) server.join();
  return all_well ? app::kExitOk : app::kExitFailure;
}

using RunClient = std::function<absl::StatusOr<TestResult>(const Socket& control, const Place& place)>;
using Report = std::function<std::string(const TestResult& result)>;

int run_test(const Settings& settings, const RunClient& run_one, const Report& report) {
  // Without a server to go to, both ends run here, each on a lane of its own.
  const bool alone = settings.server.empty();
  absl::StatusOr<std::unique_ptr<TransportSource>> source =
      TransportSource::open(settings.test.transport, alone ? uint16_t{2} : uint16_t{1});
  if (!source.ok()) fail(source.status());
  std::atomic<bool> stop = false;
  std::thread own_server;
  std::string target = settings.server;
  absl::StatusOr<Socket> listener = Socket();
  if (alone) {
    listener = listen_on({"127.0.0.1", 0});
    if (!listener.ok()) app::fail(kProgram, text_of(listener.status()));
    target = absl::StrCat("127.0.0.1:", bound_port(*listener));
    own_server = std::thread([&] { static_cast<void>(serve_all(*listener, {**source, 1, "127.0.0.1"}, true, stop)); });
  }
  auto join = [&] {
    stop = true;
    if (own_server.joinable()) own_server.join();
  };
  absl::StatusOr<HostPort> address = HostPort::parse(target);
  if (!address.ok()) app::fail_usage(kProgram, text_of(address.status()));
  absl::StatusOr<TestResult> result = [&]() -> absl::StatusOr<TestResult> {
    absl::StatusOr<Socket> control = connect_to(*address);
    if (!control.ok()) return control.status();
    return run_one(*control, {**source, 0, ""});
  }();
  join();
  if (!result.ok()) fail(result.status());
  std::fputs(report(*result).c_str(), stdout);
  if (result->failed == 0) return app::kExitOk;
  std::fprintf(stderr, "%s: %llu failed: %s\n", kProgram, static_cast<unsigned long long>(result->failed),
               text_of(result->first_failure).c_str());
  return app::kExitFailure;
}

int run_calls(const std::string& mode, const Settings& settings) {
  const TestOptions& test = settings.test;
  return run_test(
      settings, [&](const Socket& control, const Place& place) { return run_client(control, place, test); },
      [&](const TestResult& result) {
        return settings.json ? json_report(mode, test, result) : text_report(mode, test, result);
      });
}

int run_memory(const MemoryTest& memory, const Settings& settings) {
  const TestOptions& test = settings.test;
  return run_test(
      settings,
      [&](const Socket& control, const Place& place) { return run_memory_client(control, place, memory, test); },
      [&](const TestResult& result) {
        return settings.json ? json_report(memory.name, test, result) : memory_report(memory, test, result);
      });
}

void add_transport_options(app::Command& command, Settings& settings) {
  TransportChoice& choice = settings.test.transport;
  command.add_string("transport", &choice.name, "What carries the packets.").one_of({"tcp", "dpdk", "verbs"});
  command.add_double("loss", &choice.loss, "Share of this side's packets to throw away, 0 to 1 (not over tcp).")
      .range_double(0, 1);
  app::add_traffic_options(command, &choice.traffic);
  app::add_dpdk_options(command, &choice.dpdk);
  app::add_verbs_options(command, &choice.verbs);
}

/// Bursts through the device and nothing else: what the engine's figures are compared with.
int run_raw(const Settings& settings, bool reflect, app::StopSignal& signal) {
  absl::StatusOr<std::unique_ptr<TransportSource>> source = TransportSource::open(settings.test.transport, 1);
  if (!source.ok()) fail(source.status());
  DpdkFabric* fabric = (*source)->dpdk();
  if (fabric == nullptr) app::fail_usage(kProgram, "raw bursts are for --transport dpdk");
  if (reflect) {
    fabric->reflect_raw([&] { return signal.wait_for(0).has_value(); });
    return app::kExitOk;
  }
  const SteadyClock clock;
  const TestOptions& test = settings.test;
  TestResult result;
  const TimeNs begun = clock.now_ns() + test.warm_up_ns;
  const TimeNs end = begun + test.duration_ns;
  bool measuring = false;
  fabric->ping_raw(
      test.outstanding, test.request_bytes,
      [&] {
        const TimeNs now = clock.now_ns();
        measuring = now >= begun;
        return now >= end || signal.wait_for(0).has_value();
      },
      [&](DurationNs round_trip_ns) {
        if (!measuring) return;
        ++result.calls;
        result.latency_ns.record(static_cast<uint64_t>(round_trip_ns));
      });
  result.elapsed_ns = clock.now_ns() - begun;
  std::fputs((settings.json ? json_report("raw", test, result) : text_report("raw", test, result)).c_str(), stdout);
  return app::kExitOk;
}

app::Command& add_test(app::Program& program, Settings& settings, const std::string& mode, const std::string& summary,
                       const TestOptions& defaults) {
  app::Command& command = program.add_command(mode, summary);
  auto own = std::make_shared<Settings>();
  own->test = defaults;
  command.add_positional("server", &own->server, "HOST:PORT of a skua-perf server; without it both ends run here.")
      .optional();
  add_transport_options(command, *own);
  command.add_size("size", &own->test.request_bytes, "Bytes of a request (at least 4).").range(4, 16 << 20);
  command.add_size("response-size", &own->test.response_bytes, "Bytes of a response.").range(0, 16 << 20);
  command.add_int("outstanding", &own->test.outstanding, "Calls in flight.").range(1, 4096).unit("calls");
  command.add_int("sessions", &own->test.sessions, "Sessions to open.").range(1, 60'000).unit("sessions");
  command.add_int("active-sessions", &own->test.active_sessions, "How many of them carry the calls; 0: all.")
      .range(0, 60'000)
      .unit("sessions");
  command.add_duration("idle", &own->test.idle_ns, "Pause so long, then measure one call apart, again and again.")
      .at_least(0);
  command.add_duration("duration", &own->test.duration_ns, "How long to measure.").at_least(kMillisecond);
  command.add_duration("warm-up", &own->test.warm_up_ns, "How long to run before measuring.").at_least(0);
  command.add_choice<bool>("polling", &own->test.busy, {{"busy", true}, {"adaptive", false}},
                           "Spin always, or sleep when idle (both ends).");
  command.action([own, mode, &settings] {
    own->json = settings.json;
    return run_calls(mode, *own);
  });
  return command;
}

/// Named after the programs of perftest: ib_read_lat is read-lat.
void add_memory_test(app::Program& program, Settings& settings, const MemoryTest& test, const std::string& summary) {
  app::Command& command = program.add_command(test.name, summary);
  auto own = std::make_shared<Settings>();
  own->test.transport.name = "verbs";
  own->test.request_bytes = test.bandwidth ? 65'536 : test.kind == OneSidedOperation::Kind::kFetchAdd ? 8 : 2;
  own->test.outstanding = test.bandwidth ? 16 : 1;
  command.add_positional("server", &own->server, "HOST:PORT of a skua-perf server; without it both ends run here.")
      .optional();
  add_transport_options(command, *own);
  command.add_size("size", &own->test.request_bytes, "Bytes of an operation (atomics: 8).").range(1, 16 << 20);
  command.add_int("outstanding", &own->test.outstanding, "Operations in flight.").range(1, 64).unit("operations");
  command.add_duration("duration", &own->test.duration_ns, "How long to measure.").at_least(kMillisecond);
  command.add_duration("warm-up", &own->test.warm_up_ns, "How long to run before measuring.").at_least(0);
  command.action([own, test, &settings] {
    own->json = settings.json;
    return run_memory(test, *own);
  });
}

void add_memory_tests(app::Program& program, Settings& settings) {
  using Kind = OneSidedOperation::Kind;
  add_memory_test(program, settings, {"read-lat", Kind::kRead, false},
                  "Time of one READ of the server's memory (compare ib_read_lat).");
  add_memory_test(program, settings, {"write-lat", Kind::kWrite, false},
                  "Time of one WRITE, to its completion (ib_write_lat shows half a ping-pong).");
  add_memory_test(program, settings, {"atomic-lat", Kind::kFetchAdd, false},
                  "Time of one FETCH_ADD (compare ib_atomic_lat -A FETCH_AND_ADD).");
  add_memory_test(program, settings, {"read-bw", Kind::kRead, true}, "Bytes per second by READs (compare ib_read_bw).");
  add_memory_test(program, settings, {"write-bw", Kind::kWrite, true},
                  "Bytes per second by WRITEs (compare ib_write_bw).");
  add_memory_test(program, settings, {"atomic-bw", Kind::kFetchAdd, true},
                  "FETCH_ADDs per second (compare ib_atomic_bw).");
}

void add_raw(app::Program& program, Settings& settings, app::StopSignal& signal) {
  app::Command& command =
      program.add_command("raw", "Bare bursts through a DPDK device, without the engine: the floor of its figures.");
  auto own = std::make_shared<Settings>();
  own->test.transport.name = "dpdk";
  own->test.outstanding = 1;
  own->test.request_bytes = 106;
  own->test.response_bytes = 106;
  auto reflect = std::make_shared<bool>(false);
  add_transport_options(command, *own);
  command.add_bool("reflect", reflect.get(), "Send back what comes, until stopped: the other end of the test.");
  command.add_size("size", &own->test.request_bytes, "Bytes of a frame.").range(64, 9000);
  command.add_int("outstanding", &own->test.outstanding, "Frames in flight.").range(1, 4096).unit("frames");
  command.add_duration("duration", &own->test.duration_ns, "How long to measure.").at_least(kMillisecond);
  command.add_duration("warm-up", &own->test.warm_up_ns, "How long to run before measuring.").at_least(0);
  command.action([own, reflect, &settings, &signal] {
    own->json = settings.json;
    return run_raw(*own, *reflect, signal);
  });
}

int run(int argc, char** argv) {
  absl::StatusOr<std::unique_ptr<app::StopSignal>> signal = app::StopSignal::install();
  if (!signal.ok()) app::fail(kProgram, text_of(signal.status()));
  Settings settings;
  app::Program program({.name = kProgram,
                        .summary = "Latency, rate and bandwidth of Skua's RPC engine over a transport.",
                        .description =
                            "Start `skua-perf server` on one machine and a test on another; the two exchange "
                            "endpoint descriptors over a plain TCP connection, then run the test over the "
                            "chosen transport. A test without a server runs both ends in one process."});
  program.add_choice<bool>("output", &settings.json, {{"text", false}, {"json", true}}, "How results are printed.");
  app::Command& server = program.add_command("server", "Serves tests, one client after another or several at a time.");
  server.add_string("listen", &settings.listen, "Where clients find the server.").value_name("HOST:PORT");
  server.add_bool("once", &settings.once, "End after one client (after --clients of them).");
  server.add_int("clients", &settings.clients, "Clients served at a time, each by a thread of its own.")
      .range(1, 64)
      .unit("clients");
  add_transport_options(server, settings);
  server.action([&] { return run_server(settings, **signal); });
  server.example("skua-perf server --listen 0.0.0.0:18520", "serve tests to other machines");

  TestOptions latency;
  add_test(program, settings, "latency", "Round-trip time with few calls in flight.", latency)
      .example("skua-perf latency 127.0.0.1:18520 --size 32", "round trips of 32 bytes");
  TestOptions rate;
  rate.outstanding = 32;
  add_test(program, settings, "rate", "Calls per second with many in flight; one call of eight is timed.", rate)
      .example("skua-perf rate --outstanding 32 --output json", "both ends here, result as JSON");
  TestOptions bandwidth;
  bandwidth.request_bytes = 1 << 20;
  bandwidth.response_bytes = 4;
  bandwidth.outstanding = 8;
  add_test(program, settings, "bandwidth", "Bytes per second with large messages.", bandwidth)
      .example("skua-perf bandwidth --size 4 --response-size 1MiB", "large responses instead of large requests");
  add_memory_tests(program, settings);
  add_raw(program, settings, **signal);
  program.parse_or_exit(argc, argv);
  return program.run();
}

}  // namespace
}  // namespace skua::rpc::perf

int main(int argc, char** argv) {
  return skua::rpc::perf::run(argc, argv);
}
