// skuactl quota set, remove, list: how much of each storage node a client may use (control/core/quotas.h).
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "app/value_text.h"
#include "control/client/admin_client.h"
#include "control/core/cluster_limits.h"
#include "control/core/quotas.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

using control::Quota;

constexpr char kLookAtQuotas[] = "skuactl quota list";
constexpr char kWhose[] = "client/NAME, or the file of a certificate of it.";

struct QuotaArguments {
  std::string identity;
  Quota quota;
};

nlohmann::json quota_json(const std::string& principal, const Quota& quota) {
  return {{"identity", principal},
          {"operations_per_s", quota.operations_per_s},
          {"bytes_per_s", quota.bytes_per_s},
          {"sessions", quota.sessions},
          {"client_ids", quota.client_ids}};
}

/// A limit in the table; "-": there is none.
std::string count_cell(uint64_t limit) {
  return limit == 0 ? "-" : absl::StrCat(limit);
}

std::string size_cell(uint64_t limit) {
  return limit == 0 ? "-" : app::format_size(static_cast<int64_t>(limit));
}

int set(const Globals& globals, const QuotaArguments& arguments) {
  auto [principal, admin] = named_identity(globals, arguments.identity);
  must_change(admin.set_quota(principal, arguments.quota), kLookAtQuotas);
  return answer(globals, quota_json(principal, arguments.quota),
                absl::StrCat(principal, " has of each node at most ", control::quota_text(arguments.quota),
                             ", as soon as the node hears of it, within a second\n"));
}

int remove(const Globals& globals, const std::string& identity) {
  auto [principal, admin] = named_identity(globals, identity);
  must_change(admin.remove_quota(principal), kLookAtQuotas);
  return answer(globals, {{"identity", principal}}, absl::StrCat(principal, " has no quota any more\n"));
}

int list(const Globals& globals) {
  const control::ShardMap map = must(admin_of(globals).shard_map());
  nlohmann::json json = nlohmann::json::array();
  TableRows rows = {{"CLIENT", "OPERATIONS/S", "BYTES/S", "SESSIONS", "CLIENT IDS"}};
  for (const auto& [principal, quota] : map.quotas) {
    json.push_back(quota_json(principal, quota));
    rows.push_back({principal, count_cell(quota.operations_per_s), size_cell(quota.bytes_per_s),
                    count_cell(quota.sessions), count_cell(quota.client_ids)});
  }
  return answer(globals, json, rows.size() > 1 ? table(std::move(rows)) : "no quotas: no client is limited\n");
}

void add_set_command(app::Command& quotas, const Globals& globals) {
  const auto [command, setting] =
      add_command(quotas, "set", "Limits how much of each node a client may use.", globals, set);
  command.description("The quota replaces one that the client has: what is not given is not limited.");
  command.add_positional("identity", &setting.identity, kWhose);
  Quota& quota = setting.quota;
  command.add_int("operations-per-s", &quota.operations_per_s, "Operations in a second; 0: no limit.")
      .range(0, int64_t{control::kQuotaOperationsMax});
  command.add_size("bytes-per-s", &quota.bytes_per_s, "Bytes of requests and replies in a second; 0: no limit.")
      .range(0, int64_t{control::kQuotaBytesMax});
  command.add_int("sessions", &quota.sessions, "Sessions that stand at a time; 0: no limit.")
      .range(0, control::kQuotaSessionsMax);
  command.add_int("client-ids", &quota.client_ids, "Client objects that write within a minute; 0: no limit.")
      .range(0, control::kQuotaClientIdsMax);
  command
      .example("skuactl quota set client/report --operations-per-s 20000 --bytes-per-s 64MiB",
               "of each node; others go on as before")
      .example("skuactl quota set certs/app.pem --sessions 100", "by its certificate; nothing else is limited");
}

}  // namespace

void add_quota_commands(app::Program& program, const Globals& globals) {
  app::Command& quotas = program.add_command("quota", "Says how much of each storage node a client may use.");
  quotas.description(
      "Limits are those of each storage node. A client above one of them is refused, and tries again after a pause. "
      "Administrators and nodes have no quotas.");

  add_set_command(quotas, globals);

  const auto [remove_command, identity] =
      add_command(quotas, "remove", "Takes a client's quota away.", globals, remove);
  remove_command.add_positional("identity", &identity, kWhose);
  remove_command.example("skuactl quota remove client/report", "nothing of it is limited any more");

  app::Command& list_command = quotas.add_command("list", "Shows which clients are limited.");
  list_command.example("skuactl quota list", "clients that are not listed are not limited");
  list_command.action([&globals] { return list(globals); });
}

}  // namespace skua::kv::ctl
