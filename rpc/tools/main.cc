// skua-perf: latency, rate and bandwidth of the engine over each transport.
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "app/config.h"
#include "app/exit.h"
#include "app/process.h"
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
constexpr app::AddressRules kListenRules{.zero_port_allowed = true, .any_host_allowed = true};
/// A longer duration is probably a mistake of the unit.
constexpr DurationNs kDurationMax = 24 * 3600 * kSecond;

struct Settings {
  TestOptions test;
  std::string server;
  std::string listen = "127.0.0.1:18520";
  bool json = false;
  bool once = false;
  /// Clients that a server serves at a time. Each client has its own thread and lane.
  uint16_t clients = 1;
};

std::string text_of(const absl::Status& status) {
  return std::string(status.message());
}

/// Exits with the code for wrong usage if other settings or a change of the machine can help.
[[noreturn]] void fail(const absl::Status& status) {
  const bool usage =
      absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status);
  if (usage) app::fail_usage(kProgram, text_of(status));
  app::fail(kProgram, text_of(status));
}

/// Parses an option that was validated before.
HostPort host_port(const std::string& text) {
  const app::Address address = app::parse_address(text, kListenRules).value_or(app::Address());
  return {address.host, address.port};
}

void check_settings(const app::Program& program, const TestOptions& test) {
  absl::Status status = app::check_transport_flags(program.selected(), test.transport.name);
  if (status.ok() && test.active_sessions > test.sessions) {
    status = absl::InvalidArgumentError(
        absl::StrCat("--active-sessions ", test.active_sessions, " is more than --sessions ", test.sessions));
  }
  if (status.ok() && test.endpoints > 1 && test.idle_ns > 0) {
    status = absl::InvalidArgumentError("--idle is for one endpoint: leave --endpoints at 1");
  }
  if (!status.ok()) app::fail_usage(kProgram, text_of(status));
}

/// Serves clients one after another until `stop`; several threads may share the listener.
absl::Status serve_all(const Socket& listener, const Place& place, bool once, const std::atomic<bool>& stop) {
  while (!stop) {
    absl::StatusOr<Socket> control = accept_from(listener, kAcceptPollMs);
    if (!control.ok()) continue;
    absl::Status status = serve_client(*control, place, stop);
    if (!status.ok()) {
      // The client may still be waiting for the answer to its plan.
      static_cast<void>(send_reply(*control, status));
      std::fputs(app::error_line(kProgram, absl::StrCat("a client's test failed: ", text_of(status))).c_str(), stderr);
    }
    if (once) return status;
  }
  return absl::OkStatus();
}

int run_server(const Settings& settings, app::StopSignal& signal) {
  absl::StatusOr<Socket> listener = listen_on(host_port(settings.listen));
  if (!listener.ok()) app::fail_usage(kProgram, text_of(listener.status()));
  const HostPort address = bound_address(*listener);
  absl::StatusOr<std::unique_ptr<TransportSource>> source =
      TransportSource::open(settings.test.transport, settings.clients);
  if (!source.ok()) fail(source.status());
  std::fprintf(stderr, "%s: serving on %s; stop with Ctrl-C\n", kProgram, address.to_string().c_str());
  std::atomic<bool> stop = false;
  std::atomic<bool> all_well = true;
  std::atomic<uint16_t> serving = settings.clients;
  std::vector<std::thread> servers;
  servers.reserve(settings.clients);
  for (uint16_t lane = 0; lane < settings.clients; ++lane) {
    servers.emplace_back([&, lane] {
      if (!serve_all(*listener, {**source, lane, address.host}, settings.once, stop).ok()) all_well = false;
      if (--serving == 0) signal.request_stop();
    });
  }
  signal.wait();
  stop = true;
  for (std::thread& server : servers) server.join();
  return all_well ? app::kExitOk : app::kExitFailure;
}

using RunClient =
    std::function<absl::StatusOr<TestResult>(const Socket& control, const Place& place, const std::atomic<bool>& stop)>;
using Report = std::function<std::string(const TestResult& result)>;

