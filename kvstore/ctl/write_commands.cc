// skuactl put, add, append, expire, del.
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kvstore/client/client.h"
#include "kvstore/codec/request.h"
#include "kvstore/ctl/batch_text.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

constexpr int64_t kAnyVersion = -1;

struct WriteArguments {
  std::string table;
  std::string key;
  std::string value;  // add: the delta; expire: the time to live
  const app::Option* value_option = nullptr;
  std::string file;
  const app::Option* file_option = nullptr;
  bool if_absent = false;
  bool if_present = false;
  bool keep_ttl = false;
  int64_t tag = 0;
  int64_t if_version = kAnyVersion;
  const app::Option* if_version_option = nullptr;
  std::string ttl;
  const app::Option* ttl_option = nullptr;
  Durability durability = Durability::kDefault;
};

WriteOptions options_of(const WriteArguments& arguments) {
  if (arguments.if_version_option->origin() == app::Origin::kFlag && arguments.if_version < 0) {
    fail_usage("--if-version is a key's version, which put and get --output json tell; it is not negative");
  }
  if (int{arguments.if_absent} + int{arguments.if_present} + int{arguments.if_version >= 0} > 1) {
    fail_usage("give one of --if-absent, --if-present and --if-version");
  }
  WriteOptions options;
  if (arguments.if_version >= 0) options.if_version = static_cast<uint64_t>(arguments.if_version);
  options.if_absent = arguments.if_absent;
  options.if_present = arguments.if_present;
  options.keep_ttl = arguments.keep_ttl;
  options.mark.tag = static_cast<uint32_t>(arguments.tag);
  if (arguments.ttl_option != nullptr && is_given(*arguments.ttl_option, arguments.ttl)) {
    options.ttl = must_be_valid(parse_ttl(arguments.ttl), "--ttl ");
    if (options.keep_ttl) fail_usage("give --ttl or --keep-ttl, not both");
  }
  options.durability = arguments.durability;
  return options;
}

/// The argument VALUE, `-` for standard input, or the content of --file. Exactly one must be given: a missing VALUE is
/// an error, not an empty value.
std::string value_of(const WriteArguments& arguments) {
  const bool from_file = is_given(*arguments.file_option, arguments.file);
  const bool has_value = is_given(*arguments.value_option, arguments.value);
  if (from_file && has_value) fail_usage("give VALUE or --file, not both");
  if (!from_file && !has_value) {
    fail_usage("VALUE is missing: give it behind KEY ('' for an empty one, - for standard input), or --file FILE");
  }
  const bool from_input = !from_file && arguments.value == "-";
  std::string value = from_file || from_input ? read_input(from_input ? "-" : arguments.file) : arguments.value;
  must_be_valid(check_value(as_byte_span(value)));
  return value;
}

/// What a write is made with.
struct WriteTarget {
  std::string table;
  std::string key;
  WriteOptions options;
};

WriteTarget target_of(const Globals& globals, const WriteArguments& arguments) {
  std::string key = key_of(globals, "KEY", arguments.key);
  return {arguments.table, std::move(key), options_of(arguments)};
}

/// Makes the write by `write(client)`, and prints `done` with the result.
int report_write(const Globals& globals, const WriteTarget& to, const char* done,
                 const std::function<WriteResult(Client&)>& write, bool has_value = false) {
  const WriteResult result = with_client(globals, to.table, write);
  // The status says so if the write may have been applied.
  must_have_key(result.status, to.table, to.key, "; nothing was changed");
  nlohmann::json json = {
      {"done", done}, {"version", result.version}, {"durability", durability_name(result.durability)}};
  if (has_value) json["value"] = result.value;
  const std::string now = has_value ? absl::StrCat(", now ", result.value) : "";
  return answer(globals, json, absl::StrCat(done, now, ", version ", result.version, "\n"));
}

int put(const Globals& globals, const WriteArguments& arguments) {
  const WriteTarget to = target_of(globals, arguments);
  const std::string value = value_of(arguments);
  return report_write(globals, to, "written",
                      [&](Client& client) { return client.put(to.table, to.key, value, to.options); });
}

int append(const Globals& globals, const WriteArguments& arguments) {
  const WriteTarget to = target_of(globals, arguments);
  const std::string value = value_of(arguments);
  return report_write(globals, to, "appended",
                      [&](Client& client) { return client.append(to.table, to.key, value, to.options); });
}

int add(const Globals& globals, const WriteArguments& arguments) {
  const WriteTarget to = target_of(globals, arguments);
  int64_t delta = 1;
  if (is_given(*arguments.value_option, arguments.value) && !absl::SimpleAtoi(arguments.value, &delta)) {
    fail_usage(absl::StrCat("DELTA is '", printable(arguments.value), "', which is no integer of 64 bits"));
  }
  return report_write(
      globals, to, "added", [&](Client& client) { return client.add(to.table, to.key, delta, to.options); }, true);
}

