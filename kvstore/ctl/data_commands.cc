// skuactl get, ttl, tag, scan. Commands that write: write_commands.cc, batch_command.cc.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "app/file.h"
#include "kvstore/client/client.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/key_text.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

struct ReadArguments {
  std::string table;
  std::string key;
  const app::Option* file_option = nullptr;
  std::string file;
  bool with_version = false;
};

struct ScanArguments {
  std::string table;
  StartArguments start;
  std::string end;
  std::string prefix;
  uint32_t limit = 100;
};

/// What all answers to a read have.
nlohmann::json read_json(const std::string& key, const ReadResult& result) {
  nlohmann::json json = {{"version", result.version}};
  set_text(json, "key", "key_encoding", key);
  return json;
}

/// Prints a value and a line break. A terminal shows it as printable text; programs and files get its bytes.
void print_value(std::string_view value) {
  const std::string text = isatty(STDOUT_FILENO) != 0 ? printable(value) : std::string(value);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

int get(const Globals& globals, const ReadArguments& arguments) {
  const std::string key = key_of(globals, "KEY", arguments.key);
  const bool to_file = is_given(*arguments.file_option, arguments.file);
  const bool to_output = to_file && arguments.file == "-";
  if (to_output && globals.json) {
    fail_usage("--file - writes the value to standard output, where --output json writes: leave one out");
  }
  if (to_output && arguments.with_version) {
    fail_usage(
        "--file - writes nothing but the value to standard output, and --with-version writes there: leave "
        "one out, or use --output json");
  }
  if (to_file && !to_output) must_be_valid(app::check_output_file(arguments.file), "cannot write the file: ");
  const ReadResult result = read_key(globals, arguments.table, key);
  if (to_output) {
    std::fwrite(result.value.data(), 1, result.value.size(), stdout);
  } else if (to_file) {
    must(app::write_file(arguments.file, result.value));
  }
  if (globals.json) {
    nlohmann::json json = read_json(key, result);
    if (to_file) {
      json["file"] = arguments.file;
    } else {
      set_text(json, "value", "encoding", result.value);
    }
    print_json(json);
    return app::kExitOk;
  }
  if (arguments.with_version) std::printf("version %llu\n", static_cast<unsigned long long>(result.version));
  if (!to_file) print_value(result.value);
  return app::kExitOk;
}

int ttl(const Globals& globals, const ReadArguments& arguments) {
  const std::string key = key_of(globals, "KEY", arguments.key);
  const ReadResult result = read_key(globals, arguments.table, key, {.with_ttl = true});
  nlohmann::json json = read_json(key, result);
  json["ttl_ms"] = nullptr;
  if (!result.ttl.has_value()) return answer(globals, json, "never\n");
  json["ttl_ms"] = result.ttl->count();
  return answer(globals, json, absl::StrCat(result.ttl->count(), " ms\n"));
}

int tag(const Globals& globals, const ReadArguments& arguments) {
  const std::string key = key_of(globals, "KEY", arguments.key);
  const ReadResult result = read_key(globals, arguments.table, key, {.with_mark = true});
  nlohmann::json json = read_json(key, result);
  json["tag"] = result.mark.tag;
  json["row"] = result.mark.row;
  return answer(globals, json, absl::StrCat(result.mark.tag, result.mark.row ? ", a row\n" : "\n"));
}

void print_rows_json(const Globals& globals, const RowsResult& result) {
  nlohmann::json rows = json_list(result.rows, [](const OwnedRow& row) {
    nlohmann::json json = {{"version", row.version}};
    set_text(json, "key", "key_encoding", row.key);
    set_text(json, "value", "encoding", row.value);
    return json;
  });
  const std::string cursor = key_text(result.next_start);
  nlohmann::json json = {
      {"rows", rows}, {"has_more", result.has_more}, {"next_start_argument", nullptr}, {"next_cursor", cursor}};
  set_text(json, "next_start", "next_start_encoding", result.next_start);
  // With --raw-keys, --start takes no escapes, so the cursor cannot be given as --start.
  if (!globals.raw_keys) json["next_start_argument"] = cursor;
  print_json(json);
}

void print_rows(const Globals& globals, const RowsResult& result) {
  for (const OwnedRow& row : result.rows) {
    std::printf("%s\t%s\n", key_text(row.key).c_str(), printable(row.value).c_str());
  }
  if (!result.has_more) return;
  print_notice(absl::StrCat("more rows follow; go on with ", start_option(globals, result.next_start)));
}

int scan(const Globals& globals, const ScanArguments& arguments) {
  if (!arguments.prefix.empty() && !arguments.end.empty()) {
    fail_usage("--prefix and --end both say where to stop: leave one out");
  }
  const KeyRange prefixed = prefix_range(globals, arguments.prefix);
  const std::string start = std::max(start_of(globals, arguments.start), prefixed.start);
  const std::string end = arguments.end.empty() ? prefixed.end : key_of(globals, "--end", arguments.end);
  if (!arguments.prefix.empty() && !end.empty() && start >= end) {
    fail_usage(absl::StrCat("no key that begins with --prefix is at --start ", key_text(start), " or behind it"));
  }
  if (!end.empty() && start >= end) {
    const std::string which = start == end
                                  ? std::string("--start and --end are the same")
                                  : absl::StrCat("--start ", key_text(start), " is behind --end ", key_text(end));
    fail_usage(which + ": no key is between them; --end is the key to stop before");
  }
  const RowsResult result = with_client(globals, arguments.table, [&](Client& client) {
    return client.scan(arguments.table, {.start = start, .end = end, .limit = arguments.limit});
  });
  must(result.status);
  if (globals.json) {
    print_rows_json(globals, result);
  } else {
    print_rows(globals, result);
  }
  return app::kExitOk;
}

}  // namespace

