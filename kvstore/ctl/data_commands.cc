// get, put, del, scan.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/commands.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

struct KeyArguments {
  std::string table;
  std::string key;
  std::string value;
  std::string file;
  bool if_absent = false;
  int64_t if_version = -1;
};

struct ScanArguments {
  std::string table;
  ScanRange range;
  std::string start;
  std::string end;
  uint32_t limit = 100;
};

/// Runs `use` with a connected client; prints why if there is none.
template <typename Use>
int with_client(const Globals& globals, Use&& use) {
  ClientOptions options;
  options.control_address = globals.control_address;
  options.timeout = std::chrono::nanoseconds(globals.timeout_ns);
  if (globals.transport != TransportKind::kTcp) {
    absl::StatusOr<TransportMaker> maker =
        globals.transport == TransportKind::kDpdk ? dpdk_transports(globals.dpdk, 1) : verbs_transports(globals.verbs);
    if (!maker.ok()) app::fail_usage(kProgram, std_view(maker.status().message()));
    options.make_transport = *std::move(maker);
  }
  absl::StatusOr<std::unique_ptr<Client>> client = Client::create(options);
  return client.ok() ? use(**client) : report_failure(client.status());
}

void print_json(const nlohmann::json& json) {
  std::printf("%s\n", json.dump(2).c_str());
}

int get(const Globals& globals, const KeyArguments& arguments) {
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

int report_write(const Globals& globals, const WriteResult& result, const char* what) {
  if (!result.ok()) {
    const int code = report_failure(result.status);
    if (result.may_have_been_applied) std::fprintf(stderr, "%s: the write may have been applied\n", kProgram);
    return code;
  }
  if (globals.json) {
    print_json({{"done", what}, {"version", result.version}});
  } else {
    std::printf("%s, version %llu\n", what, static_cast<unsigned long long>(result.version));
  }
  return app::kExitOk;
}

WriteOptions conditions(const KeyArguments& arguments) {
  WriteOptions options;
  if (arguments.if_version >= 0) options.if_version = static_cast<uint64_t>(arguments.if_version);
  options.if_absent = arguments.if_absent;
  return options;
}

int put(const Globals& globals, const KeyArguments& arguments) {
  std::string value = arguments.value;
  if (!arguments.file.empty()) {
    if (!value.empty()) app::fail_usage(kProgram, "give VALUE or --file, not both");
    std::ifstream in(arguments.file, std::ios::binary);
    if (!in) app::fail_usage(kProgram, absl::StrCat("cannot read ", arguments.file));
    value.assign(std::istreambuf_iterator<char>(in), {});
  }
  if (arguments.if_absent && arguments.if_version >= 0) {
    app::fail_usage(kProgram, "give --if-absent or --if-version, not both");
  }
  return with_client(globals, [&](Client& client) {
    return report_write(globals, client.put(arguments.table, arguments.key, value, conditions(arguments)), "written");
  });
}

int del(const Globals& globals, const KeyArguments& arguments) {
  return with_client(globals, [&](Client& client) {
    return report_write(globals, client.remove(arguments.table, arguments.key, conditions(arguments)), "deleted");
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

app::Command& add_key_command(app::Program& program, const char* name, const char* summary, KeyArguments& arguments) {
  app::Command& command = program.add_command(name, summary);
  command.add_positional("table", &arguments.table, "The table's name.");
  command.add_positional("key", &arguments.key, "The key, 1 to 1,024 bytes.");
  return command;
}

}  // namespace

void add_data_commands(app::Program& program, const Globals& globals) {
  auto read = std::make_shared<KeyArguments>();
  app::Command& get_command = add_key_command(program, "get", "Prints a key's value.", *read);
  get_command.add_string("file", &read->file, "Write the value there, byte for byte.").value_name("FILE");
  get_command.example("skuactl get notes greeting", "");
  get_command.action([&globals, read] { return get(globals, *read); });

  auto write = std::make_shared<KeyArguments>();
  app::Command& put_command = add_key_command(program, "put", "Writes a key.", *write);
  put_command.add_positional("value", &write->value, "The value; or use --file.").optional();
  put_command.add_string("file", &write->file, "Take the value from a file, byte for byte.").value_name("FILE");
  put_command.add_bool("if-absent", &write->if_absent, "Only if the key does not exist.");
  put_command.add_int("if-version", &write->if_version, "Only if the key has this version.").value_name("VERSION");
  put_command.example("skuactl put notes greeting hello", "");
  put_command.example("skuactl put notes greeting hi --if-version 1", "only over version 1");
  put_command.action([&globals, write] { return put(globals, *write); });

  auto removal = std::make_shared<KeyArguments>();
  app::Command& del_command = add_key_command(program, "del", "Deletes a key.", *removal);
  del_command.add_int("if-version", &removal->if_version, "Only if the key has this version.").value_name("VERSION");
  del_command.action([&globals, removal] { return del(globals, *removal); });

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