/// Runs the test on another thread, so that this one can wait for Ctrl-C. True: Ctrl-C was pressed.
bool run_until_stopped(app::StopSignal& signal, const std::function<void(const std::atomic<bool>& stop)>& test) {
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    test(stop);
    signal.request_stop();
  });
  const bool stopped = signal.wait() != 0;
  stop = true;
  thread.join();
  return stopped;
}

int print_result(const Settings& settings, const TestResult& result, bool stopped, const Report& report) {
  std::fputs(report(result).c_str(), stdout);
  std::fflush(stdout);
  if (stopped) {
    std::fprintf(stderr, "%s: stopped after %.1f s of %.1f s: the figures are of that time\n", kProgram,
                 result.seconds(), static_cast<double>(settings.test.duration_ns) / 1e9);
  }
  if (result.failed > 0) {
    const std::string text = absl::StrCat(result.failed, result.failed == 1 ? " call" : " calls",
                                          " failed, the first: ", text_of(result.first_failure));
    std::fputs(app::error_line(kProgram, text).c_str(), stderr);
  }
  return stopped || result.failed > 0 ? app::kExitFailure : app::kExitOk;
}

int run_test(const Settings& settings, app::StopSignal& signal, const RunClient& run_one, const Report& report) {
  // Without a server address, both ends run here. The server uses the lane after those of the calling endpoints.
  const bool alone = settings.server.empty();
  absl::StatusOr<std::unique_ptr<TransportSource>> source =
      TransportSource::open(settings.test.transport, static_cast<uint16_t>(settings.test.endpoints + (alone ? 1 : 0)));
  if (!source.ok()) fail(source.status());
  std::atomic<bool> stop_server = false;
  std::thread own_server;
  HostPort target = host_port(settings.server);
  absl::StatusOr<Socket> listener = Socket();
  if (alone) {
    listener = listen_on({"127.0.0.1", 0});
    if (!listener.ok()) app::fail(kProgram, text_of(listener.status()));
    target = bound_address(*listener);
    own_server = std::thread([&] {
      static_cast<void>(serve_all(*listener, {**source, settings.test.endpoints, "127.0.0.1"}, true, stop_server));
    });
  }
  absl::StatusOr<TestResult> result = stopped_early();
  const bool stopped = run_until_stopped(signal, [&](const std::atomic<bool>& stop) {
    absl::StatusOr<Socket> control = connect_to(target);
    result = control.ok() ? run_one(*control, {**source, 0, ""}, stop) : control.status();
  });
  stop_server = true;
  if (own_server.joinable()) own_server.join();
  if (!result.ok()) fail(result.status());
  return print_result(settings, *result, stopped, report);
}

int run_calls(const std::string& mode, const Settings& settings, app::StopSignal& signal) {
  const TestOptions& test = settings.test;
  return run_test(
      settings, signal,
      [&](const Socket& control, const Place& place, const std::atomic<bool>& stop) {
        return run_client(control, place, test, stop);
      },
      [&](const TestResult& result) {
        return settings.json ? json_report(mode, test, result) : text_report(mode, test, result);
      });
}

int run_memory(const MemoryTest& memory, const Settings& settings, app::StopSignal& signal) {
  const TestOptions& test = settings.test;
  return run_test(
      settings, signal,
      [&](const Socket& control, const Place& place, const std::atomic<bool>& stop) {
        return run_memory_client(control, place, memory, test, stop);
      },
      [&](const TestResult& result) {
        return settings.json ? json_report(memory.name, test, result) : memory_report(memory, test, result);
      });
}

void add_transport_options(app::Command& command, Settings& settings) {
  TransportChoice& choice = settings.test.transport;
  command.add_string("transport", &choice.name, "What carries the packets.").one_of({"tcp", "dpdk", "verbs"});
  command.add_double("loss", &choice.loss, "Share of this side's packets to throw away, 0 to 1 (not over tcp).")
      .range_double(0, 1);
  command.add_bool(
      "trusted-wire", &choice.trusted_wire,
      "The wire detects damage by itself: no checksums on large messages, if the other side says so, too.");
  command.add_choice<PacketProtection>(
      "packets", &choice.packets,
      {{"off", PacketProtection::kOff},
       {"authenticate", PacketProtection::kAuthenticate},
       {"encrypt", PacketProtection::kEncrypt}},
      "Seal packets, to measure what that costs (both ends alike). Keys are exchanged in the clear, so nothing is "
      "protected.");
  app::add_traffic_options(command, &choice.traffic);
  app::add_dpdk_options(command, &choice.dpdk);
  app::add_verbs_options(command, &choice.verbs);
}

