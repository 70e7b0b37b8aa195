// Guessing what somebody meant to type.
#ifndef SKUA_APP_EDIT_DISTANCE_H_
#define SKUA_APP_EDIT_DISTANCE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skua::app {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal
/// string alignment). Cost: |a| x |b|.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, when it is near enough to be meant: at most one edit per three
/// characters of `name`, and never more than `distance_max`. The first of equals.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates,
                                                      size_t distance_max = 3);

}  // namespace skua::app

#endif  // SKUA_APP_EDIT_DISTANCE_H_
