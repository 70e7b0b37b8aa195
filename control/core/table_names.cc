#include "control/core/table_names.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/text.h"
#include "rpc/base/nearest_name.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::control {

absl::Status no_such_table(std::string_view name, std::string_view where, const std::vector<std::string>& names) {
  const std::string_view cut = name.substr(0, kTableNameMax);
  const std::optional<std::string> near = nearest_name(cut, names);
  return absl::NotFoundError(absl::StrCat("no table \"", printable(cut), "\"", absl_view(where),
                                          near ? absl::StrCat("; did you mean ", *near, "? ") : "; ",
                                          near ? "There" : "there", " are: ", few_of(names)));
}

}  // namespace skua::control
