// table create, list, drop.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "kvstore/client/admin.h"
#include "kvstore/ctl/commands.h"

namespace skua::kv::ctl {
namespace {

std::chrono::milliseconds timeout_of(const Globals& globals) {
  return std::chrono::milliseconds(globals.timeout_ns / kMillisecond);
}

int create(const Globals& globals, const NewTable& wanted) {
  Admin admin(globals.control_address, timeout_of(globals));
  const absl::StatusOr<CreatedTable> made = admin.create_table(wanted);
  if (!made.ok()) return report_failure(made.status());
  if (globals.json) {
    const nlohmann::json json = {{"id", made->table.id},
                                 {"name", made->table.name},
                                 {"shards", made->table.shard_count},
                                 {"created", made->created},
                                 {"ready", made->ready}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("table %s %s: %u shards, %s\n", made->table.name.c_str(), made->created ? "created" : "exists",
                made->table.shard_count, made->ready ? "ready" : "not ready on all nodes yet");
  }
  return app::kExitOk;
}

int list(const Globals& globals) {
  Admin admin(globals.control_address, timeout_of(globals));
  const absl::StatusOr<std::vector<TableInfo>> tables = admin.list_tables();
  if (!tables.ok()) return report_failure(tables.status());
  if (globals.json) {
    nlohmann::json json = nlohmann::json::array();
    for (const TableInfo& info : *tables) {
      json.push_back({{"id", info.id},
                      {"name", info.name},
                      {"shards", info.shard_count},
                      {"available_shards", info.available_shard_count}});
    }
    std::printf("%s\n", json.dump(2).c_str());
    return app::kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {{"TABLE", "ID", "SHARDS", "AVAILABLE"}};
  for (const TableInfo& info : *tables) {
    rows.push_back(
        {info.name, absl::StrCat(info.id), absl::StrCat(info.shard_count), absl::StrCat(info.available_shard_count)});
  }
  std::fputs(table(rows).c_str(), stdout);
  return app::kExitOk;
}

int drop(const Globals& globals, const std::string& name, bool yes) {
  if (!yes) {
    if (isatty(STDIN_FILENO) == 0) app::fail_usage(kProgram, "dropping a table deletes its data; add --yes to mean it");
    std::printf("Delete table %s and all its data? Type its name: ", name.c_str());
    std::fflush(stdout);
    std::string typed;
    std::getline(std::cin, typed);
    if (typed != name) {
      std::fprintf(stderr, "%s: not dropped\n", kProgram);
      return app::kExitFailure;
    }
  }
  Admin admin(globals.control_address, timeout_of(globals));
  if (absl::Status status = admin.drop_table(name); !status.ok()) return report_failure(status);
  if (globals.json) {
    std::printf("%s\n", nlohmann::json({{"dropped", name}}).dump(2).c_str());
  } else {
    std::printf("table %s dropped\n", name.c_str());
  }
  return app::kExitOk;
}

}  // namespace

void add_table_commands(app::Program& program, const Globals& globals) {
  app::Command& tables = program.add_command("table", "Makes, lists and drops tables.");

  auto wanted = std::make_shared<NewTable>();
  app::Command& create_command = tables.add_command("create", "Makes a table and waits until it is served.");
  create_command.add_positional("name", &wanted->name, "The table's name.");
  create_command
      .add_int("shards", &wanted->shard_count, "Pieces the table is cut into, for good; 0: a few for each worker.")
      .range(0, 65'536)
      .unit("shards");
  create_command.add_int("replicas", &wanted->replicas, "Nodes that hold each piece.").range(0, 5);
  create_command.add_bool("if-not-exists", &wanted->if_not_exists, "An existing table is fine.");
  create_command.example("skuactl table create notes --shards 6", "");
  create_command.action([&globals, wanted] { return create(globals, *wanted); });

  tables.add_command("list", "Lists tables.").action([&globals] { return list(globals); });

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
