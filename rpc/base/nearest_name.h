// Suggests the name that a user probably meant to type.
#ifndef SKUA_RPC_BASE_NEAREST_NAME_H_
#define SKUA_RPC_BASE_NEAREST_NAME_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skua {

/// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment). Cost: |a| x |b|.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, if it is near enough: at most one edit per three characters of `name` (one if
/// `name` has two characters, none if it has one), and at most `distance_max`. Capitals count as small letters, and
/// underscores as dashes. Of equally near ones, the first. If none is near enough: the only candidate that begins with
/// `name`, or that ends with it as a word of its own (`address`: control-address).
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates,
                                                      size_t distance_max = 3);

}  // namespace skua

#endif  // SKUA_RPC_BASE_NEAREST_NAME_H_
