// skuactl cert revoke, revoked, unrevoke: who is not let in any more (control/core/revocation.h).
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "app/file.h"
#include "control/client/admin_client.h"
#include "control/security/certificates.h"
#include "control/security/identity.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;

constexpr size_t kCertificateBytesMax = 1 << 20;
constexpr char kLook[] = "skuactl cert revoked";

/// The identity that the argument names: ROLE/NAME, or the file of a certificate of it. Ends the program with a usage
/// error if it is neither.
std::string principal_of(const std::string& argument, const control::CredentialsPtr& credentials) {
  const std::string ours = credentials == nullptr ? std::string() : credentials->self().cluster_id;
  const absl::StatusOr<std::string> text = app::read_file(argument, kCertificateBytesMax);
  if (!text.ok()) {
    // Without certificates the cluster's id does not matter: the control plane will say that there is nobody to revoke.
    constexpr char kAnyCluster[] = "00000000-0000-0000-0000-000000000000";
    const auto identity = control::parse_principal(argument, ours.empty() ? kAnyCluster : ours);
    if (identity.ok()) return identity->principal();
    app::fail_usage(kProgram, absl::StrCat(argument, " is not a certificate's file (", text.status().message(),
                                           "), and not an identity: ", identity.status().message()));
  }
  const absl::StatusOr<control::CertificateInfo> info = control::inspect_certificate(*text);
  if (!info.ok()) app::fail_usage(kProgram, absl::StrCat(argument, ": ", info.status().message()));
  if (!info->identity) {
    app::fail_usage(kProgram, absl::StrCat(argument,
                                           " is an authority, which cannot be revoked: replace it "
                                           "(docs/security.md)"));
  }
  if (!ours.empty() && info->cluster_id != ours) {
    app::fail_usage(kProgram, absl::StrCat(argument, " is of another cluster, ", info->cluster_id));
  }
  return info->identity->principal();
}

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
