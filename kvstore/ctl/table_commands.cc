// skuactl table create, list, drop.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/exit.h"
#include "app/signals.h"
#include "app/value_text.h"
#include "control/client/admin_client.h"
#include "control/core/cluster_limits.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/cluster_print.h"
#include "kvstore/ctl/cluster_view.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/clock.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;

constexpr DurationNs kWaitReady = 5 * kSecond;
constexpr DurationNs kWaitReadyMax = 60 * kSecond;

constexpr char kLookAtTables[] = "skuactl table list";

/// The longest time for which the first request lets the control plane wait, and the pause between later looks.
/// Ctrl-C is checked between requests.
constexpr DurationNs kWaitAtOnce = 200 * kMillisecond;

uint32_t wait_ms(DurationNs wait_ns) {
  return static_cast<uint32_t>((std::min(wait_ns, kWaitAtOnce) + kMillisecond - 1) / kMillisecond);
}

struct CreateArguments {
  control::CreateTableOptions wanted;
  DurationNs wait_ns = kWaitReady;
};

void print_created(const Globals& globals, const control::CreatedTable& made) {
  const control::Table& table = made.table.table;
  nlohmann::json json = table_json(made.table);
  json["created"] = made.created;
  json["ready"] = made.ready;
  json["waiting_for"] = made.waiting_for;
  const std::string needs =
      table.replicas > 1 ? absl::StrCat(", writes need ", table.min_insync, " of them") : std::string();
  answer(globals, json,
         absl::StrCat(
             "table ", table.name, made.created ? " created: " : " exists: ", counted(table.shard_count, "shard"), ", ",
             counted(table.replicas, "replica"), needs, made.ready ? ", ready\n" : ", not ready on all nodes yet\n"));
}

/// For a table that exists but is not served by all of its nodes: names the nodes that are missing, and says what to
/// do.
std::string waits_for(AdminClient& admin, const control::CreatedTable& made) {
  std::vector<std::string> nodes;
  const absl::StatusOr<control::ClusterStatus> status = admin.status();
  for (const std::string& uuid : made.waiting_for) {
    const absl::StatusOr<control::ClusterStatus::Node> node =
        status.ok() ? find_node(*status, uuid) : absl::StatusOr<control::ClusterStatus::Node>(status.status());
    nodes.push_back(!node.ok() ? uuid
                               : absl::StrCat(uuid, " (", node->info.grpc_address, ", ",
                                              control::liveness_name(node->liveness), ")"));
  }
  return absl::StrCat(": waits for node ", absl::StrJoin(nodes, ", "),
                      ". Look with skuactl status; skuactl status --wait-settled 1m waits on");
}

/// Asks which nodes do not serve the table yet. NOT_FOUND: it was dropped.
absl::Status look(AdminClient& admin, control::CreatedTable& made) {
  const absl::StatusOr<control::ShardMap> map = admin.shard_map();
  if (!map.ok()) return map.status();
  const absl::StatusOr<control::ClusterStatus> status = admin.status();
  if (!status.ok()) return status.status();
  auto waiting_for = nodes_not_serving(*status, *map, made.table.table.id, made.map_revision);
  if (!waiting_for) return absl::NotFoundError("dropped");
  made.waiting_for = *std::move(waiting_for);
  made.ready = made.waiting_for.empty();
  return absl::OkStatus();
}

/// Waits until the table is ready or `end` is reached, and changes nothing. DEADLINE_EXCEEDED: not ready at `end`.
/// CANCELLED: Ctrl-C. NOT_FOUND: the table was dropped; the control plane calls such a table ready, too.
absl::Status await_ready(AdminClient& admin, control::CreatedTable& made, TimeNs end, app::StopSignal& stop) {
  const SteadyClock clock;
  while (true) {
    const bool was_ready = made.ready;
    absl::Status looked = look(admin, made);
    if (!looked.ok() && (!was_ready || absl::IsNotFound(looked))) return looked;
    if (made.ready) return absl::OkStatus();
    const DurationNs left = end - clock.now_ns();
    if (left <= 0) return absl::DeadlineExceededError("not served yet");
    if (stop.wait_for(std::min(left, kWaitAtOnce))) return absl::CancelledError("no longer waiting");
  }
}

