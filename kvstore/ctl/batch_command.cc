// batch.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/batch_text.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

struct BatchArguments {
  std::string table;
  std::string file;
  Durability durability = Durability::kDefault;
};

std::string text_of(const BatchArguments& arguments) {
  if (arguments.file.empty() || arguments.file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(arguments.file, std::ios::binary);
  if (!in) app::fail_usage(kProgram, absl::StrCat("cannot read ", arguments.file));
  return {std::istreambuf_iterator<char>(in), {}};
}

int report_batch(const Globals& globals, const BatchResult& result) {
  if (!result.ok()) {
    const int code = report_failure(result.status);
    if (result.may_have_been_applied) std::fprintf(stderr, "%s: the batch may have been applied\n", kProgram);
    return code;
  }
  if (globals.json) {
    nlohmann::json ops = nlohmann::json::array();
    for (const BatchOpResult& op : result.ops) {
      ops.push_back(
          {{"status", absl::StatusCodeToString(op.status.code())}, {"version", op.version}, {"value", op.value}});
    }
    print_json({{"done", "applied"},
                {"version", result.version},
                {"durability", durability_name(result.durability)},
                {"operations", ops}});
  } else {
    std::printf("applied %zu operations, version %llu\n", result.ops.size(),
                static_cast<unsigned long long>(result.version));
  }
  return app::kExitOk;
}

int batch(const Globals& globals, const BatchArguments& arguments) {
  Batch operations;
  if (absl::Status status = parse_batch(text_of(arguments), operations); !status.ok()) {
    app::fail_usage(kProgram, std_view(status.message()));
  }
  if (operations.size() == 0) app::fail_usage(kProgram, "the batch has no operation");
  return with_client(globals, [&](Client& client) {
    return report_batch(globals, client.batch(arguments.table, operations, {.durability = arguments.durability}));
  });
}

}  // namespace

void add_batch_command(app::Program& program, const Globals& globals) {
  auto arguments = std::make_shared<BatchArguments>();
  app::Command& command =
      program.add_command("batch", "Applies writes of keys in one shard, all or none, from a file or standard input.");
  command.description(
      "One operation per line: put KEY VALUE, add KEY DELTA, append KEY VALUE, patch KEY FIELD=VALUE..., "
      "expire KEY TTL, del KEY; with --if-version N, --if-absent, --ttl TTL (put), --create (patch) behind it. "
      "A word in double quotes may have blanks and escapes as in C. Lines that begin with # are comments.\n\n"
      "All keys must be in one shard of the table; a table made with --shards 1 has only one.");
  command.add_positional("table", &arguments->table, "The table's name.");
  command.add_string("file", &arguments->file, "Where the operations are; default: standard input.").value_name("FILE");
  add_durability_option(command, arguments->durability);
  command.example("printf 'add left -5\\nadd right 5\\n' | skuactl batch pockets", "money changes hands");
  command.example("skuactl batch pockets --file moves.txt", "");
  command.action([&globals, arguments] { return batch(globals, *arguments); });
}

}  // namespace skua::kv::ctl
