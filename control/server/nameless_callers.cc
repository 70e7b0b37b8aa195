#include "control/server/nameless_callers.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace skua::control {

absl::Status check_nameless(const Event& event, const ClusterState& state) {
  if (const auto* joining = std::get_if<RegisterNode>(&event)) {
    if (state.nodes.count(joining->node.uuid) != 0) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("node ", joining->node.uuid,
                     " is new, and this cluster is getting certificates: give it --cert, --key and --ca "
                     "(docs/security.md)"));
  }
  const auto* drop = std::get_if<DropTable>(&event);
  const Table* table = drop == nullptr ? nullptr : state.find_table(drop->name);
  if (table == nullptr || state.grants.count(table->id) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("table ", table->name,
                   " has grants, so only an administrator with a certificate may drop it: give --cert, --key and --ca "
                   "(docs/security.md)"));
}

}  // namespace skua::control