/// Bursts through the device without the engine. The engine's figures are compared with this one.
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
  uint32_t since_pause = 0;
  fabric->ping_raw(
      test.outstanding, test.request_bytes,
      [&] {
        const TimeNs now = clock.now_ns();
        measuring = now >= begun;
        return now >= end || signal.wait_for(0).has_value();
      },
      [&](DurationNs round_trip_ns) {
        if (!measuring) return DurationNs{0};
        ++result.calls;
        const bool is_first = test.idle_ns > 0 && since_pause++ == 0;
        (is_first ? result.after_idle_ns : result.latency_ns).record(static_cast<uint64_t>(round_trip_ns));
        if (since_pause <= kCallsBetweenPauses) return DurationNs{0};
        since_pause = 0;
        return test.idle_ns;
      });
  result.elapsed_ns = clock.now_ns() - begun;
  std::fputs((settings.json ? json_report("raw", test, result) : text_report("raw", test, result)).c_str(), stdout);
  return app::kExitOk;
}

void add_server_argument(app::Command& command, Settings& own) {
  command.add_positional("server", &own.server, "HOST:PORT of a skua-perf server; without it both ends run here.")
      .address()
      .optional();
}

void add_times(app::Command& command, TestOptions& test) {
  command.add_duration("duration", &test.duration_ns, "How long to measure.").range(kMillisecond, kDurationMax);
  command.add_duration("warm-up", &test.warm_up_ns, "How long to run before measuring.").range(0, kDurationMax);
}

