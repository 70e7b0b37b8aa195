// skuactl shard show, move, transfer, recover.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "kvstore/ctl/cluster_print.h"
#include "kvstore/ctl/cluster_view.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;
using control::ClusterStatus;

constexpr int64_t kAllShards = -1;

struct ShardArguments {
  std::string table;
  std::string shard;
  std::string from;
  std::string to;
  bool unsettled = false;
  bool yes = false;
};

/// For Option::check: what is wrong with a shard's number.
std::optional<std::string> complaint_of_shard(const std::string& text) {
  const bool number = !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::nullopt : std::optional<std::string>("must be a shard's number, from 0");
}

/// The shard's number. kAllShards if none was given.
int64_t shard_number(const std::string& text) {
  int64_t number = kAllShards;
  return absl::SimpleAtoi(text, &number) ? number : kAllShards;
}

/// OK if the cluster has the table and the table has the shard. NOT_FOUND otherwise.
absl::Status check_shard(const ClusterStatus& status, const std::string& name, int64_t shard) {
  if (absl::Status known = check_table(status.tables, name); !known.ok()) return known;
  const auto summary = std::ranges::find_if(
      status.tables, [&](const control::TableSummary& candidate) { return candidate.table.name == name; });
  const int64_t count = summary->table.shard_count;
  if (shard < count) return absl::OkStatus();
  return absl::NotFoundError(count == 1
                                 ? absl::StrCat("table ", name, " has shard 0 only, no shard ", shard)
                                 : absl::StrCat("table ", name, " has shards 0 to ", count - 1, ", no shard ", shard));
}

int show_shards(const Globals& globals, const ShardArguments& arguments) {
  const int64_t only = shard_number(arguments.shard);
  AdminClient admin = admin_of(globals);
  const ClusterStatus status = must(admin.status());
  must(check_shard(status, arguments.table, only));
  const control::ShardMap map = must(admin.shard_map());
  const control::MapTable* const found = map.find_table(arguments.table);
  if (found == nullptr) {
    return report_failure(absl::NotFoundError(absl::StrCat("table ", arguments.table, " was dropped just now")));
  }
  std::vector<ShardView> views;
  for (uint32_t shard = 0; shard < found->shard_count(); ++shard) {
    if (only != kAllShards && only != shard) continue;
    ShardView view = view_of(status, map, *found, shard);
    if (!arguments.unsettled || !view.settled) views.push_back(std::move(view));
  }
  return answer(globals, shards_json(*found, map.revision, views), shards_text(status, *found, views));
}

/// The uuid of the node called `name`; empty: none is named. Ends the program if there is no such node.
std::string uuid_of(const ClusterStatus& status, const std::string& name) {
  return name.empty() ? "" : must(find_node(status, name)).info.uuid;
}

/// Finds the nodes that the arguments name, runs `change` with their uuids, and prints `done`. If `warning` is not
/// empty, the user must confirm it first.
int change_shard(
    const Globals& globals, const ShardArguments& arguments, const char* done, const std::string& warning,
    const std::function<absl::Status(AdminClient&, uint32_t, const std::string& from, const std::string& to)>& change) {
  const int64_t shard = shard_number(arguments.shard);
  AdminClient admin = admin_of(globals);
  const ClusterStatus status = must(admin.status());
  must(check_shard(status, arguments.table, shard));
  const std::string from = uuid_of(status, arguments.from);
  const std::string to = uuid_of(status, arguments.to);
  if (!from.empty() && from == to) fail_usage(absl::StrCat("--from and --to are the same node, ", from));
  if (!warning.empty() && !confirmed(arguments.yes, warning, arguments.table)) return app::kExitFailure;
  const std::string look = absl::StrCat("skuactl shard show ", arguments.table, " ", shard);
  must_change(change(admin, static_cast<uint32_t>(shard), from, to), look);
  nlohmann::json json = {{"table", arguments.table}, {"shard", shard}, {"done", done}};
  if (!from.empty()) json["from"] = from;
  if (!to.empty()) json["to"] = to;
  return answer(
      globals, json,
      absl::StrCat("shard ", shard, " of table ", arguments.table, " ", done, "; ", look, " tells how far it is\n"));
}

