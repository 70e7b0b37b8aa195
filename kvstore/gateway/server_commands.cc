// Commands about the gateway.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/glob.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::handlers {
namespace {

using Section = std::string (*)(CommandRun& run);

std::string server_section(CommandRun& run) {
  const GatewayIdentity& identity = run.gateway().identity;
  const int64_t uptime_s = (run.now_ms() - identity.started_ms) / 1000;
  return absl::StrCat("# Server\r\nredis_version:", absl_view(kRedisVersion),
                      "\r\nredis_mode:standalone\r\nskua_version:", identity.skua_version,
                      "\r\narch_bits:64\r\nmultiplexing_api:epoll\r\nprocess_supervised:no\r\nrun_id:", identity.run_id,
                      "\r\ntcp_port:", identity.port, "\r\nuptime_in_seconds:", uptime_s,
                      "\r\nuptime_in_days:", uptime_s / 86400, "\r\nio_threads_active:", identity.threads, "\r\n");
}

std::string clients_section(CommandRun& run) {
  const GatewayIdentity& identity = run.gateway().identity;
  return absl::StrCat("# Clients\r\nconnected_clients:", identity.connections_now.load(std::memory_order_relaxed),
                      "\r\nmaxclients:", identity.connections_max, "\r\nblocked_clients:0\r\n");
}

/// Clients wait while a server loads its data. A gateway has none to load.
std::string persistence_section(CommandRun& /*run*/) {
  return "# Persistence\r\nloading:0\r\nasync_loading:0\r\n";
}

std::string stats_section(CommandRun& run) {
  const GatewayIdentity& identity = run.gateway().identity;
  return absl::StrCat(
      "# Stats\r\ntotal_connections_received:", identity.connections_received.load(std::memory_order_relaxed),
      "\r\ntotal_commands_processed:", identity.commands.load(std::memory_order_relaxed),
      "\r\nrejected_connections:", identity.connections_refused.load(std::memory_order_relaxed), "\r\n");
}

std::string replication_section(CommandRun& /*run*/) {
  return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n";
}

std::string cluster_section(CommandRun& /*run*/) {
  return "# Cluster\r\ncluster_enabled:0\r\n";
}

/// The databases in which the client has a right, without the numbers of their keys: counting is a scan of the whole
/// table (DBSIZE).
std::string databases_section(CommandRun& run) {
  std::string out = "# Databases\r\n";
  for (const auto& [number, table] : run.gateway().identity.databases) {
    const ClientUser* const user = run.session().user.get();
    if (run.gateway().users != nullptr && (user == nullptr || user->rights_in(number) == Rights{})) continue;
    absl::StrAppend(&out, "table_of_db", number, ":", table, "\r\n");
  }
  return out;
}

constexpr std::array<std::pair<std::string_view, Section>, 7> kSections = {{{"server", server_section},
                                                                            {"clients", clients_section},
                                                                            {"persistence", persistence_section},
                                                                            {"stats", stats_section},
                                                                            {"replication", replication_section},
                                                                            {"cluster", cluster_section},
                                                                            {"databases", databases_section}}};

bool is_section_wanted(const CommandRun& run, std::string_view name) {
  if (run.size() == 1) return true;
  for (size_t i = 1; i < run.size(); ++i) {
    const absl::string_view word = absl_view(run.arg(i));
    for (const absl::string_view all : {"all", "default", "everything"}) {
      if (absl::EqualsIgnoreCase(word, all)) return true;
    }
    if (absl::EqualsIgnoreCase(word, absl_view(name))) return true;
  }
  return false;
}

/// What clients and redis-benchmark ask for. There is nothing to set.
std::vector<std::pair<std::string, std::string>> configuration(const GatewayIdentity& identity) {
  const uint32_t last_database = identity.databases.rbegin()->first;
  return {{"appendonly", "yes"},
          {"databases", absl::StrCat(last_database + 1)},
          {"maxclients", absl::StrCat(identity.connections_max)},
          {"maxmemory", "0"},
          {"maxmemory-policy", "noeviction"},
          {"port", absl::StrCat(identity.port)},
          {"proto-max-bulk-len", absl::StrCat(kValueBytesMax)},
          {"save", ""},
          {"timeout", "0"}};
}

std::vector<std::string_view> flags_of(const CommandSpec& spec) {
  std::vector<std::string_view> flags;
  if (spec.has(kWrites)) flags.emplace_back("write");
  if (spec.has(kReads) || (spec.has(kWholeTable) && !spec.has(kWrites))) flags.emplace_back("readonly");
  if (spec.has(kFast)) flags.emplace_back("fast");
  return flags;
}

std::vector<const CommandSpec*> subcommands_of(const CommandSpec& spec) {
  std::vector<const CommandSpec*> found;
  const std::string prefix = absl::StrCat(absl_view(spec.name), "|");
  for (const CommandSpec& other : all_commands()) {
    if (absl::StartsWith(absl_view(other.name), prefix)) found.push_back(&other);
  }
  return found;
}

/// The ten parts of a command's description; categories, tips and key specifications are left empty.
void write_description(RespWriter& reply, const CommandSpec& spec) {
  reply.array(10);
  reply.bulk(spec.name);
  reply.integer(spec.arity);
  const std::vector<std::string_view> flags = flags_of(spec);
  reply.set(flags.size());
  for (const std::string_view flag : flags) reply.simple(flag);
  reply.integer(spec.first_key);
  reply.integer(spec.last_key);
  reply.integer(spec.key_step);
  reply.set(0);
  reply.array(0);
  reply.array(0);
  const std::vector<const CommandSpec*> subcommands = subcommands_of(spec);
  reply.array(subcommands.size());
  for (const CommandSpec* subcommand : subcommands) write_description(reply, *subcommand);
}

size_t command_total() {
  return static_cast<size_t>(
      std::ranges::count_if(all_commands(), [](const CommandSpec& spec) { return !spec.is_subcommand(); }));
}

void reply_all_descriptions(CommandRun& run) {
  RespWriter reply = run.reply();
  reply.array(command_total());
  for (const CommandSpec& spec : all_commands()) {
    if (!spec.is_subcommand()) write_description(reply, spec);
  }
}

}  // namespace

