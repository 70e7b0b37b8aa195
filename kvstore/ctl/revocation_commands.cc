// skuactl cert revoke, revoked, unrevoke: who is not let in any more (control/core/revocation.h).
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_join.h"
#include "control/client/admin_client.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

constexpr char kLook[] = "skuactl cert revoked";

struct RevocationArguments {
  std::string identity;
  bool revoked = false;  // what the identity is to be
};

int change_revocation(const Globals& globals, const RevocationArguments& arguments) {
  const bool revoked = arguments.revoked;
  auto [principal, admin] = named_identity(globals, arguments.identity);
  must_change(revoked ? admin.revoke_identity(principal) : admin.unrevoke_identity(principal), kLook);
  const char* const outcome =
      revoked ? " is revoked: all its certificates are refused, its sessions end as soon as the nodes hear of it, "
                "within a second\n"
              : " is no longer revoked: its certificates, also one that was stolen, are good again\n";
  return answer(globals, {{"identity", principal}, {"revoked", revoked}}, principal + outcome);
}

int list_revoked(const Globals& globals) {
  const control::ShardMap map = must(admin_of(globals).shard_map());
  return answer(globals, {{"revoked", map.denied}},
                map.denied.empty() ? "nobody is revoked\n" : absl::StrJoin(map.denied, "\n") + "\n");
}

}  // namespace

void add_revocation_commands(app::Command& group, const Globals& globals) {
  const auto add = [&](const char* name, const char* summary, bool revoked) {
    const auto [command, arguments] = add_command(group, name, summary, globals, change_revocation);
    arguments.revoked = revoked;
    command.add_positional("identity", &arguments.identity, "ROLE/NAME, or the file of a certificate of it.");
    return &command;
  };
  add("revoke", "Lets an identity in no longer, whatever certificates it has.", true)
      ->example("skuactl cert revoke client/app-7", "its calls are refused, its sessions end")
      .example("skuactl cert revoke certs/app-7.pem", "the same, by its certificate");
  add("unrevoke", "Lets a revoked identity in again.", false)
      ->example("skuactl cert unrevoke client/app-7", "the application may go on");
  app::Command& list_command = group.add_command("revoked", "Shows who is revoked.");
  list_command.example("skuactl cert revoked", "one identity a line");
  list_command.action([&globals] { return list_revoked(globals); });
}

}  // namespace skua::kv::ctl