int recover(const Globals& globals, const ShardArguments& arguments) {
  const std::string warning =
      absl::StrCat("Recovering shard ", arguments.shard, " of table ", arguments.table, " from node ", arguments.from,
                   " makes what that node has the only truth: writes that were acknowledged may be lost");
  return change_shard(globals, arguments, "goes on with what that node has", warning,
                      [&](AdminClient& admin, uint32_t shard, const std::string& from, const std::string&) {
                        return admin.recover_shard(arguments.table, shard, from);
                      });
}

int move_replica(const Globals& globals, const ShardArguments& arguments) {
  return change_shard(globals, arguments, "moves", "",
                      [&](AdminClient& admin, uint32_t shard, const std::string& from, const std::string& to) {
                        return admin.move_shard(arguments.table, shard, from, to);
                      });
}

int transfer_lead(const Globals& globals, const ShardArguments& arguments) {
  return change_shard(globals, arguments, "is led by that node", "",
                      [&](AdminClient& admin, uint32_t shard, const std::string&, const std::string& to) {
                        return admin.transfer_primary(arguments.table, shard, to);
                      });
}

Added<ShardArguments> add_shard_command(app::Command& shards, const char* name, const char* summary,
                                        const Globals& globals, int (*run)(const Globals&, const ShardArguments&)) {
  const Added<ShardArguments> added = add_command(shards, name, summary, globals, run);
  add_table_argument(added.command, "table", added.arguments.table);
  added.command.add_positional("shard", &added.arguments.shard, "The shard's number, from 0.")
      .check(complaint_of_shard);
  return added;
}

void add_node_option(app::Command& command, const char* name, std::string& target, const char* help) {
  command.add_string(name, &target, absl::StrCat(help, " By uuid, the beginning of its uuid, or its gRPC address."))
      .value_name("NODE")
      .required()
      .check(not_empty("must name a node"));
}

void add_show_command(app::Command& shards, const Globals& globals) {
  const auto [command, arguments] =
      add_command(shards, "show", "Prints epoch, primary, backups and learners of shards.", globals, show_shards);
  add_table_argument(command, "table", arguments.table);
  command.add_positional("shard", &arguments.shard, "The shard's number, from 0; default: all of them.")
      .optional()
      .check(complaint_of_shard);
  command.add_bool("unsettled", &arguments.unsettled, "Only those that lack something or are on the move.");
  command.example("skuactl shard show notes", "every shard of notes");
  command.example("skuactl shard show notes 3", "");
  command.example("skuactl shard show notes --unsettled", "what keeps notes from being whole");
}

}  // namespace

void add_shard_commands(app::Program& program, const Globals& globals) {
  app::Command& shards = program.add_command("shard", "Shows, moves and recovers shards.");
  add_show_command(shards, globals);

  const auto [move_command, moved] =
      add_shard_command(shards, "move", "Gives one node's replica to another node.", globals, move_replica);
  move_command.description(
      "The new node copies the shard, joins, and only then the old one leaves; reads and writes go on. Balancing may "
      "move others later to even the load out.");
  add_node_option(move_command, "from", moved.from, "A member.");
  add_node_option(move_command, "to", moved.to, "A node that has no part in the shard.");
  move_command.example("skuactl shard move notes 3 --from 10.0.0.1:7500 --to 10.0.0.4:7500", "");

  const auto [transfer_command, transferred] =
      add_shard_command(shards, "transfer", "Makes another member the primary.", globals, transfer_lead);
  add_node_option(transfer_command, "to", transferred.to, "A live member.");
  transfer_command.example("skuactl shard transfer notes 3 --to 10.0.0.2:7500", "");

  const auto [recover_command, recovered] = add_shard_command(
      shards, "recover", "Goes on with what one node has, when no member can serve.", globals, recover);
  recover_command.description(
      "The last resort. What that node has becomes the only truth: writes that were acknowledged but never reached it "
      "are lost, and clients are not told. Refused as long as a live member has all data. If a member's machine can be "
      "started again, start it instead: nothing is lost then.");
  add_node_option(recover_command, "from", recovered.from, "A member or learner that is alive.");
  recover_command.add_bool("yes", &recovered.yes, "Do not ask: acknowledged writes may be lost.");
  recover_command.example("skuactl shard recover notes 3 --from 10.0.0.2:7500 --yes", "");
}

}  // namespace skua::kv::ctl
