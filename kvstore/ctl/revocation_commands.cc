// skuactl cert revoke, revoked, unrevoke: who is not let in any more (control/core/revocation.h).
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "app/exit.h"
#include "control/client/admin_client.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/identity_argument.h"
#include "kvstore/ctl/output.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;

constexpr char kLook[] = "skuactl cert revoked";

void print_outcome(const Globals& globals, const std::string& principal, bool revoked, const char* note) {
  if (globals.json) {
    print_json({{"identity", principal}, {"revoked", revoked}});
  } else {
    std::printf("%s %s%s\n", principal.c_str(), revoked ? "is revoked" : "is no longer revoked", note);
  }
}

int revoke(const Globals& globals, const std::string& argument) {
  const control::CredentialsPtr credentials = credentials_of(globals);
  const std::string principal = principal_of(argument, credentials);
  AdminClient admin(globals.control_address, globals.timeout_ns, credentials);
  if (absl::Status status = admin.revoke_identity(principal); !status.ok()) {
    return report_change_failure(status, kLook);
  }
  print_outcome(
      globals, principal, true,
      ": all its certificates are refused, its sessions end as soon as the nodes hear of it, within a second");
  return app::kExitOk;
}

int unrevoke(const Globals& globals, const std::string& argument) {
  const control::CredentialsPtr credentials = credentials_of(globals);
  const std::string principal = principal_of(argument, credentials);
  AdminClient admin(globals.control_address, globals.timeout_ns, credentials);
  if (absl::Status status = admin.unrevoke_identity(principal); !status.ok()) {
    return report_change_failure(status, kLook);
  }
  print_outcome(globals, principal, false, ": its certificates, also one that was stolen, are good again");
  return app::kExitOk;
}

int list_revoked(const Globals& globals) {
  AdminClient admin(globals.control_address, globals.timeout_ns, credentials_of(globals));
  const absl::StatusOr<control::ShardMap> map = admin.shard_map();
  if (!map.ok()) return report_failure(map.status());
  if (globals.json) {
    print_json({{"revoked", map->denied}});
    return app::kExitOk;
  }
  for (const std::string& principal : map->denied) std::printf("%s\n", principal.c_str());
  if (map->denied.empty()) std::printf("nobody is revoked\n");
  return app::kExitOk;
}

}  // namespace

void add_revocation_commands(app::Command& group, const Globals& globals) {
  const auto add = [&](const char* name, const char* summary, int (*run)(const Globals&, const std::string&)) {
    const auto identity = std::make_shared<std::string>();
    app::Command& command = group.add_command(name, summary);
    command.add_positional("identity", identity.get(), "ROLE/NAME, or the file of a certificate of it.");
    command.action([identity, &globals, run] { return run(globals, *identity); });
    return &command;
  };
  add("revoke", "Lets an identity in no longer, whatever certificates it has.", revoke)
      ->example("skuactl cert revoke client/app-7", "its calls are refused, its sessions end")
      .example("skuactl cert revoke certs/app-7.pem", "the same, by its certificate");
  add("unrevoke", "Lets a revoked identity in again.", unrevoke)
      ->example("skuactl cert unrevoke client/app-7", "the application may go on");
  app::Command& list_command = group.add_command("revoked", "Shows who is revoked.");
  list_command.example("skuactl cert revoked", "one identity a line");
  list_command.action([&globals] { return list_revoked(globals); });
}

}  // namespace skua::kv::ctl
