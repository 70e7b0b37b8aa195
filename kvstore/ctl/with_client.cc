#include "kvstore/ctl/with_client.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/exit.h"
#include "control/core/table_names.h"
#include "kvstore/codec/request.h"
#include "kvstore/ctl/key_text.h"
#include "rpc/base/clock.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {

namespace {

/// The options of a client for `table`, which the control plane knows. Its timeout is what is left of
/// globals.timeout_ns.
absl::StatusOr<ClientOptions> client_options(const Globals& globals, const std::string& table) {
  const SteadyClock clock;
  const TimeNs end = clock.now_ns() + globals.timeout_ns;
  ClientOptions options;
  options.control_address = globals.control_address;
  options.credentials = globals.credential_files;
  options.packets = globals.packets;
  if (globals.transport != TransportKind::kTcp) {
    absl::StatusOr<TransportMaker> maker =
        globals.transport == TransportKind::kDpdk ? dpdk_transports(globals.dpdk, 1) : verbs_transports(globals.verbs);
    if (!maker.ok()) app::fail_usage(kProgram, std_view(maker.status().message()));
    options.make_transport = *std::move(maker);
  }
  control::AdminClient admin(globals.control_address, globals.timeout_ns, credentials_of(globals));
  const auto tables = admin.list_tables();
  if (!tables.ok()) return tables.status();
  if (absl::Status known = check_table(admin, *tables, table); !known.ok()) return known;
  options.timeout = std::chrono::nanoseconds(std::max<DurationNs>(end - clock.now_ns(), kMillisecond));
  return options;
}

}  // namespace

int with_client(const Globals& globals, const std::string& table, const std::function<int(Client&)>& use) {
  absl::StatusOr<ClientOptions> options = client_options(globals, table);
  if (!options.ok()) return report_failure(options.status());
  absl::StatusOr<std::unique_ptr<Client>> client = Client::create(*std::move(options));
  return client.ok() ? use(**client) : report_failure(client.status());
}

int with_async_client(const Globals& globals, const std::string& table,
                      const std::function<int(AsyncClient& client, app::StopSignal& stop)>& use) {
  const absl::StatusOr<std::unique_ptr<app::StopSignal>> stop = app::StopSignal::install();
  if (!stop.ok()) return report_failure(stop.status());
  absl::StatusOr<ClientOptions> options = client_options(globals, table);
  if (!options.ok()) return report_failure(options.status());
  const absl::StatusOr<std::unique_ptr<AsyncClient>> client = AsyncClient::create(*std::move(options));
  return client.ok() ? use(**client, **stop) : report_failure(client.status());
}

absl::Status poll_until(AsyncClient& client, app::StopSignal& stop, const bool& done,
                        const std::function<void()>& each_turn) {
  // So often Ctrl-C is looked for.
  constexpr std::chrono::milliseconds kLookPause(50);
  while (!done) {
    if (stop.wait_for(0)) return absl::CancelledError("interrupted");
    client.poll(kLookPause);
    each_turn();
  }
  return absl::OkStatus();
}

absl::Status with_timeout_hint(const absl::Status& status, std::string_view what) {
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; ", absl_view(what), " needs a longer --timeout"));
}

int with_status(const Globals& globals,
                const std::function<int(control::AdminClient&, const control::ClusterStatus&)>& use) {
  control::AdminClient admin(globals.control_address, globals.timeout_ns, credentials_of(globals));
  const absl::StatusOr<control::ClusterStatus> status = admin.status();
  return status.ok() ? use(admin, *status) : report_failure(status.status());
}

absl::Status check_table(const std::vector<control::TableSummary>& tables, const std::string& name) {
  std::vector<std::string> names;
  names.reserve(tables.size());
  for (const control::TableSummary& summary : tables) names.push_back(summary.table.name);
  if (std::ranges::find(names, name) != names.end()) return absl::OkStatus();
  const absl::Status none = control::no_such_table(name, "", names);
  return absl::Status(none.code(), absl::StrCat(none.message(), ". Make one with skuactl table create NAME"));
}

absl::Status check_table(control::AdminClient& admin, const std::vector<control::TableSummary>& tables,
                         const std::string& name) {
  absl::Status known = check_table(tables, name);
  if (known.ok() || !tables.empty()) return known;
  const absl::StatusOr<control::ClusterStatus> status = admin.status();
  if (!status.ok() || status->troubles.empty()) return known;
  return absl::Status(known.code(),
                      absl::StrCat(known.message(), ". TROUBLE: ", absl::StrJoin(status->troubles, "; TROUBLE: ")));
}

std::string key_of(const Globals& globals, const std::string& what, const std::string& text) {
  absl::StatusOr<std::string> key = text;
  if (!globals.raw_keys) key = parse_key(text);
  if (!key.ok()) app::fail_usage(kProgram, absl::StrCat(what, " ", key.status().message()));
  if (const absl::Status fits = check_key(*key); !fits.ok()) {
    app::fail_usage(kProgram, absl::StrCat(what, ": ", fits.message()));
  }
  return *std::move(key);
}

void add_start_options(app::Command& command, StartArguments& arguments, const char* help) {
  command.add_string("start", &arguments.start, help).value_name("KEY");
  command
      .add_string("cursor", &arguments.cursor,
                  "As --start, for what this command printed to go on with: \\xNN is a byte also with --raw-keys.")
      .value_name("KEY");
}

std::string start_of(const Globals& globals, const StartArguments& arguments) {
  if (arguments.cursor.empty()) {
    return arguments.start.empty() ? std::string() : key_of(globals, "--start", arguments.start);
  }
  if (!arguments.start.empty())
    app::fail_usage(kProgram, "--start and --cursor both say where to begin: leave one out");
  Globals with_escapes = globals;
  with_escapes.raw_keys = false;
  return key_of(with_escapes, "--cursor", arguments.cursor);
}

std::string start_option(const Globals& globals, std::string_view key) {
  return absl::StrCat(globals.raw_keys ? "--cursor=" : "--start=", shell_word(key_text(key)));
}

void add_prefix_option(app::Command& command, std::string& prefix) {
  command.add_string("prefix", &prefix, "Only keys that begin with this; as keys are given.").value_name("TEXT");
}

KeyRange prefix_range(const Globals& globals, const std::string& prefix) {
  return prefix.empty() ? KeyRange() : range_of_prefix(key_of(globals, "--prefix", prefix));
}

app::Command& add_key_command(app::Program& program, const char* name, const char* summary, std::string& table,
                              std::string& key) {
  app::Command& command = program.add_command(name, summary);
  add_table_argument(command, "table", table);
  command.add_positional("key", &key, "The key, 1 to 1,024 bytes; \\xNN is a byte, \\\\ a backslash (see --raw-keys).");
  return command;
}

std::optional<std::string> complaint_of_node(const std::string& text) {
  return text.empty() ? std::optional<std::string>("must name a node") : std::nullopt;
}

void add_table_argument(app::Command& command, const char* name, std::string& table) {
  command.add_positional(name, &table, "The table's name.").check([](const std::string& text) {
    return text.empty() ? std::optional<std::string>("must be a table's name") : std::nullopt;
  });
}

}  // namespace skua::kv::ctl
