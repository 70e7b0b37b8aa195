// skuactl store inspect, verify, dump: command lines, the directory's lock, and the check of its identity.
#include "kvstore/ctl/store_commands.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "app/data_dir.h"
#include "app/exit.h"
#include "app/lock_file.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/host_files.h"
#include "kvstore/ctl/progress.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

constexpr int64_t kFormatVersion = 1;  // the newest format of a node's directory that this program knows
constexpr char kNodeRole[] = "node";
constexpr size_t kNamesMax = 8;

struct StoreArguments {
  std::string directory;
  StartArguments start;
  DumpArguments dump;
  int64_t table = -1;
  int64_t shard = -1;
};

/// The 16 bytes of a UUID. `text` was checked when it was read; if it is empty, the bytes are zero.
std::array<std::byte, 16> uuid_bytes(const std::string& text) {
  const std::string bytes = absl::HexStringToBytes(absl::StrReplaceAll(text, {{"-", ""}}));
  std::array<std::byte, 16> out{};
  std::memcpy(out.data(), bytes.data(), std::min(out.size(), bytes.size()));
  return out;
}

uint64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

OfflineProgress progress_lines(const char* what) {
  auto progress = std::make_shared<Progress>();
  return [progress, what](uint64_t done, uint64_t total) {
    progress->tell([&] { return absl::StrCat(what, " ", done >> 20, " of ", total >> 20, " MiB"); });
  };
}

/// Names of the nodes' directories directly below `directory`. The user may have given their parent by mistake.
std::vector<std::string> nodes_below(const std::string& directory) {
  std::vector<std::string> found;
  for (const std::string& name : names_in(directory)) {
    const auto identity = app::read_identity(absl::StrCat(directory, "/", name));
    if (identity.ok() && identity->has_value() && (*identity)->role == kNodeRole) found.push_back(name);
  }
  return found;
}

/// Why `directory`, which has no identity, is not the data directory of a node.
std::string why_no_node(const std::string& directory) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(directory, error);
  if (there.type() == std::filesystem::file_type::not_found) return "it does not exist";
  if (error) return error.message();
  if (!std::filesystem::is_directory(there)) return "it is not even a directory";
  std::vector<std::string> below = nodes_below(directory);
  if (!below.empty()) {
    const bool more = below.size() > kNamesMax;
    below.resize(std::min(below.size(), kNamesMax));
    return absl::StrCat("it has no identity.toml, but holds ", absl::StrJoin(below, ", "), more ? ", ..." : "");
  }
  return names_in(directory).empty() ? "it is empty" : "it has no identity.toml";
}

/// The identity of a node's data directory. Ends the program if the directory has none, a damaged one, that of the
/// control plane, or one of a newer format.
app::DataDirIdentity identity_of(const std::string& directory) {
  const absl::StatusOr<std::optional<app::DataDirIdentity>> found = app::read_identity(directory);
  if (absl::IsDataLoss(found.status())) app::fail(kProgram, std_view(found.status().message()));
  if (!found.ok() || !found->has_value()) {
    fail_usage(absl::StrCat(printable(directory), " is not a node's data directory: ", why_no_node(directory),
                            "; give what skuad was given as --data-dir"));
  }
  const app::DataDirIdentity& identity = **found;
  if (identity.role != kNodeRole) {
    fail_usage(absl::StrCat(printable(directory), " belongs to the control plane (", identity.role,
                            "), not to a node; give what skuad was given as --data-dir"));
  }
  if (identity.format_version > kFormatVersion) {
    fail_usage(absl::StrCat(directory, " has format version ", identity.format_version,
                            " and this skuactl knows only up to ", kFormatVersion,
                            "; use the skuactl of the version that wrote it"));
  }
  return identity;
}

