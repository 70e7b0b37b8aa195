// skuactl fields.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/exit.h"
#include "kvstore/client/client.h"
#include "kvstore/codec/row.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/key_text.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/bytes.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

struct FieldsArguments {
  std::string table;
  std::string key;
  std::vector<std::string> names;  // none: all
};

/// The fields of a value; FAILED_PRECONDITION: it is not a row. Views of the value.
absl::Status read_row(std::string_view value, std::vector<Field>& fields) {
  RowReader reader(as_byte_span(value));
  while (const auto field = reader.next()) fields.push_back(*field);
  if (reader.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError("the value is not a row of fields: read it with get");
}

void print_fields(const Globals& globals, uint64_t version, const std::vector<Field>& fields) {
  nlohmann::json listed = nlohmann::json::array();
  for (const Field& field : fields) {
    if (!globals.json) {
      std::printf("%s\t%s\n", key_text(field.name).c_str(), printable(as_string_view(field.value)).c_str());
      continue;
    }
    nlohmann::json& entry = listed.emplace_back(nlohmann::json::object());
    set_text(entry, "field", "field_encoding", field.name);
    set_text(entry, "value", "encoding", as_string_view(field.value));
  }
  if (globals.json) print_json({{"version", version}, {"fields", listed}});
}

/// OK, or NOT_FOUND with the names that the row lacks.
absl::Status check_all_there(const std::vector<std::string>& names, const std::vector<Field>& fields) {
  std::vector<std::string> absent;
  for (const std::string& name : names) {
    const bool is_there = std::ranges::any_of(fields, [&](const Field& field) { return field.name == name; });
    if (!is_there) absent.push_back(shell_word(key_text(name)));
  }
  if (absent.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the row has no field ", absl::StrJoin(absent, ", ")));
}

int fields(const Globals& globals, const FieldsArguments& arguments) {
  const std::string key = key_of(globals, "KEY", arguments.key);
  const std::vector<std::string> names = keys_of(globals, "FIELD", arguments.names);
  const std::vector<std::string_view> wanted(names.begin(), names.end());
  const ReadResult result = read_key(globals, arguments.table, key, {.fields = wanted});
  std::vector<Field> found;
  must(read_row(result.value, found));
  print_fields(globals, result.version, found);
  must(check_all_there(names, found));
  return app::kExitOk;
}

}  // namespace

void add_fields_command(app::Program& program, const Globals& globals) {
  const auto [command, arguments] = add_key_command(program, "fields", "Prints fields of a row.", globals, fields);
  command.add_positional_list("field", &arguments.names, "Names of fields, in the notation of keys; none: all fields.")
      .optional();
  command.description(
      "A line for each field: its name, tab, its value. Rows are values that patch has made, and hashes of Redis's "
      "clients. The node sends the named fields only. Fields that the row lacks are named on standard error, and the "
      "exit code is 1.");
  command.example("skuactl fields users ada", "");
  command.example("skuactl fields users ada born name", "");
}

}  // namespace skua::kv::ctl
