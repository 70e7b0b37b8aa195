// skua-tally: an example of remote memory. One process has a table of counts, others read it and count in it.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/config.h"
#include "app/exit.h"
#include "app/file.h"
#include "app/process.h"
#include "app/signals.h"
#include "app/transport_options.h"
#include "app/uuid.h"
#include "examples/remote_memory/tally_keeper.h"
#include "examples/remote_memory/tally_user.h"
#include "rpc/base/clock.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "rpc/transport/verbs/verbs_fabric.h"

namespace skua::examples {
namespace {

constexpr char kProgram[] = "skua-tally";
constexpr DurationNs kLongestSleep = 10 * kMillisecond;
constexpr size_t kDescriptorMax = 1024;

struct Settings {
  std::string file;
  std::string transport = "tcp";
  std::string listen_ip = "127.0.0.1";
  rpc::VerbsSettings verbs;
  std::vector<std::string> names;
  std::string name;
  uint64_t times = 1;
};

[[noreturn]] void fail(const absl::Status& status) {
  app::fail(kProgram, std::string(status.message()));
}

template <typename T>
T value_or_end(absl::StatusOr<T> value) {
  if (!value.ok()) fail(value.status());
  return *std::move(value);
}

/// A wire of one process, and what it stands on.
struct Wire {
  std::unique_ptr<rpc::VerbsFabric> fabric;
  std::unique_ptr<rpc::Transport> transport;
};

rpc::EndpointIdentity make_identity() {
  rpc::EndpointIdentity self;
  std::string digits;
  for (const char c : app::random_uuid()) {
    if (c != '-') digits += c;
  }
  for (size_t i = 0; i < self.uuid.bytes.size(); ++i) {
    self.uuid.bytes[i] = static_cast<uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  self.incarnation = 1;
  return self;
}

/// `listen_ip` empty: it only dials.
Wire make_wire(const Settings& settings, const std::string& listen_ip) {
  Wire out;
  if (settings.transport == "verbs") {
    out.fabric = value_or_end(rpc::VerbsFabric::start(value_or_end(settings.verbs.to_options())));
    out.transport = value_or_end(out.fabric->make_transport(make_identity()));
    return out;
  }
  rpc::TcpOptions options;
  options.listen_ip = listen_ip;
  options.self = make_identity();
  out.transport = value_or_end(rpc::TcpTransport::create(options));
  return out;
}

void print(const std::vector<TallyRow>& rows) {
  for (const TallyRow& row : rows) {
    std::printf("%12llu  %s\n", static_cast<unsigned long long>(row.count), row.name.c_str());
  }
}

/// How users find the keeper is no business of the engine's. Here: by a file.
int serve(const Settings& settings, app::StopSignal& stop) {
  const Wire wire = make_wire(settings, settings.listen_ip);
  const SteadyClock clock;
  const auto keeper = value_or_end(TallyKeeper::create(*wire.transport, clock, settings.names));
  // Under another name first, so that nobody finds half of it.
  const std::string unfinished = settings.file + ".part";
  if (absl::Status status = app::write_file(unfinished, keeper->descriptor().encode()); !status.ok()) fail(status);
  if (std::rename(unfinished.c_str(), settings.file.c_str()) != 0) {
    app::fail(kProgram, absl::StrCat("cannot make ", settings.file));
  }
  std::fprintf(stderr, "%s: counting; users find it by %s; stop with Ctrl-C\n", kProgram, settings.file.c_str());
  while (!stop.wait_for(0).has_value()) keeper->endpoint().poll_or_wait(kLongestSleep);
  static_cast<void>(std::remove(settings.file.c_str()));
  print(keeper->table());
  std::fprintf(stderr, "%s: %llu operations came as calls\n", kProgram,
               static_cast<unsigned long long>(keeper->counters().operations));
  return app::kExitOk;
}

/// Opens the table that the file leads to. The wire outlives the user.
std::unique_ptr<TallyUser> join(const Settings& settings, const Wire& wire, const Clock& clock) {
  absl::StatusOr<std::string> bytes = app::read_file(settings.file, kDescriptorMax);
  if (!bytes.ok()) {
    app::fail(kProgram, absl::StrCat(std::string(bytes.status().message()), ": is `skua-tally serve` running?"));
  }
  const rpc::Descriptor keeper = value_or_end(rpc::Descriptor::decode(as_byte_span(*bytes)));
  auto user = std::make_unique<TallyUser>(*wire.transport, clock,
                                          [](rpc::Endpoint& endpoint) { endpoint.poll_or_wait(kLongestSleep); });
  if (absl::Status status = user->open(keeper); !status.ok()) fail(status);
  return user;
}

int add(const Settings& settings) {
  const Wire wire = make_wire(settings, "");
  const SteadyClock clock;
  const auto user = join(settings, wire, clock);
  const TimeNs begun = clock.now_ns();
  const TallyUser::Added added = value_or_end(user->add(settings.name, settings.times));
  const double seconds = static_cast<double>(clock.now_ns() - begun) / 1e9;
  const rpc::RemoteMemory::Counters& counters = user->counters();
  std::printf("%llu added in %.3f s, the last made it %llu; operations: %llu by the adapter, %llu by calls\n",
              static_cast<unsigned long long>(added.done), seconds, static_cast<unsigned long long>(added.previous) + 1,
              static_cast<unsigned long long>(counters.direct), static_cast<unsigned long long>(counters.by_call));
  if (added.failure.ok()) return app::finish_output(kProgram);
  app::fail(kProgram, absl::StrCat(settings.times - added.done, " were not added (", added.unknown,
                                   " of them may have been): ", std::string(added.failure.message())));
}

int show(const Settings& settings) {
  const Wire wire = make_wire(settings, "");
  const SteadyClock clock;
  print(value_or_end(join(settings, wire, clock)->read()));
  return app::finish_output(kProgram);
}

void add_file(app::Command& command, Settings& settings) {
  command.add_positional("file", &settings.file, "Where the keeper says how it is reached.");
}

int run(int argc, char** argv) {
  app::check_process(kProgram, app::kFilesOfClient);
  const std::unique_ptr<app::StopSignal> stop = value_or_end(app::StopSignal::install());
  Settings settings;
  app::Program program({.name = kProgram,
                        .summary = "An example of remote memory: counts that others read and add to.",
                        .description =
                            "One process serves a table. Others read it as a whole and add to its counts: by "
                            "operations of the RDMA adapter where there is one, by calls elsewhere."});
  program.add_string("transport", &settings.transport, "What carries it: the same for all.").one_of({"tcp", "verbs"});
  app::add_verbs_options(program, &settings.verbs);
  app::Command& serving = program.add_command("serve", "Has the table, until stopped.");
  add_file(serving, settings);
  serving.add_positional_list("names", &settings.names, "What is counted.");
  serving.add_string("listen", &settings.listen_ip, "Address to listen on, with --transport tcp.").value_name("IP");
  serving.action([&] { return serve(settings, *stop); });
  serving.example("skua-tally serve /tmp/tally tea coffee", "a table of two counts");
  app::Command& adding = program.add_command("add", "Adds one to a count.");
  add_file(adding, settings);
  adding.add_positional("name", &settings.name, "Which one.");
  adding.add_int("times", &settings.times, "How often.").range(1, 1'000'000'000).unit("times");
  adding.action([&] { return add(settings); });
  adding.example("skua-tally add /tmp/tally tea --times 1000", "one thousand operations on the keeper's memory");
  app::Command& showing = program.add_command("show", "Prints the table.");
  add_file(showing, settings);
  showing.action([&] { return show(settings); });
  program.parse_or_exit(argc, argv);
  if (absl::Status status = app::check_transport_flags(program.selected(), settings.transport); !status.ok()) {
    app::fail_usage(kProgram, std::string(status.message()));
  }
  return program.run();
}

}  // namespace
}  // namespace skua::examples

int main(int argc, char** argv) {
  return skua::examples::run(argc, argv);
}
