// table create, list, drop.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/exit.h"
#include "control/client/admin_client.h"
#include "kvstore/ctl/cluster_print.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;

constexpr uint32_t kWaitReadyMs = 5000;
// The control plane's limit too, which has the last word.
constexpr int64_t kReplicasMax = 5;

void print_created(const control::CreatedTable& made) {
  const control::Table& table = made.table.table;
  std::printf("table %s %s: %u shards, %u replica%s", table.name.c_str(), made.created ? "created" : "exists",
              table.shard_count, table.replicas, table.replicas == 1 ? "" : "s");
  if (table.replicas > 1) std::printf(", writes need %u of them", table.min_insync);
  std::printf(", %s\n", made.ready ? "ready" : "not ready on all nodes yet");
}

int create(const Globals& globals, const control::CreateTableOptions& wanted) {
  AdminClient admin(globals.control_address, globals.timeout_ns);
  const absl::StatusOr<control::CreatedTable> made = admin.create_table(wanted);
  if (!made.ok()) return report_failure(made.status());
  if (!globals.json) {
    print_created(*made);
    return app::kExitOk;
  }
  nlohmann::json json = table_json(made->table);
  json["created"] = made->created;
  json["ready"] = made->ready;
  json["waiting_for"] = made->waiting_for;
  print_json(json);
  return app::kExitOk;
}

int list(const Globals& globals) {
  AdminClient admin(globals.control_address, globals.timeout_ns);
  const absl::StatusOr<std::vector<control::TableSummary>> tables = admin.list_tables();
  if (!tables.ok()) return report_failure(tables.status());
  if (!globals.json) {
    std::fputs(table(table_rows(*tables)).c_str(), stdout);
    return app::kExitOk;
  }
  nlohmann::json json = nlohmann::json::array();
  for (const control::TableSummary& summary : *tables) json.push_back(table_json(summary));
  print_json(json);
  return app::kExitOk;
}

int drop(const Globals& globals, const std::string& name, bool yes) {
  if (!confirmed(yes, absl::StrCat("Dropping table ", name, " deletes all its data"), name)) return app::kExitFailure;
  AdminClient admin(globals.control_address, globals.timeout_ns);
  const absl::StatusOr<uint64_t> dropped = admin.drop_table(name);
  if (!dropped.ok()) return report_failure(dropped.status());
  if (globals.json) {
    print_json({{"dropped", name}});
  } else {
    std::printf("table %s dropped\n", name.c_str());
  }
  return app::kExitOk;
}

void add_create_command(app::Command& tables, const Globals& globals) {
  auto wanted = std::make_shared<control::CreateTableOptions>();
  wanted->wait_ready_ms = kWaitReadyMs;
  app::Command& command = tables.add_command("create", "Makes a table and waits until it is served.");
  command.add_positional("name", &wanted->name, "The table's name.");
  command.add_int("shards", &wanted->shard_count, "Pieces the table is cut into, for good; 0: a few for each worker.")
      .range(0, 65'536)
      .unit("shards");
  command.add_int("replicas", &wanted->replicas, "Copies of each shard, on as many nodes; 0: one, or what there is.")
      .range(0, kReplicasMax)
      .unit("replicas");
  command
      .add_int("min-insync", &wanted->min_insync,
               "Members that a shard must have to take writes; each has every acknowledged write on its disk. 0: more "
               "than half of the replicas.")
      .range(0, kReplicasMax)
      .unit("replicas");
  command.add_bool("read-anywhere", &wanted->read_anywhere,
                   "Clients read from all replicas, not only from primaries; reads stay linearizable.");
  command.add_bool("if-not-exists", &wanted->if_not_exists, "An existing table is fine.");
  command.example("skuactl table create notes --shards 6 --replicas 3",
                  "survives the loss of a node, or of two one after the other");
  command.example("skuactl table create scratch --shards 6", "one copy: a node that is down takes its shards with it");
  command.action([&globals, wanted] { return create(globals, *wanted); });
}

}  // namespace

void add_table_commands(app::Program& program, const Globals& globals) {
  app::Command& tables = program.add_command("table", "Makes, lists and drops tables.");
  add_create_command(tables, globals);
  app::Command& list_command =
      tables.add_command("list", "Lists tables, and how many of their shards are available and settled.");
  list_command.description(
      "Available: the shard's primary is alive. Settled: it has all its replicas, on live nodes that are to keep them, "
      "and nothing is under way.");
  list_command.action([&globals] { return list(globals); });

  struct DropArguments {
    std::string name;
    bool yes = false;
  };
  auto target = std::make_shared<DropArguments>();
  app::Command& drop_command = tables.add_command("drop", "Deletes a table and its data.");
  drop_command.add_positional("name", &target->name, "The table's name.");
  drop_command.add_bool("yes", &target->yes, "Do not ask.");
  drop_command.action([&globals, target] { return drop(globals, target->name, target->yes); });
}

}  // namespace skua::kv::ctl
