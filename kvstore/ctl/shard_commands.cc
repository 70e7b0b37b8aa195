// skuactl shard show, move, transfer, recover.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
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

absl::Status check_shard(const control::Table& table, int64_t shard) {
  if (shard < int64_t{table.shard_count}) return absl::OkStatus();
  return absl::NotFoundError(
      table.shard_count == 1
          ? absl::StrCat("table ", table.name, " has shard 0 only, no shard ", shard)
          : absl::StrCat("table ", table.name, " has shards 0 to ", table.shard_count - 1, ", no shard ", shard));
}

/// OK if the cluster has the table and the table has the shard. NOT_FOUND otherwise.
absl::Status check_shard(const ClusterStatus& status, const std::string& name, int64_t shard) {
  if (absl::Status known = check_table(status.tables, name); !known.ok()) return known;
  const auto summary = std::ranges::find_if(
      status.tables, [&](const control::TableSummary& candidate) { return candidate.table.name == name; });
  return check_shard(summary->table, shard);
}

int show(const Globals& globals, const ShardArguments& arguments) {
  const int64_t only = shard_number(arguments.shard);
  return with_status(globals, [&](AdminClient& admin, const ClusterStatus& status) {
    if (const absl::Status known = check_shard(status, arguments.table, only); !known.ok())
      return report_failure(known);
    const absl::StatusOr<control::ShardMap> map = admin.shard_map();
    if (!map.ok()) return report_failure(map.status());
    const control::MapTable* found = map->find_table(arguments.table);
    if (found == nullptr) {
      return report_failure(absl::NotFoundError(absl::StrCat("table ", arguments.table, " was dropped just now")));
    }
    std::vector<ShardView> views;
    for (uint32_t shard = 0; shard < found->shard_count(); ++shard) {
      if (only != kAllShards && only != shard) continue;
      ShardView view = view_of(status, *map, *found, shard);
      if (!arguments.unsettled || !view.settled) views.push_back(std::move(view));
    }
    return answer(globals, shards_json(*found, map->revision, views), shards_text(status, *found, views));
  });
}

/// Finds the nodes that the arguments name, runs `change` with their uuids, and prints `done`. If `warning` is not
/// empty, the user must confirm it first.
int change_shard(
    const Globals& globals, const ShardArguments& arguments, const char* done, const std::string& warning,
    const std::function<absl::Status(AdminClient&, uint32_t, const std::string& from, const std::string& to)>& change) {
  const int64_t shard = shard_number(arguments.shard);
  AdminClient admin(globals.control_address, globals.timeout_ns, credentials_of(globals));
  const absl::StatusOr<ClusterStatus> status = admin.status();
  if (!status.ok()) return report_failure(status.status());
  if (const absl::Status known = check_shard(*status, arguments.table, shard); !known.ok())
    return report_failure(known);
  std::string uuids[2];
  const std::string* names[2] = {&arguments.from, &arguments.to};
  for (size_t i = 0; i < 2; ++i) {
    if (names[i]->empty()) continue;
    const absl::StatusOr<ClusterStatus::Node> node = find_node(*status, *names[i]);
    if (!node.ok()) return report_failure(node.status());
    uuids[i] = node->info.uuid;
  }
  if (!uuids[0].empty() && uuids[0] == uuids[1]) {
    app::fail_usage(kProgram, absl::StrCat("--from and --to are the same node, ", uuids[0]));
  }
  if (!warning.empty() && !confirmed(arguments.yes, warning, arguments.table)) return app::kExitFailure;
  const absl::Status changed = change(admin, static_cast<uint32_t>(shard), uuids[0], uuids[1]);
  if (!changed.ok()) {
    return report_change_failure(changed, absl::StrCat("skuactl shard show ", arguments.table, " ", shard));
  }
  nlohmann::json json = {{"table", arguments.table}, {"shard", shard}, {"done", done}};
  if (!uuids[0].empty()) json["from"] = uuids[0];
  if (!uuids[1].empty()) json["to"] = uuids[1];
  return answer(globals, json,
                absl::StrCat("shard ", shard, " of table ", arguments.table, " ", done, "; skuactl shard show ",
                             arguments.table, " ", shard, " tells how far it is\n"));
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

app::Command& add_shard_command(app::Command& shards, const char* name, const char* summary,
                                ShardArguments& arguments) {
  app::Command& command = shards.add_command(name, summary);
  add_table_argument(command, "table", arguments.table);
  command.add_positional("shard", &arguments.shard, "The shard's number, from 0.").check(complaint_of_shard);
  return command;
}

void add_node_option(app::Command& command, const char* name, std::string& target, const char* help) {
  command.add_string(name, &target, absl::StrCat(help, " By uuid, the beginning of its uuid, or its gRPC address."))
      .value_name("NODE")
      .required()
      .check(complaint_of_node);
}

void add_show_command(app::Command& shards, const Globals& globals) {
  auto arguments = std::make_shared<ShardArguments>();
  app::Command& command = shards.add_command("show", "Prints epoch, primary, backups and learners of shards.");
  add_table_argument(command, "table", arguments->table);
  command.add_positional("shard", &arguments->shard, "The shard's number, from 0; default: all of them.")
      .optional()
      .check(complaint_of_shard);
  command.add_bool("unsettled", &arguments->unsettled, "Only those that lack something or are on the move.");
  command.example("skuactl shard show notes", "every shard of notes");
  command.example("skuactl shard show notes 3", "");
  command.example("skuactl shard show notes --unsettled", "what keeps notes from being whole");
  command.action([&globals, arguments] { return show(globals, *arguments); });
}

}  // namespace