int expire(const Globals& globals, const WriteArguments& arguments) {
  const WriteTarget to = target_of(globals, arguments);
  const bool never = arguments.value == "never";
  const absl::StatusOr<std::chrono::nanoseconds> ttl = never ? std::chrono::nanoseconds(0) : parse_ttl(arguments.value);
  must_be_valid(with_words("TTL ", ttl.status(), "; or never"));
  return report_write(globals, to, never ? "lives for ever" : "expiry set",
                      [&](Client& client) { return client.expire(to.table, to.key, *ttl, to.options); });
}

int del(const Globals& globals, const WriteArguments& arguments) {
  const WriteTarget to = target_of(globals, arguments);
  return report_write(globals, to, "deleted",
                      [&](Client& client) { return client.remove(to.table, to.key, to.options); });
}

void add_presence_options(app::Command& command, WriteArguments& arguments) {
  command.add_bool("if-absent", &arguments.if_absent, "Only if the key does not exist.");
  command.add_bool("if-present", &arguments.if_present, "Only if the key exists.");
}

void add_write_options(app::Command& command, WriteArguments& arguments) {
  arguments.if_version_option = &command
                                     .add_int("if-version", &arguments.if_version,
                                              "Only if the key has this version; 0: only if it does not exist.")
                                     .value_name("VERSION");
  add_durability_option(command, arguments.durability);
}

/// put and append.
Added<WriteArguments> add_value_command(app::Program& program, const char* name, const char* summary,
                                        const Globals& globals, int (*run)(const Globals&, const WriteArguments&)) {
  const auto [command, arguments] = add_key_command(program, name, summary, globals, run);
  arguments.value_option = &command
                                .add_positional("value", &arguments.value,
                                                "The bytes, '' for none, - for those of standard input; or use --file.")
                                .optional();
  arguments.file_option =
      &command.add_string("file", &arguments.file, "Take the bytes from a file, as they are; -: standard input.")
           .value_name("FILE");
  add_presence_options(command, arguments);
  add_write_options(command, arguments);
  return {command, arguments};
}

}  // namespace

void add_durability_option(app::Command& command, Durability& durability) {
  command.add_choice<Durability>("durability", &durability,
                                 {{"default", Durability::kDefault},
                                  {"memory", Durability::kMemory},
                                  {"flush", Durability::kFlush},
                                  {"sync", Durability::kSync}},
                                 "What must have happened before the write is answered.");
}

void add_write_commands(app::Program& program, const Globals& globals) {
  const auto [put_command, writing] = add_value_command(program, "put", "Writes a key.", globals, put);
  writing.ttl_option =
      &put_command.add_string("ttl", &writing.ttl, "The key vanishes after this long, as 30s or 12h; without: never.")
           .value_name("DURATION");
  put_command.add_bool("keep-ttl", &writing.keep_ttl, "The key keeps the time to live that it has.");
  put_command
      .add_int("tag", &writing.tag, "A number that the record keeps beside its value; other writes than put keep it.")
      .range(0, UINT32_MAX)
      .value_name("NUMBER");
  put_command.example("skuactl put notes greeting hello", "");
  put_command.example("gzip <log.txt | skuactl put notes log -", "what another program writes, byte for byte");
  put_command.example("skuactl put notes greeting hi --if-version 1", "only over version 1");
  put_command.example("skuactl put sessions ada token --ttl 30m", "gone in half an hour");
  put_command.example("skuactl put sessions ada renewed --if-present --keep-ttl",
                      "a new value, gone when the old one was to be");
  put_command.example("skuactl put notes draft text --durability memory", "fast, and lost with the process");

  const auto [add_command, adding] =
      add_key_command(program, "add", "Adds to a counter, a value that is a decimal integer.", globals, add);
  adding.value_option =
      &add_command.add_positional("delta", &adding.value, "What to add; 1 if it is left out.").optional();
  add_presence_options(add_command, adding);
  add_write_options(add_command, adding);
  add_command.example("skuactl add stats visits", "one more");
  add_command.example("skuactl add stats stock -5", "");

  add_value_command(program, "append", "Appends to a key's value; a missing key is an empty one.", globals, append)
      .command.example("skuactl append notes log 'one more line'", "");

  const auto [expire_command, expiring] =
      add_key_command(program, "expire", "Sets or clears when a key vanishes.", globals, expire);
  expire_command.add_positional("ttl", &expiring.value, "From now on, as 30s or 12h; never: it stays.");
  add_write_options(expire_command, expiring);
  expire_command.example("skuactl expire sessions ada 30m", "");
  expire_command.example("skuactl expire sessions ada never", "");

  const auto [del_command, removal] = add_key_command(program, "del", "Deletes a key.", globals, del);
  add_write_options(del_command, removal);
  del_command.example("skuactl del notes greeting --if-version 7", "only if nobody has written since");
}

}  // namespace skua::kv::ctl
