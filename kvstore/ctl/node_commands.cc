// skuactl node list, drain, undrain, remove. yield_command.cc has yield.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "app/signals.h"
#include "app/value_text.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/cluster_print.h"
#include "kvstore/ctl/cluster_view.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/clock.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;
using control::ClusterStatus;

constexpr char kLookAtNodes[] = "skuactl node list";

int list(const Globals& globals) {
  const ClusterStatus status = must(admin_of(globals).status());
  return answer(globals, nodes_json(status), table(node_rows(status)));
}

struct NodeArguments {
  std::string node;
  DurationNs wait_ns = 0;
  bool force = false;
  bool yes = false;
  bool revoke = false;
};

/// The node called `name`. Ends the program if there is none.
ClusterStatus::Node node_named(AdminClient& admin, const std::string& name) {
  return must(find_node(must(admin.status()), name));
}

int report_done(const Globals& globals, const ClusterStatus::Node& node, const char* done, const std::string& note) {
  return answer(globals,
                {{"uuid", node.info.uuid}, {"grpc_address", node.info.grpc_address}, {"done", done}, {"note", note}},
                absl::StrCat("node ", node.info.uuid, " (", node.info.grpc_address, ") ", done,
                             note.empty() ? "" : ": ", note, "\n"));
}

bool is_alive(const ClusterStatus::Node& node) {
  return node.liveness == control::Liveness::kAlive;
}

/// If the node does not run: says which of its data the drain cannot move yet. Otherwise empty.
std::string note_on_absence(const ClusterStatus::Node& node) {
  if (is_alive(node)) return {};
  return absl::StrCat(
      "the node is ", control::liveness_name(node.liveness),
      ": shards that other nodes have too are copied from those; what only it has moves when it runs again");
}

/// What the drain still has to move, and what prevents that.
std::string left_of(const ClusterStatus::Node& node) {
  return node.drain_progress.empty() ? counted(node.replica_count, "replica") + " left" : node.drain_progress;
}

/// The troubles of nodes and cluster that `skuactl status` shows. They may be the reason why a drain does not go on.
std::string troubles_of(const ClusterStatus& status) {
  std::string text;
  for (const ClusterStatus::Node& node : status.nodes) {
    if (node.trouble.empty()) continue;
    absl::StrAppend(&text, "; trouble at ", short_uuid(status, node.info.uuid), ": ", node.trouble);
  }
  for (const std::string& trouble : status.troubles) absl::StrAppend(&text, "; trouble: ", trouble);
  return text;
}

/// Says how to follow, or take back, a drain that this command no longer waits for.
std::string goes_on(const std::string& uuid) {
  return absl::StrCat("The drain goes on in the cluster: skuactl node list tells how far it is, skuactl node undrain ",
                      uuid, " takes it back");
}

/// Waits until the node holds no replicas, `limit_ns` has passed, or Ctrl-C. Prints progress on stderr when it changes.
int await_empty(const Globals& globals, AdminClient& admin, app::StopSignal& stop, const std::string& uuid,
                DurationNs limit_ns) {
  const SteadyClock clock;
  const TimeNs end = clock.now_ns() + limit_ns;
  std::string shown;
  while (true) {
    const absl::StatusOr<ClusterStatus> status = admin.status();
    std::string left;
    std::string troubles;
    if (status.ok()) {
      const ClusterStatus::Node node = must(find_node(*status, uuid));
      if (!node.info.draining) {
        return report_failure(absl::FailedPreconditionError(
            absl::StrCat("the drain of node ", uuid, " was taken back: the node takes shards again. ", left_of(node))));
      }
      if (node.replica_count == 0 && node.owned_shard_count == 0) {
        return report_done(
            globals, node, "is empty",
            absl::StrCat(is_alive(node) ? "stop its process, then: " : "", "skuactl node remove ", uuid));
      }
      left = left_of(node);
      if (node.replica_count == node.staying_shard_count) {
        return report_failure(
            absl::FailedPreconditionError(absl::StrCat("node ", uuid, " does not become empty: ", left,
                                                       ". Or: skuactl node undrain ", uuid, " takes the drain back")));
      }
      troubles = troubles_of(*status);
    } else {
      // Keeps waiting: the drain survives a restart of the control plane.
      left = std::string(status.status().message());
    }
    if (left != shown) print_error(left);
    shown = left;
    if (clock.now_ns() + kLookPause >= end) {
      return report_failure(absl::DeadlineExceededError(absl::StrCat("node ", uuid, " is not empty after ",
                                                                     app::format_duration(limit_ns), ": ", left,
                                                                     troubles, ". ", goes_on(uuid))));
    }
    if (stop.wait_for(kLookPause)) {
      return report_failure(absl::CancelledError(absl::StrCat("no longer waiting: ", left, ". ", goes_on(uuid))));
    }
  }
}

int drain(const Globals& globals, const NodeArguments& arguments) {
  const std::unique_ptr<app::StopSignal> stop = stop_signal_of_wait(arguments.wait_ns);
  AdminClient admin = admin_of(globals);
  const ClusterStatus::Node node = node_named(admin, arguments.node);
  must_change(admin.drain_node(node.info.uuid), kLookAtNodes);
  if (stop != nullptr) return await_empty(globals, admin, *stop, node.info.uuid, arguments.wait_ns);
  const std::string absence = note_on_absence(node);
  return report_done(globals, node, "drains",
                     absl::StrCat("skuactl node list tells how far it is", absence.empty() ? "" : "; ", absence));
}

