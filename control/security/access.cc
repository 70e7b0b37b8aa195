#include "control/security/access.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "control/security/access_mutants.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

constexpr Roles kNodes = Role::kNode;
constexpr Roles kAdmins = Role::kAdmin;
/// Who needs the map to find data, and who looks at the cluster.
constexpr Roles kReaders = Role::kNode | Role::kAdmin | Role::kMonitor | Role::kClient;
constexpr Roles kWatchers = Role::kAdmin | Role::kMonitor;

constexpr bool kAudited = true;

constexpr std::array kMethods = {
    // Membership. Leave: an admin removes a node that has stopped.
    MethodAccess{"/skua.control.v1.Membership/Register", kNodes},
    MethodAccess{"/skua.control.v1.Membership/Heartbeat", kNodes},
    MethodAccess{"/skua.control.v1.Membership/ReportReplicas", kNodes},
    MethodAccess{"/skua.control.v1.Membership/Leave", kNodes | kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.ShardMap/GetShardMap", kReaders},
    MethodAccess{"/skua.control.v1.ShardMap/WatchShardMap", kReaders},
    // ListTables: programs of clients check a table's name before they start.
    MethodAccess{"/skua.control.v1.Tables/CreateTable", kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.Tables/ListTables", kReaders},
    MethodAccess{"/skua.control.v1.Tables/DropTable", kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.Cluster/GetStatus", kReaders},
    MethodAccess{"/skua.control.v1.Cluster/DrainNode", kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.Cluster/UndrainNode", kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.Cluster/MoveShard", kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.Cluster/TransferPrimary", kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.Cluster/RecoverShard", kAdmins, kAudited},
    MethodAccess{"/skua.control.v1.Cluster/RevokeIdentity", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Cluster/UnrevokeIdentity", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Cluster/AddGrant", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Cluster/RemoveGrant", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Cluster/SetQuota", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Cluster/RemoveQuota", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Certificates/CreateJoinToken", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Certificates/ListJoinTokens", kWatchers, false, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Certificates/DropJoinToken", kAdmins, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Certificates/Renew", kReaders, kAudited, Anonymous::kNever},
    MethodAccess{"/skua.control.v1.Joining/GetAuthority", Roles(), false, Anonymous::kOnly},
    MethodAccess{"/skua.control.v1.Joining/Join", Roles(), kAudited, Anonymous::kOnly},
    // A storage node. Describe: the control plane asks before it believes a registration.
    MethodAccess{"/skua.control.v1.Bootstrap/Describe", kReaders | Role::kControl},
    MethodAccess{"/skua.control.v1.Bootstrap/OpenSession", Role::kNode | Role::kAdmin | Role::kClient},
    MethodAccess{"/skua.node.v1.Admin/GetMetrics", kWatchers},
};

const MethodAccess* find(std::string_view method) {
  const auto* found =
      std::find_if(kMethods.begin(), kMethods.end(), [method](const MethodAccess& at) { return at.method == method; });
  return found == kMethods.end() ? nullptr : found;
}

}  // namespace

absl::StatusOr<Identity> check_member(const std::string& uri, const std::string& cluster_id, Roles expected) {
  absl::StatusOr<Identity> peer = parse_identity_uri(uri);
  if (!peer.ok() && mutant(AccessMutant::kAnyDocument)) peer = Identity{cluster_id, Role::kAdmin, "anybody"};
  if (!peer.ok()) return absl::PermissionDeniedError("the peer's certificate is not one of Skua's");
  if (peer->cluster_id != cluster_id && !mutant(AccessMutant::kAnyCluster)) {
    return absl::PermissionDeniedError("the peer is of another cluster");
  }
  if (!expected.empty() && !expected.contains(peer->role) && !mutant(AccessMutant::kAnyServer)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer has the role ", role_name(peer->role), ", expected was ", roles_text(expected)));
  }
  return peer;
}

absl::Status check_speaks_for(const Identity& caller, const std::string& uuid) {
  if (caller.role != Role::kNode || caller.name == uuid || mutant(AccessMutant::kAnyNode)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the caller's certificate is that of node ", caller.name, ", and the message is of another node"));
}

std::span<const MethodAccess> method_access() {
  return kMethods;
}

absl::Status check_access(const Identity& caller, std::string_view method) {
  const MethodAccess* found = find(method);
  if (found == nullptr || found->anonymous == Anonymous::kOnly)
    return absl::PermissionDeniedError("there is no such method");
  if (found->roles.contains(caller.role) || mutant(AccessMutant::kAnyRole)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("a certificate of the role ", role_name(caller.role), " may not call ",
                   absl_view(method.substr(method.rfind('/') + 1)), ", only ", roles_text(found->roles),
                   ": use such a certificate, or have one issued (skuactl cert issue ROLE NAME)"));
}

absl::Status check_anonymous(std::string_view method) {
  const MethodAccess* found = find(method);
  if (found == nullptr || found->anonymous == Anonymous::kOnly) {
    return absl::PermissionDeniedError("there is no such method");
  }
  if (found->anonymous == Anonymous::kIfTaken || mutant(AccessMutant::kAnyAnonymous)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "who has no certificate may not say what those with certificates may, nor have any issued: give --cert, --key "
      "and "
      "--ca of an administrator (docs/security.md)");
}

bool is_audited(std::string_view method) {
  const MethodAccess* found = find(method);
  return found != nullptr && found->audited;
}

}  // namespace skua::control