void add_shard_commands(app::Program& program, const Globals& globals) {
  app::Command& shards = program.add_command("shard", "Shows, moves and recovers shards.");
  add_show_command(shards, globals);

  auto moved = std::make_shared<ShardArguments>();
  app::Command& move_command = add_shard_command(shards, "move", "Gives one node's replica to another node.", *moved);
  move_command.description(
      "The new node copies the shard, joins, and only then the old one leaves; reads and writes go on. Balancing may "
      "move others later to even the load out.");
  add_node_option(move_command, "from", moved->from, "A member.");
  add_node_option(move_command, "to", moved->to, "A node that has no part in the shard.");
  move_command.example("skuactl shard move notes 3 --from 10.0.0.1:7500 --to 10.0.0.4:7500", "");
  move_command.action([&globals, moved] {
    return change_shard(globals, *moved, "moves", "",
                        [&](AdminClient& admin, uint32_t shard, const std::string& from, const std::string& to) {
                          return admin.move_shard(moved->table, shard, from, to);
                        });
  });

  auto transferred = std::make_shared<ShardArguments>();
  app::Command& transfer_command =
      add_shard_command(shards, "transfer", "Makes another member the primary.", *transferred);
  add_node_option(transfer_command, "to", transferred->to, "A live member.");
  transfer_command.example("skuactl shard transfer notes 3 --to 10.0.0.2:7500", "");
  transfer_command.action([&globals, transferred] {
    return change_shard(globals, *transferred, "is led by that node", "",
                        [&](AdminClient& admin, uint32_t shard, const std::string&, const std::string& to) {
                          return admin.transfer_primary(transferred->table, shard, to);
                        });
  });

  auto recovered = std::make_shared<ShardArguments>();
  app::Command& recover_command =
      add_shard_command(shards, "recover", "Goes on with what one node has, when no member can serve.", *recovered);
  recover_command.description(
      "The last resort. What that node has becomes the only truth: writes that were acknowledged but never reached it "
      "are lost, and clients are not told. Refused as long as a live member has all data. If a member's machine can be "
      "started again, start it instead: nothing is lost then.");
  add_node_option(recover_command, "from", recovered->from, "A member or learner that is alive.");
  recover_command.add_bool("yes", &recovered->yes, "Do not ask: acknowledged writes may be lost.");
  recover_command.example("skuactl shard recover notes 3 --from 10.0.0.2:7500 --yes", "");
  recover_command.action([&globals, recovered] { return recover(globals, *recovered); });
}

}  // namespace skua::kv::ctl
