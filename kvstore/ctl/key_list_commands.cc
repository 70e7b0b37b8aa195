// skuactl mget, exists.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/exit.h"
#include "kvstore/client/client.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/key_text.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

/// Absent keys that an error names.
constexpr size_t kNamedMax = 8;

struct KeyListArguments {
  std::string table;
  std::vector<std::string> keys;
};

/// What was found, in the order of the keys.
struct FoundKeys {
  std::vector<std::string> keys;
  std::vector<ReadResult> results;

  [[nodiscard]] bool is_absent(size_t index) const { return absl::IsNotFound(results[index].status); }
};

/// Reads all keys, as many at a time as one MULTI_GET takes. The first failure that is not NOT_FOUND, or OK.
absl::Status read_all(Client& client, const std::string& table, FoundKeys& found) {
  const std::vector<std::string_view> views(found.keys.begin(), found.keys.end());
  for (std::span<const std::string_view> rest = views; !rest.empty();) {
    const std::span<const std::string_view> part = rest.first(std::min(rest.size(), kBatchOpsMax));
    rest = rest.subspan(part.size());
    for (ReadResult& result : client.multi_get(table, part)) {
      if (!result.ok() && !absl::IsNotFound(result.status)) return result.status;
      found.results.push_back(std::move(result));
    }
  }
  return absl::OkStatus();
}

/// OK, or NOT_FOUND with the keys that are absent.
absl::Status check_all_found(const std::string& table, const FoundKeys& found) {
  std::vector<std::string> absent;
  for (size_t i = 0; i < found.keys.size(); ++i) {
    if (found.is_absent(i)) absent.push_back(shell_word(key_text(found.keys[i])));
  }
  if (absent.empty()) return absl::OkStatus();
  const size_t unnamed = absent.size() - std::min(absent.size(), kNamedMax);
  absent.resize(absent.size() - unnamed);
  return absl::NotFoundError(absl::StrCat("table ", table, " has no key ", absl::StrJoin(absent, ", "),
                                          unnamed == 0 ? "" : absl::StrCat(" and ", counted(unnamed, "more key"))));
}

using PrintFoundFn = void(const Globals& globals, const FoundKeys& found);

/// Reads the keys and prints them by `print`. Exit code 1 if one of them is absent.
int read_keys(const Globals& globals, const KeyListArguments& arguments, PrintFoundFn& print) {
  FoundKeys found{.keys = keys_of(globals, "KEY", arguments.keys), .results = {}};
  must(with_client(globals, arguments.table, [&](Client& client) { return read_all(client, arguments.table, found); }));
  print(globals, found);
  must(check_all_found(arguments.table, found));
  return app::kExitOk;
}

void print_values(const Globals& globals, const FoundKeys& found) {
  nlohmann::json rows = nlohmann::json::array();
  nlohmann::json absent = nlohmann::json::array();
  for (size_t i = 0; i < found.keys.size(); ++i) {
    const ReadResult& result = found.results[i];
    if (!globals.json && !found.is_absent(i)) {
      std::printf("%s\t%s\n", key_text(found.keys[i]).c_str(), printable(result.value).c_str());
    }
    if (!globals.json) continue;
    nlohmann::json& entry = (found.is_absent(i) ? absent : rows).emplace_back(nlohmann::json::object());
    set_text(entry, "key", "key_encoding", found.keys[i]);
    if (found.is_absent(i)) continue;
    entry["version"] = result.version;
    set_text(entry, "value", "encoding", result.value);
  }
  if (globals.json) print_json({{"rows", rows}, {"absent", absent}});
}

void print_presence(const Globals& globals, const FoundKeys& found) {
  nlohmann::json entries = nlohmann::json::array();
  for (size_t i = 0; i < found.keys.size(); ++i) {
    if (!globals.json) {
      std::printf("%s\t%s\n", key_text(found.keys[i]).c_str(), found.is_absent(i) ? "absent" : "present");
      continue;
    }
    nlohmann::json& entry = entries.emplace_back(nlohmann::json{{"exists", !found.is_absent(i)}});
    set_text(entry, "key", "key_encoding", found.keys[i]);
    if (!found.is_absent(i)) entry["version"] = found.results[i].version;
  }
  if (globals.json) print_json(entries);
}

int mget(const Globals& globals, const KeyListArguments& arguments) {
  return read_keys(globals, arguments, print_values);
}

int keys_exist(const Globals& globals, const KeyListArguments& arguments) {
  return read_keys(globals, arguments, print_presence);
}

app::Command& add_key_list_command(app::Program& program, const char* name, const char* summary, const Globals& globals,
                                   int (*run)(const Globals&, const KeyListArguments&)) {
  const auto [command, arguments] = add_command(program, name, summary, globals, run);
  add_table_argument(command, "table", arguments.table);
  command.add_positional_list("key", &arguments.keys, "Keys, in the notation of get.");
  return command;
}

}  // namespace

void add_key_list_commands(app::Program& program, const Globals& globals) {
  app::Command& mget_command =
      add_key_list_command(program, "mget", "Prints the values of several keys.", globals, mget);
  mget_command.description(
      "A line for each key that is there: key, tab, value, as scan prints them. Keys that are absent are named on "
      "standard error, and the exit code is 1. The keys are read in parallel, not as of one moment.");
  mget_command.example("skuactl mget notes greeting picture", "");

  app::Command& exists_command =
      add_key_list_command(program, "exists", "Tells whether keys are there.", globals, keys_exist);
  exists_command.description(
      "A line for each key: key, tab, present or absent. The exit code is 1 if one of them is absent.");
  exists_command.example("skuactl exists notes greeting", "");
}

}  // namespace skua::kv::ctl