CommandTask info(CommandRun& run) {
  if (reply_too_many_questions(run, 1)) co_return;
  std::string out;
  for (const auto& [name, section] : kSections) {
    if (!is_section_wanted(run, name)) continue;
    if (!out.empty()) out += "\r\n";
    out += section(run);
  }
  co_return run.reply().verbatim(out);
}

CommandTask config_get(CommandRun& run) {
  if (reply_too_many_questions(run, 2)) co_return;
  for (size_t i = 2; i < run.size(); ++i) {
    if (reply_long_pattern(run, run.arg(i))) co_return;
  }
  std::vector<std::pair<std::string, std::string>> found;
  for (auto& [name, value] : configuration(run.gateway().identity)) {
    bool is_wanted = false;
    for (size_t i = 2; i < run.size(); ++i) {
      is_wanted = is_wanted || glob_matches(absl::AsciiStrToLower(absl_view(run.arg(i))), name);
    }
    if (is_wanted) found.emplace_back(std::move(name), std::move(value));
  }
  RespWriter reply = run.reply();
  reply.map(found.size());
  for (const auto& [name, value] : found) reply.bulks({name, value});
  co_return;
}

CommandTask command(CommandRun& run) {
  reply_all_descriptions(run);
  co_return;
}

CommandTask command_count(CommandRun& run) {
  co_return run.reply().integer(static_cast<int64_t>(command_total()));
}

CommandTask command_info(CommandRun& run) {
  if (reply_too_many_questions(run, 2)) co_return;
  if (run.size() == 2) co_return reply_all_descriptions(run);
  RespWriter reply = run.reply();
  reply.array(run.size() - 2);
  for (size_t i = 2; i < run.size(); ++i) {
    if (const CommandSpec* spec = find_command(run.arg(i)); spec != nullptr) {
      write_description(reply, *spec);
    } else {
      reply.null_array();
    }
  }
}

/// redis-cli asks when a person uses it, for hints. It does without.
CommandTask command_docs(CommandRun& run) {
  co_return run.reply().map(0);
}

CommandTask time(CommandRun& run) {
  RespWriter reply = run.reply();
  reply.array(2);
  reply.bulks({absl::StrCat(run.now_us() / 1'000'000), absl::StrCat(run.now_us() % 1'000'000)});
  co_return;
}

}  // namespace skua::kv::gateway::handlers
