// get, ttl, scan. What writes: write_commands.cc, batch_command.cc.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/exit.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

struct ReadArguments {
  std::string table;
  std::string key;
  std::string file;
};

struct ScanArguments {
  std::string table;
  ScanRange range;
  std::string start;
  std::string end;
  uint32_t limit = 100;
};

int get(const Globals& globals, const ReadArguments& arguments) {
  return with_client(globals, [&](Client& client) {
    const ReadResult result = client.get(arguments.table, arguments.key);
    if (!result.ok()) return report_failure(result.status);
    if (globals.json) {
      const JsonText value = json_text(result.value);
      print_json({{"key", json_text(arguments.key).text},
                  {"value", value.text},
                  {"encoding", value.encoding},
                  {"version", result.version}});
    } else if (!arguments.file.empty()) {
      std::ofstream(arguments.file, std::ios::binary) << result.value;
    } else {
      std::printf("%s\n", printable(result.value).c_str());
    }
    return app::kExitOk;
  });
}

int ttl(const Globals& globals, const ReadArguments& arguments) {
  return with_client(globals, [&](Client& client) {
    const ReadResult result = client.get(arguments.table, arguments.key, {.with_ttl = true});
    if (!result.ok()) return report_failure(result.status);
    const bool expires = result.ttl.has_value();
    const int64_t left_ms = expires ? result.ttl->count() : 0;
    if (globals.json) {
      nlohmann::json json = {{"key", json_text(arguments.key).text}, {"version", result.version}, {"ttl_ms", nullptr}};
      if (expires) json["ttl_ms"] = left_ms;
      print_json(json);
    } else if (expires) {
      std::printf("%lld ms\n", static_cast<long long>(left_ms));
    } else {
      std::printf("never\n");
    }
    return app::kExitOk;
  });
}

int scan(const Globals& globals, const ScanArguments& arguments) {
  return with_client(globals, [&](Client& client) {
    ScanRange range;
    range.start = arguments.start;
    range.end = arguments.end;
    range.limit = arguments.limit;
    const RowsResult result = client.scan(arguments.table, range);
    if (!result.ok()) return report_failure(result.status);
    if (globals.json) {
      nlohmann::json rows = nlohmann::json::array();
      for (const OwnedRow& row : result.rows) {
        const JsonText key = json_text(row.key);
        const JsonText value = json_text(row.value);
        rows.push_back({{"key", key.text},
                        {"key_encoding", key.encoding},
                        {"value", value.text},
                        {"encoding", value.encoding},
                        {"version", row.version}});
      }
      print_json({{"rows", rows}, {"has_more", result.has_more}, {"next_start", json_text(result.next_start).text}});
      return app::kExitOk;
    }
    for (const OwnedRow& row : result.rows) {
      std::printf("%s\t%s\n", printable(row.key).c_str(), printable(row.value).c_str());
    }
    if (result.has_more) {
      std::fprintf(stderr, "%s: more rows follow; go on with --start '%s'\n", kProgram,
                   printable(result.next_start).c_str());
    }
    return app::kExitOk;
  });
}

}  // namespace

void add_data_commands(app::Program& program, const Globals& globals) {
  auto read = std::make_shared<ReadArguments>();
  app::Command& get_command = add_key_command(program, "get", "Prints a key's value.", read->table, read->key);
  get_command.add_string("file", &read->file, "Write the value there, byte for byte.").value_name("FILE");
  get_command.example("skuactl get notes greeting", "");
  get_command.action([&globals, read] { return get(globals, *read); });

  auto asked = std::make_shared<ReadArguments>();
  app::Command& ttl_command =
      add_key_command(program, "ttl", "Prints how long a key has to live, or never.", asked->table, asked->key);
  ttl_command.example("skuactl ttl sessions ada", "");
  ttl_command.action([&globals, asked] { return ttl(globals, *asked); });

  auto range = std::make_shared<ScanArguments>();
  app::Command& scan_command = program.add_command("scan", "Prints rows in key order.");
  scan_command.add_positional("table", &range->table, "The table's name.");
  scan_command.add_string("start", &range->start, "First key; default: the smallest.").value_name("KEY");
  scan_command.add_string("end", &range->end, "Key to stop before; default: the end.").value_name("KEY");
  scan_command.add_int("limit", &range->limit, "Rows at most.").range(1, kScanLimitMax).unit("rows");
  scan_command.example("skuactl scan notes --start g --end h", "keys that begin with g");
  scan_command.action([&globals, range] { return scan(globals, *range); });
}

}  // namespace skua::kv::ctl
