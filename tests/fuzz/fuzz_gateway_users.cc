// Any text as a users file: what is taken names tables that there are, and gives no user a right that its line does not
// name; what is refused says why, and shows no hash.
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "kvstore/gateway/client_users.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::kv::gateway {
namespace {

std::string next_word(fuzz::FuzzInput& input) {
  static const std::string kWords[] = {
      "ada",    "default", "certificate", "cache=read", "*=read,write",         "users=write",
      "cache=", "#",       "\n",          "\r\n",       password_hash_text({}), " "};
  return input.seldom() ? input.short_text() : kWords[input.pick(std::size(kWords))];
}

void run(fuzz::FuzzInput input) {
  const std::map<uint32_t, std::string> databases = {{0, "cache"}, {3, "users"}};
  std::string text;
  while (!input.empty()) text += next_word(input) + (input.flag() ? " " : "\n");
  const absl::StatusOr<UserTable> table = UserTable::parse(text, databases);
  if (!table.ok()) {
    const absl::string_view why = table.status().message();
    SKUA_CHECK(absl::StartsWith(why, "line ") || absl::StartsWith(why, "there is no user"), "a refusal names no line");
    SKUA_CHECK(table.status().message().size() < 400, "a refusal is long");
    return;
  }
  SKUA_CHECK(table->size() <= kUsersMax, "too many users");
  for (const std::string name : {"ada", "default"}) {
    const std::shared_ptr<const ClientUser> user = table->find(name);
    if (user == nullptr) continue;
    SKUA_CHECK(user->name == name && absl::StrContains(text, name), "a user comes from nowhere");
    for (const auto& [number, rights] : user->rights) SKUA_CHECK(databases.contains(number), "no such database");
    const bool has_right = user->rights_in(0).include({.write = true}) || user->rights_in(3).include({.write = true});
    SKUA_CHECK(!has_right || absl::StrContains(text, "write"), "a right comes from nowhere");
  }
}

}  // namespace
}  // namespace skua::kv::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::kv::gateway::run(skua::fuzz::FuzzInput(std::as_bytes(std::span(data, size))));
  return 0;
}