void add_data_commands(app::Program& program, const Globals& globals) {
  const auto [get_command, read] = add_key_command(program, "get", "Prints a key's value.", globals, get);
  read.file_option =
      &get_command.add_string("file", &read.file, "Write the value there, byte for byte; -: standard output.")
           .value_name("FILE");
  get_command.add_bool("with-version", &read.with_version, "A line with the key's version first.");
  get_command.description(
      "The value, and a line break behind it. A terminal shows bytes that are not printable as \\xNN; in a pipe or a "
      "file the bytes are as they are. --file - writes the bytes without a line break.");
  get_command.example("skuactl get notes greeting", "");
  get_command.example("skuactl get notes greeting --with-version", "for put --if-version");
  get_command.example("skuactl get notes picture --file picture.png", "as it is");

  add_key_command(program, "ttl", "Prints how long a key has to live, or never.", globals, ttl)
      .command.example("skuactl ttl sessions ada", "");

  add_key_command(program, "tag", "Prints the tag that put gave a key, and whether it is marked as a row.", globals,
                  tag)
      .command.example("skuactl tag notes greeting", "");

  const auto [scan_command, range] = add_command(program, "scan", "Prints rows in key order.", globals, scan);
  scan_command.description(
      "Keys are printed as --start and --end take them: \\xNN is a byte, \\\\ a backslash. If there are more rows, the "
      "last line, on standard error, says how to go on.");
  add_table_argument(scan_command, "table", range.table);
  add_start_options(scan_command, range.start, "First key; default: the smallest.");
  scan_command.add_string("end", &range.end, "Key to stop before; default: the end.").value_name("KEY");
  add_prefix_option(scan_command, range.prefix);
  scan_command.add_int("limit", &range.limit, "Rows at most.").range(1, kScanLimitMax).unit("rows");
  scan_command.example("skuactl scan notes --prefix user:", "keys that begin with user:");
  scan_command.example("skuactl scan notes --start d --end h", "from d on, before h");
}

}  // namespace skua::kv::ctl