int undrain(const Globals& globals, const NodeArguments& arguments) {
  AdminClient admin = admin_of(globals);
  const ClusterStatus::Node node = node_named(admin, arguments.node);
  must_change(admin.undrain_node(node.info.uuid), kLookAtNodes);
  return report_done(globals, node, "takes shards again",
                     node.info.draining ? "" : "it was not drained, nothing changes");
}

/// What is said of a node that was removed. Its certificate is good until it expires or is revoked.
std::string note_on_identity(const Globals& globals, const std::string& uuid, bool revoked) {
  const std::string identity = absl::StrCat("node/", uuid);
  if (revoked) return absl::StrCat("its identity, ", identity, ", is revoked: nobody talks to it any more");
  if (globals.credential_files.empty()) return {};
  return absl::StrCat("its certificate is still good, and it joins again if it is started. Shut it out: ",
                      "skuactl cert revoke ", identity);
}

int remove(const Globals& globals, const NodeArguments& arguments) {
  if (arguments.revoke && globals.credential_files.empty()) {
    fail_usage("--revoke is for clusters with certificates: give --cert, --key and --ca, or leave it out");
  }
  AdminClient admin = admin_of(globals);
  const ClusterStatus::Node node = node_named(admin, arguments.node);
  const std::string& uuid = node.info.uuid;
  if (is_alive(node)) {
    return report_failure(absl::FailedPreconditionError(
        absl::StrCat("node ", uuid, " (", node.info.grpc_address,
                     ") is alive. Stop its process first, then remove it; skuactl node drain empties it before")));
  }
  if (arguments.force &&
      !confirmed(arguments.yes, absl::StrCat("Removing node ", uuid, " by force gives up what only it has"),
                 node.info.grpc_address)) {
    return app::kExitFailure;
  }
  // First: else a node that somebody starts again in between would be a member once more.
  if (arguments.revoke) must_change(admin.revoke_identity(absl::StrCat("node/", uuid)), "skuactl cert revoked");
  absl::Status removed = admin.remove_node(uuid, arguments.force);
  if (arguments.revoke) {
    removed = with_words("", removed, absl::StrCat(". Its identity, node/", uuid, ", is revoked already"));
  }
  must_change(removed, kLookAtNodes);
  return report_done(globals, node, "removed", note_on_identity(globals, uuid, arguments.revoke));
}

Added<NodeArguments> add_node_command(app::Command& nodes, const char* name, const char* summary,
                                      const Globals& globals, int (*run)(const Globals&, const NodeArguments&)) {
  const Added<NodeArguments> added = add_command(nodes, name, summary, globals, run);
  add_node_argument(added.command, added.arguments.node);
  return added;
}

}  // namespace

void add_node_commands(app::Program& program, const Globals& globals) {
  app::Command& nodes = program.add_command("node", "Lists, drains and removes storage nodes, and has them yield.");
  app::Command& list_command = nodes.add_command("list", "Lists nodes, what they hold, and how far drains are.");
  list_command.example("skuactl node list", "");
  list_command.action([&globals] { return list(globals); });

  const auto [drain_command, drained] =
      add_node_command(nodes, "drain", "Moves all shards of a node to others.", globals, drain);
  drain_command.description(
      "The node leads no shard from then on, and holds none when others have copies. It lasts until undrain, also "
      "across restarts. With as many nodes as replicas it stops leading, but keeps its replicas: nobody else has "
      "room for them. Shards of tables with one replica are not copied and stay.");
  drain_command.add_duration("wait", &drained.wait_ns,
                             "Return when the node is empty, but no later than this (exit code 1); 0: do not wait. "
                             "Ctrl-C ends the waiting, not the drain.");
  drain_command.example("skuactl node drain 10.0.0.3:7500 --wait 30m", "before the machine goes");

  add_node_command(nodes, "undrain", "Takes a drain back.", globals, undrain)
      .command.example("skuactl node undrain 10.0.0.3:7500", "");

  add_yield_command(nodes, globals);

  const auto [remove_command, removed] =
      add_node_command(nodes, "remove", "Takes a node that has stopped out of the cluster for good.", globals, remove);
  remove_command.description(
      "Drain it and stop its process first. With --force it need not be empty: replicated shards are left to their "
      "other members; a shard that only this node has is lost.");
  remove_command.add_bool("force", &removed.force, "Also if it still holds shards.");
  remove_command.add_bool("yes", &removed.yes, "With --force: do not ask.");
  remove_command.add_bool("revoke", &removed.revoke,
                          "Revoke its identity as well: its certificates are refused, and it cannot join again.");
  remove_command.example("skuactl node remove 5f0c", "the node whose uuid begins with 5f0c");
  remove_command.example("skuactl node remove 10.0.0.3:7500 --force --yes", "a machine that will not come back");
}

}  // namespace skua::kv::ctl