app::Command& add_test(app::Program& program, Settings& settings, app::StopSignal& signal, const std::string& mode,
                       const std::string& summary, const TestOptions& defaults) {
  app::Command& command = program.add_command(mode, summary);
  auto own = std::make_shared<Settings>();
  own->test = defaults;
  add_server_argument(command, *own);
  add_transport_options(command, *own);
  command.add_size("size", &own->test.request_bytes, "Bytes of a request (at least 4).").range(4, 16 << 20);
  command.add_size("response-size", &own->test.response_bytes, "Bytes of a response.").range(0, 16 << 20);
  command.add_int("outstanding", &own->test.outstanding, "Calls in flight, for each endpoint.")
      .range(1, 4096)
      .unit("calls");
  command
      .add_int("endpoints", &own->test.endpoints,
               "Endpoints that call, as so many clients would; one thread polls them in turn, and never sleeps if "
               "there are several.")
      .range(1, 64)
      .unit("endpoints");
  command.add_int("sessions", &own->test.sessions, "Sessions to open, for each endpoint.")
      .range(1, 60'000)
      .unit("sessions");
  command.add_int("active-sessions", &own->test.active_sessions, "How many of them carry the calls; 0: all.")
      .range(0, 60'000)
      .unit("sessions");
  command.add_duration("idle", &own->test.idle_ns, "Pause so long, then measure one call apart, again and again.")
      .range(0, kDurationMax);
  add_times(command, own->test);
  command.add_choice<bool>("polling", &own->test.busy, {{"busy", true}, {"adaptive", false}},
                           "Spin always, or sleep when idle (both ends).");
  command.action([own, mode, &program, &settings, &signal] {
    check_settings(program, own->test);
    own->json = settings.json;
    return run_calls(mode, *own, signal);
  });
  return command;
}

/// The commands are named after perftest's programs: ib_read_lat is read-lat.
void add_memory_test(app::Program& program, Settings& settings, app::StopSignal& signal, const MemoryTest& test,
                     const std::string& summary) {
  app::Command& command = program.add_command(test.name, summary);
  auto own = std::make_shared<Settings>();
  own->test.transport.name = "verbs";
  own->test.request_bytes = test.bandwidth ? 65'536 : test.kind == OneSidedOperation::Kind::kFetchAdd ? 8 : 2;
  own->test.outstanding = test.bandwidth ? 16 : 1;
  add_server_argument(command, *own);
  add_transport_options(command, *own);
  command.add_size("size", &own->test.request_bytes, "Bytes of an operation (atomics: 8).").range(1, 16 << 20);
  command.add_int("outstanding", &own->test.outstanding, "Operations in flight.").range(1, 64).unit("operations");
  add_times(command, own->test);
  command.action([own, test, &program, &settings, &signal] {
    check_settings(program, own->test);
    own->json = settings.json;
    return run_memory(test, *own, signal);
  });
}

void add_memory_tests(app::Program& program, Settings& settings, app::StopSignal& signal) {
  using Kind = OneSidedOperation::Kind;
  add_memory_test(program, settings, signal, {"read-lat", Kind::kRead, false},
                  "Time of one READ of the server's memory (compare ib_read_lat).");
  add_memory_test(program, settings, signal, {"write-lat", Kind::kWrite, false},
                  "Time of one WRITE, to its completion (ib_write_lat shows half a ping-pong).");
  add_memory_test(program, settings, signal, {"atomic-lat", Kind::kFetchAdd, false},
                  "Time of one FETCH_ADD (compare ib_atomic_lat -A FETCH_AND_ADD).");
  add_memory_test(program, settings, signal, {"read-bw", Kind::kRead, true},
                  "Bytes per second by READs (compare ib_read_bw).");
  add_memory_test(program, settings, signal, {"write-bw", Kind::kWrite, true},
                  "Bytes per second by WRITEs (compare ib_write_bw).");
  add_memory_test(program, settings, signal, {"atomic-bw", Kind::kFetchAdd, true},
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
  command.add_duration("idle", &own->test.idle_ns, "Pause so long, then measure one frame apart, again and again.")
      .range(0, kDurationMax);
  add_times(command, own->test);
  command.action([own, reflect, &settings, &signal] {
    own->json = settings.json;
    return run_raw(*own, *reflect, signal);
  });
}

int run(int argc, char** argv) {
  app::check_process(kProgram, app::kFilesOfClient);
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
  server.add_string("listen", &settings.listen, "Where clients find the server; port 0: the system chooses one.")
      .address(kListenRules)
      .value_name("HOST:PORT");
  server.add_bool("once", &settings.once, "End after one client (after --clients of them).");
  server.add_int("clients", &settings.clients, "Clients served at a time, each by a thread of its own.")
      .range(1, 64)
      .unit("clients");
  add_transport_options(server, settings);
  server.action([&] {
    check_settings(program, settings.test);
    return run_server(settings, **signal);
  });
  server.example("skua-perf server --listen 0.0.0.0:18520", "serve tests to other machines");

  TestOptions latency;
  add_test(program, settings, **signal, "latency", "Round-trip time with few calls in flight.", latency)
      .example("skua-perf latency 127.0.0.1:18520 --size 32", "round trips of 32 bytes");
  TestOptions rate;
  rate.outstanding = 32;
  add_test(program, settings, **signal, "rate", "Calls per second with many in flight; one call of eight is timed.",
           rate)
      .example("skua-perf rate --outstanding 32 --output json", "both ends here, result as JSON");
  TestOptions bandwidth;
  bandwidth.request_bytes = 1 << 20;
  bandwidth.response_bytes = 4;
  bandwidth.outstanding = 8;
  add_test(program, settings, **signal, "bandwidth", "Bytes per second with large messages.", bandwidth)
      .example("skua-perf bandwidth --size 4 --response-size 1MiB", "large responses instead of large requests");
  add_memory_tests(program, settings, **signal);
  add_raw(program, settings, **signal);
  program.parse_or_exit(argc, argv);
  const int code = program.run();
  return code == app::kExitOk ? app::finish_output(kProgram) : code;
}

}  // namespace
}  // namespace skua::rpc::perf

int main(int argc, char** argv) {
  return skua::rpc::perf::run(argc, argv);
}
