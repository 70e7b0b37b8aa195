#include "control/core/revocation.h"

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "rpc/base/printable.h"

namespace skua::control {

std::string node_principal(const std::string& uuid) {
  return absl::StrCat("node/", uuid);
}

std::string revoked_trouble(const std::string& uuid) {
  return absl::StrCat(
      "its identity is revoked, nobody talks to it: remove it (skuactl node remove), or let it in again ",
      "(skuactl cert unrevoke ", node_principal(uuid), ")");
}

absl::Status check_revocation(const std::string& principal, const ClusterState& state) {
  const size_t slash = principal.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == principal.size() || principal.size() > kPrincipalMax) {
    return absl::InvalidArgumentError(absl::StrCat("\"", printable(principal, kPrincipalMax),
                                                   "\" is no identity: give ROLE/NAME, for example client/app-7"));
  }
  if (principal.starts_with("control/")) {
    return absl::InvalidArgumentError(
        "an identity of the role control cannot be revoked, because nodes and clients learn from it who is: replace "
        "the "
        "authority instead (docs/security.md)");
  }
  if (state.denied.size() >= kDeniedMax && !state.denied.contains(principal)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kDeniedMax, " identities are revoked, which is the limit. Take those off whose certificates have ",
                     "expired (skuactl cert unrevoke), or replace the authority"));
  }
  return absl::OkStatus();
}

absl::Status check_allowed(const std::string& principal, const ClusterState& state) {
  if (!state.denied.contains(principal)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the identity ", principal, " is revoked (skuactl cert revoked)"));
}

absl::Status check_node_allowed(const std::string& uuid, const ClusterState& state) {
  if (state.denied.empty() || !state.denied.contains(node_principal(uuid))) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("node ", uuid, " is revoked (skuactl cert revoked)"));
}

Decision decide(const RevokeIdentity& event, const ClusterState& state) {
  Decision decision;
  decision.status = check_revocation(event.principal, state);
  if (decision.status.ok() && !state.denied.contains(event.principal)) {
    decision.changes = next_changes(state);
    decision.changes.put_denied = state.denied;
    decision.changes.put_denied->insert(event.principal);
  }
  return decision;
}

Decision decide(const UnrevokeIdentity& event, const ClusterState& state) {
  Decision decision;
  if (!state.denied.contains(event.principal)) {
    decision.status = absl::NotFoundError(absl::StrCat("\"", printable(event.principal, kPrincipalMax),
                                                       "\" is not revoked; skuactl cert revoked shows who is"));
    return decision;
  }
  decision.changes = next_changes(state);
  decision.changes.put_denied = state.denied;
  decision.changes.put_denied->erase(event.principal);
  return decision;
}

}  // namespace skua::control
