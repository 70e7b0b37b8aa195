// skuactl cert revoke, revoked, unrevoke: who is not let in any more (control/core/revocation.h).
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_join.h"
#include "control/client/admin_client.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/identity_argument.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;

constexpr char kLook[] = "skuactl cert revoked";

/// `revoked`: what the identity is to be.
int change(const Globals& globals, const std::string& argument, bool revoked) {
  const control::CredentialsPtr credentials = credentials_of(globals);
  const std::string principal = principal_of(argument, credentials);
  AdminClient admin(globals.control_address, globals.timeout_ns, credentials);
  const absl::Status changed = revoked ? admin.revoke_identity(principal) : admin.unrevoke_identity(principal);
  if (!changed.ok()) return report_change_failure(changed, kLook);
  const char* const outcome =
      revoked ? " is revoked: all its certificates are refused, its sessions end as soon as the nodes hear of it, "
                "within a second\n"
              : " is no longer revoked: its certificates, also one that was stolen, are good again\n";
  return answer(globals, {{"identity", principal}, {"revoked", revoked}}, principal + outcome);
}

int list_revoked(const Globals& globals) {
  AdminClient admin(globals.control_address, globals.timeout_ns, credentials_of(globals));
  const absl::StatusOr<control::ShardMap> map = admin.shard_map();
  if (!map.ok()) return report_failure(map.status());
  return answer(globals, {{"revoked", map->denied}},
                map->denied.empty() ? "nobody is revoked\n" : absl::StrJoin(map->denied, "\n") + "\n");
}

}  // namespace

void add_revocation_commands(app::Command& group, const Globals& globals) {
  const auto add = [&](const char* name, const char* summary, bool revoked) {
    const auto identity = std::make_shared<std::string>();
    app::Command& command = group.add_command(name, summary);
    command.add_positional("identity", identity.get(), "ROLE/NAME, or the file of a certificate of it.");
    command.action([identity, &globals, revoked] { return change(globals, *identity, revoked); });
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
