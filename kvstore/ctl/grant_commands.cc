// skuactl grant add, remove, list: which clients may read, write or scan a table (control/core/grants.h).
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "control/client/admin_client.h"
#include "control/core/grants.h"
#include "control/core/table_names.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

using control::Rights;

constexpr char kLook[] = "skuactl grant list";

struct GrantArguments {
  std::string identity;
  std::string table;
  std::string rights = "read,write,scan";
  bool open_to_all = false;
  bool given = false;  // the client is to get the rights; otherwise they are taken away
};

/// ["read","write"].
nlohmann::json rights_json(Rights rights) {
  if (rights == 0) return nlohmann::json::array();
  return std::vector<std::string>(absl::StrSplit(control::rights_text(rights), ','));
}

std::optional<std::string> complaint_of_rights(const std::string& text) {
  const auto rights = control::parse_rights(text);
  return rights.ok() ? std::nullopt : std::optional(std::string(std_view(rights.status().message())));
}

int change(const Globals& globals, const GrantArguments& arguments) {
  auto [principal, admin] = named_identity(globals, arguments.identity);
  const std::string& table = arguments.table;
  const Rights rights = control::parse_rights(arguments.rights).value_or(0);  // checked when the command line was read
  must_change(arguments.given ? admin.add_grant(principal, table, rights)
                              : admin.remove_grant(principal, table, rights, arguments.open_to_all),
              kLook);
  const std::string what = absl::StrCat(control::rights_text(rights), " table ", table);
  return answer(
      globals,
      {{"identity", principal}, {"table", table}, {arguments.given ? "granted" : "removed", rights_json(rights)}},
      arguments.given
          ? absl::StrCat(principal, " may ", what,
                         ", as soon as the nodes hear of it, within a second. Clients without a grant may not\n")
          : absl::StrCat(principal, " has no grant to ", what, " any more; skuactl grant list ", table,
                         " shows who has\n"));
}

/// The tables to show: the one that is named, or all.
absl::StatusOr<std::vector<control::MapTable>> tables_of(const control::ShardMap& map, const std::string& name) {
  if (name.empty()) return map.tables;
  if (const control::MapTable* const table = map.find_table(name); table != nullptr) return std::vector{*table};
  std::vector<std::string> names;
  names.reserve(map.tables.size());
  for (const control::MapTable& table : map.tables) names.push_back(table.name);
  return control::no_such_table(name, "", names);
}

int list(const Globals& globals, const std::string& name) {
  nlohmann::json json = nlohmann::json::array();
  TableRows rows = {{"TABLE", "CLIENT", "MAY"}};
  for (const control::MapTable& of : must(tables_of(must(admin_of(globals).shard_map()), name))) {
    for (const control::MapGrant& grant : of.grants) {
      json.push_back({{"table", of.name}, {"identity", grant.principal}, {"rights", rights_json(grant.rights)}});
      rows.push_back({of.name, grant.principal, control::rights_text(grant.rights)});
    }
  }
  const std::string none = absl::StrCat("no grants: every client may read, write and scan ",
                                        name.empty() ? "all tables" : absl::StrCat("table ", name), "\n");
  return answer(globals, json, rows.size() > 1 ? table(std::move(rows)) : none);
}

Added<GrantArguments> add_change_command(app::Command& grants, const char* name, const char* summary,
                                         const Globals& globals) {
  const Added<GrantArguments> added = add_command(grants, name, summary, globals, change);
  added.command.add_positional("identity", &added.arguments.identity,
                               "client/NAME, or the file of a certificate of it.");
  add_table_argument(added.command, "table", added.arguments.table);
  return added;
}

}  // namespace

void add_grant_commands(app::Program& program, const Globals& globals) {
  app::Command& grants = program.add_command("grant", "Says which clients may read, write or scan a table.");
  grants.description(
      "A table without grants is open to all clients of the cluster; its first grant closes it to those that have "
      "none. Administrators and nodes need no grants.");

  const auto [adding_command, adding] = add_change_command(grants, "add", "Gives a client rights to a table.", globals);
  adding.given = true;
  adding.rights.clear();
  adding_command.add_positional("rights", &adding.rights, "read, write, scan; several with commas.")
      .check(complaint_of_rights);
  adding_command.example("skuactl grant add client/app-7 notes read,write", "others without a grant are shut out")
      .example("skuactl grant add certs/report.pem notes scan", "one more, by its certificate");

  const auto [remove_command, removing] =
      add_change_command(grants, "remove", "Takes rights to a table from a client.", globals);
  remove_command.add_positional("rights", &removing.rights, "read, write, scan; default: all that it has.")
      .optional()
      .check(complaint_of_rights);
  remove_command.add_bool("open-to-all", &removing.open_to_all,
                          "It may be the table's last grant: then all clients may use the table again.");
  remove_command.example("skuactl grant remove client/app-7 notes write", "it may still read")
      .example("skuactl grant remove client/app-7 notes --open-to-all", "the last grant: the table is open again");

  const auto [list_command, shown] = add_command(grants, "list", "Shows who may use which table.", globals, list);
  list_command.add_positional("table", &shown, "The table's name; default: all of them.").optional();
  list_command.example("skuactl grant list", "tables that are not listed are open to all clients")
      .example("skuactl grant list notes", "");
}

}  // namespace skua::kv::ctl