template <typename Use>
int with_store(const std::string& directory, Use&& use) {
  OpenedStore opened{.directory = directory, .identity = identity_of(directory), .now_ms = unix_ms(), .store = nullptr};
  const auto lock = app::DirectoryLock::acquire(
      directory, kProgram, "stop it first, and start it again afterwards; or look into a copy of the directory");
  must_be_valid(lock.status());
  OfflineStore::Options options{.data_dir = directory};
  options.identity.cluster_id = uuid_bytes(opened.identity.cluster_id);
  options.identity.node_id = uuid_bytes(opened.identity.node_uuid);
  options.has_joined = !opened.identity.cluster_id.empty();
  options.progress = progress_lines("read");
  opened.store = must(OfflineStore::open(std::move(options)));
  return use(opened);
}

int inspect(const Globals& globals, const StoreArguments& arguments) {
  return with_store(arguments.directory, [&](const OpenedStore& opened) { return inspect_store(globals, opened); });
}

int verify(const Globals& globals, const StoreArguments& arguments) {
  return with_store(arguments.directory, [&](const OpenedStore& opened) { return verify_store(globals, opened); });
}

int dump(const Globals& globals, const StoreArguments& arguments) {
  DumpArguments wanted = arguments.dump;
  if (arguments.table >= 0) wanted.selection.table_id = static_cast<uint32_t>(arguments.table);
  if (arguments.shard >= 0) wanted.selection.shard = static_cast<uint32_t>(arguments.shard);
  wanted.selection.start = start_of(globals, arguments.start);
  return with_store(arguments.directory, [&](const OpenedStore& opened) {
    wanted.selection.now_ms = opened.now_ms;
    return dump_store(globals, opened, wanted);
  });
}

Added<StoreArguments> add_store_command(app::Command& parent, const char* name, const char* summary,
                                        const Globals& globals, int (*run)(const Globals&, const StoreArguments&)) {
  const Added<StoreArguments> added = add_command(parent, name, summary, globals, run);
  added.command.add_positional("dir", &added.arguments.directory, "The node's data directory.")
      .value_name("DIR")
      .check(not_empty("must be a directory"));
  return added;
}

void add_dump_command(app::Command& store, const Globals& globals) {
  const auto [command, arguments] =
      add_store_command(store, "dump", "Prints the keys that the node would serve.", globals, dump);
  command.description(
      "From the databases, and above them from the log what recovery would bring into them. By shard and key. Text: "
      "shard, version, key and with --values value, separated by tabs. JSON: an object per line. Keys that have "
      "expired by this machine's clock are left out.");
  command.add_bool("values", &arguments.dump.values, "Values too.");
  command.add_int("table", &arguments.table, "Of this table only; `skuactl table list` tells ids.")
      .value_name("ID")
      .range(0, UINT32_MAX);
  command.add_int("shard", &arguments.shard, "Of this shard of each table only.").value_name("N").range(0, UINT32_MAX);
  add_start_options(command, arguments.start, "First key of each shard; default: the smallest.");
  command.add_int("limit", &arguments.dump.limit, "Rows at most; 0: all.").unit("rows");
  command.add_bool("salvage", &arguments.dump.selection.salvage,
                   "Of a damaged shard, what its database holds; otherwise it is left out.");
  command.add_bool("uncommitted", &arguments.dump.selection.uncommitted,
                   "Of shards with replicas, entries too that are not known to be committed: the last writes before a "
                   "crash, which may never have been acknowledged.");
  command.example("skuactl store dump /var/lib/skua --table 7 --limit 20", "the first keys of table 7");
  command.example("skuactl store dump /var/lib/skua --values --output json > rows.jsonl", "everything, a row a line");
}

}  // namespace

void add_store_commands(app::Program& program, const Globals& globals) {
  app::Command& store = program.add_command("store", "Looks into the data directory of a stopped node.");
  store.description("Without the control plane, and without changing anything. The node must be stopped.");

  add_store_command(store, "inspect", "Says what is in it: logs, shards.", globals, inspect)
      .command.example("skuactl store inspect /var/lib/skua", "");

  add_store_command(store, "verify", "Checks every checksum, and the logs against the databases.", globals, verify)
      .command.description("Exit code 1 if anything is damaged; file and offset are named, and what to do.")
      .example("skuactl store verify /var/lib/skua", "");

  add_dump_command(store, globals);
}

}  // namespace skua::kv::ctl
