// skua-perf: latency, rate and bandwidth of the engine over each transport.
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "app/config.h"
#include "app/exit.h"
#include "app/signals.h"
#include "rpc/tools/perf_exchange.h"
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
};

std::string text_of(const absl::Status& status) {
  return std::string(status.message());
}

/// Serves clients one after another until `stop`.
absl::Status serve_all(const Socket& listener, const std::string& transport, const std::string& host, bool once,
                       const std::atomic<bool>& stop) {
  while (!stop) {
    absl::StatusOr<Socket> control = accept_from(listener, kAcceptPollMs);
    if (!control.ok()) continue;
    absl::Status status = serve_client(*control, transport, host, stop);
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
  std::fprintf(stderr, "%s: serving on %s; stop with Ctrl-C\n", kProgram, settings.listen.c_str());
  std::atomic<bool> stop = false;
  absl::Status status;
  std::thread server([&] {
    status = serve_all(*listener, settings.test.transport, address->host, settings.once, stop);
    signal.request_stop();
  });
  signal.wait();
  stop = true;
  server.join();
  return status.ok() ? app::kExitOk : app::kExitFailure;
}

int run_test(const std::string& mode, const Settings& settings) {
  // Without a server to go to, both ends run here.
  std::atomic<bool> stop = false;
  std::thread own_server;
  std::string target = settings.server;
  absl::StatusOr<Socket> listener = Socket();
  if (target.empty()) {
    listener = listen_on({"127.0.0.1", 0});
    if (!listener.ok()) app::fail(kProgram, text_of(listener.status()));
    target = absl::StrCat("127.0.0.1:", bound_port(*listener));
    own_server =
        std::thread([&] { static_cast<void>(serve_all(*listener, settings.test.transport, "127.0.0.1", true, stop)); });
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
    return run_client(*control, settings.test);
  }();
  join();
  if (!result.ok()) app::fail(kProgram, text_of(result.status()));
  const std::string report =
      settings.json ? json_report(mode, settings.test, *result) : text_report(mode, settings.test, *result);
  std::fputs(report.c_str(), stdout);
  return result->failed == 0 ? app::kExitOk : app::kExitFailure;
}

void add_transport_options(app::Command& command, Settings& settings) {
  command.add_string("transport", &settings.test.transport, "What carries the packets.").one_of({"tcp"});
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
  command.add_duration("duration", &own->test.duration_ns, "How long to measure.").at_least(kMillisecond);
  command.add_duration("warm-up", &own->test.warm_up_ns, "How long to run before measuring.").at_least(0);
  command.add_choice<bool>("polling", &own->test.busy, {{"busy", true}, {"adaptive", false}},
                           "Spin always, or sleep when idle (both ends).");
  command.action([own, mode, &settings] {
    own->json = settings.json;
    return run_test(mode, *own);
  });
  return command;
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
  app::Command& server = program.add_command("server", "Serves tests, one client after another.");
  server.add_string("listen", &settings.listen, "Where clients find the server.").value_name("HOST:PORT");
  server.add_bool("once", &settings.once, "End after one client.");
  add_transport_options(server, settings);
  server.action([&] { return run_server(settings, **signal); });
  server.example("skua-perf server --listen 0.0.0.0:18520", "serve tests to other machines");

  TestOptions latency;
  add_test(program, settings, "latency", "Round-trip time with few calls in flight.", latency)
      .example("skua-perf latency 127.0.0.1:18520 --size 32", "round trips of 32 bytes");
  TestOptions rate;
  rate.outstanding = 32;
  add_test(program, settings, "rate", "Calls per second with many in flight.", rate)
      .example("skua-perf rate --outstanding 32 --output json", "both ends here, result as JSON");
  TestOptions bandwidth;
  bandwidth.request_bytes = 1 << 20;
  bandwidth.response_bytes = 4;
  bandwidth.outstanding = 8;
  add_test(program, settings, "bandwidth", "Bytes per second with large messages.", bandwidth)
      .example("skua-perf bandwidth --size 4 --response-size 1MiB", "large responses instead of large requests");
  program.parse_or_exit(argc, argv);
  return program.run();
}

}  // namespace
}  // namespace skua::rpc::perf

int main(int argc, char** argv) {
  return skua::rpc::perf::run(argc, argv);
}
