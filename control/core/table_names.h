// The error message for a table name that does not exist.
#ifndef SKUA_CONTROL_CORE_TABLE_NAMES_H_
#define SKUA_CONTROL_CORE_TABLE_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace skua::control {

/// NOT_FOUND: `no table "usertabel"; did you mean usertable? There are: ...`, with a few of the existing `names`.
/// `where`, such as " in cluster skua", is put behind the name.
[[nodiscard]] absl::Status no_such_table(std::string_view name, std::string_view where,
                                         const std::vector<std::string>& names);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_TABLE_NAMES_H_