int create(const Globals& globals, const CreateArguments& arguments) {
  const std::unique_ptr<app::StopSignal> stop = stop_signal_of_wait(arguments.wait_ns);
  const TimeNs end = SteadyClock().now_ns() + arguments.wait_ns;
  AdminClient admin = admin_of(globals);
  control::CreateTableOptions wanted = arguments.wanted;
  wanted.wait_ready_ms = wait_ms(arguments.wait_ns);
  control::CreatedTable made = must_change(admin.create_table(wanted), kLookAtTables);
  absl::Status ready;
  if (stop != nullptr) ready = await_ready(admin, made, end, *stop);
  const std::string& name = made.table.table.name;
  if (absl::IsNotFound(ready)) {
    return report_failure(
        absl::AbortedError(absl::StrCat("table ", name, made.created ? " was made, and " : " existed, and ",
                                        "was dropped meanwhile: see skuactl table list")));
  }
  print_created(globals, made);
  if (ready.ok()) return app::kExitOk;
  std::string why = absl::StrCat(" is made; whether it is served cannot be asked: ", ready.message());
  if (absl::IsDeadlineExceeded(ready)) {
    why = absl::StrCat(" is made, but not served yet after ", app::format_duration(arguments.wait_ns),
                       waits_for(admin, made));
  } else if (absl::IsCancelled(ready)) {
    why = absl::StrCat(" is made, but not served yet", waits_for(admin, made));
  }
  const char* const before = absl::IsCancelled(ready) ? "no longer waiting: table " : "table ";
  return report_failure(absl::Status(ready.code(), absl::StrCat(before, name, why)));
}

int list(const Globals& globals) {
  const std::vector<control::TableSummary> tables = must(admin_of(globals).list_tables());
  return answer(globals, tables_json(tables), table(table_rows(tables)));
}

struct DropArguments {
  std::string name;
  bool yes = false;
};

int drop(const Globals& globals, const DropArguments& arguments) {
  const std::string& name = arguments.name;
  AdminClient admin = admin_of(globals);
  must(check_table(admin, must(admin.list_tables()), name));
  if (!confirmed(arguments.yes, absl::StrCat("Dropping table ", name, " deletes all its data"), name))
    return app::kExitFailure;
  must_change(admin.drop_table(name), kLookAtTables);
  return answer(globals, {{"dropped", name}}, absl::StrCat("table ", name, " dropped\n"));
}

void add_create_command(app::Command& tables, const Globals& globals) {
  const auto [command, arguments] =
      add_command(tables, "create", "Makes a table and waits until it is served.", globals, create);
  control::CreateTableOptions& wanted = arguments.wanted;
  add_table_argument(command, "name", wanted.name);
  command.add_int("shards", &wanted.shard_count, "Pieces the table is cut into, for good; 0: a few for each worker.")
      .range(0, control::kShardsPerTableMax)
      .unit("shards");
  command.add_int("replicas", &wanted.replicas, "Copies of each shard, on as many nodes; 0: one, or what there is.")
      .range(0, control::kReplicasMax)
      .unit("replicas");
  command
      .add_int("min-insync", &wanted.min_insync,
               "Members that a shard must have to take writes; each has every acknowledged write on its disk. 0: more "
               "than half of the replicas.")
      .range(0, control::kReplicasMax)
      .unit("replicas");
  command.add_bool("read-anywhere", &wanted.read_anywhere,
                   "Clients read from all replicas, not only from primaries; reads stay linearizable.");
  command.add_bool(
      "hash-tags", &wanted.hash_tags,
      "The part of a key in braces decides alone which shard has the key, for good: cart:{ada} and {ada}.total "
      "are in one shard, and can be written together.");
  command.add_bool("if-not-exists", &wanted.if_not_exists, "An existing table is fine.");
  command
      .add_duration("wait", &arguments.wait_ns,
                    "Until all nodes serve it, but no longer than this, or until Ctrl-C (exit code 1); 0: do not wait.")
      .range(0, kWaitReadyMax);
  command.example("skuactl table create notes --shards 6 --replicas 3",
                  "survives the loss of a node, or of two one after the other");
  command.example("skuactl table create carts --shards 6 --replicas 3 --hash-tags",
                  "keys with one tag can be in one batch or transaction");
  command.example("skuactl table create scratch --shards 6", "one copy: a node that is down takes its shards with it");
}

}  // namespace

void add_table_commands(app::Program& program, const Globals& globals) {
  app::Command& tables = program.add_command("table", "Makes, lists and drops tables.");
  add_create_command(tables, globals);
  app::Command& list_command =
      tables.add_command("list", "Lists tables, and how many of their shards are available and settled.");
  list_command.description(
      "Available: the shard's primary is alive and serves its data. Settled: it has all its replicas, on live nodes "
      "that are to keep them, and nothing is under way.");
  list_command.action([&globals] { return list(globals); });

  const auto [drop_command, dropped] = add_command(tables, "drop", "Deletes a table and its data.", globals, drop);
  add_table_argument(drop_command, "name", dropped.name);
  drop_command.add_bool("yes", &dropped.yes, "Do not ask.");
}

}  // namespace skua::kv::ctl
