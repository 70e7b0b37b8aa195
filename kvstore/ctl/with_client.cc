#include "kvstore/ctl/with_client.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/file.h"
#include "control/core/table_names.h"
#include "control/security/certificates.h"
#include "control/security/identity.h"
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
    options.make_transport = must_be_valid(globals.transport == TransportKind::kDpdk ? dpdk_transports(globals.dpdk, 1)
                                                                                     : verbs_transports(globals.verbs));
  }
  control::AdminClient admin = admin_of(globals);
  const auto tables = admin.list_tables();
  if (!tables.ok()) return tables.status();
  if (absl::Status known = check_table(admin, *tables, table); !known.ok()) return known;
  options.timeout = std::chrono::nanoseconds(std::max<DurationNs>(end - clock.now_ns(), kMillisecond));
  return options;
}

/// What has been begun is undone when this returns a failure.
template <typename AnyClient>
absl::StatusOr<std::unique_ptr<AnyClient>> make_client(const Globals& globals, const std::string& table) {
  absl::StatusOr<ClientOptions> options = client_options(globals, table);
  if (!options.ok()) return options.status();
  return AnyClient::create(*std::move(options));
}

constexpr size_t kCertificateBytesMax = 1 << 20;

/// `ours`: the id of the cluster that it must be of; empty: of any.
std::string principal_of(const std::string& argument, const std::string& ours) {
  const absl::StatusOr<std::string> text = app::read_file(argument, kCertificateBytesMax);
  if (!text.ok()) {
    // Without certificates the cluster's id does not matter: the control plane will say that names mean nothing there.
    constexpr char kAnyCluster[] = "00000000-0000-0000-0000-000000000000";
    const auto identity = control::parse_principal(argument, ours.empty() ? kAnyCluster : ours);
    if (identity.ok()) return identity->principal();
    fail_usage(absl::StrCat(argument, " is not a certificate's file (", text.status().message(),
                            "), and not an identity: ", identity.status().message()));
  }
  const control::CertificateInfo info = must_be_valid(control::inspect_certificate(*text), argument + ": ");
  if (!info.identity) {
    fail_usage(absl::StrCat(argument,
                            " is an authority, which is no identity: it is replaced, not revoked (docs/security.md)"));
  }
  if (!ours.empty() && info.cluster_id != ours) {
    fail_usage(absl::StrCat(argument, " is of another cluster, ", info.cluster_id));
  }
  return info.identity->principal();
}

}  // namespace

std::unique_ptr<Client> open_client(const Globals& globals, const std::string& table) {
  return must(make_client<Client>(globals, table));
}

AsyncSession open_async_client(const Globals& globals, const std::string& table) {
  std::unique_ptr<app::StopSignal> stop = must(app::StopSignal::install());
  return {std::move(stop), must(make_client<AsyncClient>(globals, table))};
}

absl::Status poll_until(const AsyncSession& session, const bool& done, const std::function<void()>& each_turn) {
  constexpr std::chrono::milliseconds kStopPause(50);  // so often Ctrl-C is looked for
  while (!done) {
    if (session.stop->wait_for(0)) return absl::CancelledError("interrupted");
    session.client->poll(kStopPause);
    each_turn();
  }
  return absl::OkStatus();
}

absl::Status with_timeout_hint(const absl::Status& status, std::string_view what) {
  if (!absl::IsDeadlineExceeded(status)) return status;
  return with_words("", status, absl::StrCat("; ", absl_view(what), " needs a longer --timeout"));
}

control::AdminClient admin_of(const Globals& globals) {
  return control::AdminClient(globals.control_address, globals.timeout_ns, credentials_of(globals));
}

absl::Status check_table(const std::vector<control::TableSummary>& tables, const std::string& name) {
  std::vector<std::string> names;
  names.reserve(tables.size());
  for (const control::TableSummary& summary : tables) names.push_back(summary.table.name);
  if (std::ranges::find(names, name) != names.end()) return absl::OkStatus();
  return with_words("", control::no_such_table(name, "", names), ". Make one with skuactl table create NAME");
}

absl::Status check_table(control::AdminClient& admin, const std::vector<control::TableSummary>& tables,
                         const std::string& name) {
  absl::Status known = check_table(tables, name);
  if (known.ok() || !tables.empty()) return known;
  const absl::StatusOr<control::ClusterStatus> status = admin.status();
  if (!status.ok() || status->troubles.empty()) return known;
  return with_words("", known, ". TROUBLE: " + absl::StrJoin(status->troubles, "; TROUBLE: "));
}

void must_have_key(const absl::Status& status, const std::string& table, std::string_view key,
                   std::string_view remark) {
  if (absl::IsNotFound(status)) {
    must(absl::NotFoundError(
        absl::StrCat("table ", table, " has no key ", shell_word(key_text(key)), absl_view(remark))));
  }
  must(status);
}

ReadResult read_key(const Globals& globals, const std::string& table, const std::string& key,
                    const ReadOptions& options) {
  ReadResult result = with_client(globals, table, [&](Client& client) { return client.get(table, key, options); });
  must_have_key(result.status, table, key);
  return result;
}

std::string key_of(const Globals& globals, const std::string& what, const std::string& text) {
  if (!globals.raw_keys) return printed_key_of(what, text);
  must_be_valid(check_key(text), what + ": ");
  return text;
}

std::vector<std::string> keys_of(const Globals& globals, const std::string& what,
                                 const std::vector<std::string>& texts) {
  std::vector<std::string> keys;
  keys.reserve(texts.size());
  for (const std::string& text : texts) keys.push_back(key_of(globals, what, text));
  return keys;
}

std::string printed_key_of(const std::string& what, const std::string& text) {
  std::string key = must_be_valid(parse_key(text), what + " ");
  must_be_valid(check_key(key), what + ": ");
  return key;
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
  if (!arguments.start.empty()) fail_usage("--start and --cursor both say where to begin: leave one out");
  return printed_key_of("--cursor", arguments.cursor);
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

void add_key_arguments(app::Command& command, std::string& table, std::string& key) {
  add_table_argument(command, "table", table);
  command.add_positional("key", &key, "The key, 1 to 1,024 bytes; \\xNN is a byte, \\\\ a backslash (see --raw-keys).");
}

std::function<std::optional<std::string>(const std::string&)> not_empty(const char* complaint) {
  return [complaint](const std::string& text) {
    return text.empty() ? std::optional<std::string>(complaint) : std::nullopt;
  };
}

void add_node_argument(app::Command& command, std::string& node) {
  constexpr char kHelp[] = "By uuid, the beginning of its uuid (4 characters at least), or its gRPC address.";
  command.add_positional("node", &node, kHelp).check(not_empty("must name a node"));
}

void add_table_argument(app::Command& command, const char* name, std::string& table) {
  command.add_positional(name, &table, "The table's name.").check(not_empty("must be a table's name"));
}

NamedIdentity named_identity(const Globals& globals, const std::string& argument) {
  const control::CredentialsPtr credentials = credentials_of(globals);
  return {principal_of(argument, credentials == nullptr ? "" : credentials->self().cluster_id),
          control::AdminClient(globals.control_address, globals.timeout_ns, credentials)};
}

}  // namespace skua::kv::ctl
