#include "control/security/identity.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "control/core/uuid.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

constexpr std::string_view kScheme = "skua://";
constexpr std::array kRoles = {Role::kControl, Role::kNode, Role::kAdmin, Role::kMonitor, Role::kClient};

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' || c == '@';
  };
  return !name.empty() && name.size() <= kPrincipalNameMax && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

absl::Status no_uri() {
  return absl::InvalidArgumentError(
      "not skua://CLUSTER-ID/ROLE/NAME, where ROLE is control, node, admin, monitor or client");
}

}  // namespace

const char* role_name(Role role) {
  switch (role) {
    case Role::kControl: return "control";
    case Role::kNode: return "node";
    case Role::kAdmin: return "admin";
    case Role::kMonitor: return "monitor";
    case Role::kClient: return "client";
  }
  return "?";
}

std::optional<Role> role_of(std::string_view name) {
  const auto found = std::find_if(kRoles.begin(), kRoles.end(), [name](Role role) { return role_name(role) == name; });
  return found == kRoles.end() ? std::nullopt : std::optional(*found);
}

std::string roles_text(Roles roles) {
  std::vector<std::string> names;
  for (const Role role : kRoles) {
    if (roles.contains(role)) names.emplace_back(role_name(role));
  }
  return absl::StrJoin(names, " or ");
}

std::string Identity::describe() const {
  return absl::StrCat(role_name(role), " ", name);
}

std::string Identity::principal() const {
  return absl::StrCat(role_name(role), "/", name);
}

absl::Status check_identity(const Identity& identity) {
  if (!is_uuid(identity.cluster_id)) return absl::InvalidArgumentError("the cluster id is not a lower-case UUID");
  if (!is_name(identity.name)) {
    return absl::InvalidArgumentError(absl::StrCat("a name has 1 to ", kPrincipalNameMax,
                                                   " letters, digits and -._@, and does not begin with a dot"));
  }
  if (identity.role == Role::kNode && !is_uuid(identity.name)) {
    return absl::InvalidArgumentError("the name of a node is its uuid, a lower-case UUID");
  }
  return absl::OkStatus();
}

std::string identity_uri(const Identity& identity) {
  return absl::StrCat(absl_view(kScheme), identity.cluster_id, "/", role_name(identity.role), "/", identity.name);
}

absl::StatusOr<Identity> parse_identity_uri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return no_uri();
  uri.remove_prefix(kScheme.size());
  const std::vector<std::string> parts = absl::StrSplit(absl_view(uri), '/');
  if (parts.size() != 3) return no_uri();
  const std::optional<Role> role = role_of(parts[1]);
  if (!role) return no_uri();
  Identity identity{parts[0], *role, parts[2]};
  if (absl::Status status = check_identity(identity); !status.ok()) return status;
  return identity;
}

absl::StatusOr<Identity> parse_principal(std::string_view principal, const std::string& cluster_id) {
  const size_t slash = principal.find('/');
  const std::optional<Role> role = role_of(principal.substr(0, slash));
  if (!role || slash == std::string_view::npos) {
    return absl::InvalidArgumentError(
        "an identity is ROLE/NAME, for example client/app-7; ROLE is control, node, admin, monitor or client");
  }
  Identity identity{cluster_id, *role, std::string(principal.substr(slash + 1))};
  if (absl::Status status = check_identity(identity); !status.ok()) return status;
  return identity;
}

}  // namespace skua::control
