// skuactl batch.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/client.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/batch_text.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

struct BatchArguments {
  std::string table;
  std::string file = "-";
  Durability durability = Durability::kDefault;
};

/// The result's status, with the number of the line of the operation that failed.
absl::Status status_of(const BatchResult& result, const std::vector<size_t>& lines) {
  const auto failed = std::ranges::find_if(result.ops, [](const BatchOpResult& op) { return !op.status.ok(); });
  if (result.ok() || failed == result.ops.end()) return result.status;
  const auto index = static_cast<size_t>(failed - result.ops.begin());
  if (index >= lines.size()) return result.status;
  return with_words(absl::StrCat("line ", lines[index], ": "), result.status);
}

int report_batch(const Globals& globals, const BatchResult& result) {
  nlohmann::json ops = json_list(result.ops, [](const BatchOpResult& op) -> nlohmann::json {
    return {{"status", absl::StatusCodeToString(op.status.code())}, {"version", op.version}, {"value", op.value}};
  });
  return answer(globals,
                {{"done", "applied"},
                 {"version", result.version},
                 {"durability", durability_name(result.durability)},
                 {"operations", std::move(ops)}},
                absl::StrCat("applied ", counted(result.ops.size(), "operation"), ", version ", result.version, "\n"));
}

int batch(const Globals& globals, const BatchArguments& arguments) {
  Batch operations;
  std::vector<size_t> lines;
  must_be_valid(with_words("", parse_batch(read_input(arguments.file), operations, lines), "; nothing was applied"));
  if (operations.size() == 0) fail_usage("the batch has no operation; see skuactl batch --help");
  const BatchResult result = with_client(globals, arguments.table, [&](Client& client) {
    return client.batch(arguments.table, operations, {.durability = arguments.durability});
  });
  // The status says so if the batch may have been applied.
  must(status_of(result, lines));
  return report_batch(globals, result);
}

}  // namespace

void add_batch_command(app::Program& program, const Globals& globals) {
  const auto [command, arguments] =
      add_command(program, "batch", "Applies writes of keys in one shard, all or none, from a file or standard input.",
                  globals, batch);
  command.description(
      "One operation per line: put KEY VALUE, add KEY DELTA, append KEY VALUE, patch KEY FIELD=VALUE..., expire KEY "
      "TTL, del KEY; with --if-version N, --if-absent, --ttl TTL (put), --create (patch) behind it. check KEY VERSION "
      "writes nothing: all operations are applied only if the key has this version; 0: if it is absent. A word in "
      "double quotes may have blanks and escapes as in C, and is never an option. Lines that begin with # are "
      "comments.\n\n"
      "All keys must be in one shard of the table; a table made with --shards 1 has only one.");
  add_table_argument(command, "table", arguments.table);
  command.add_string("file", &arguments.file, "Where the operations are; -: standard input.").value_name("FILE");
  add_durability_option(command, arguments.durability);
  command.example("printf 'add left -5\\nadd right 5\\n' | skuactl batch pockets", "money changes hands");
  command.example("skuactl batch pockets --file moves.txt", "");
}

}  // namespace skua::kv::ctl
