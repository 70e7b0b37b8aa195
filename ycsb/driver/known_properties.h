// The properties that the driver itself understands, for --help and for spotting typing mistakes.
#ifndef SKUA_YCSB_DRIVER_KNOWN_PROPERTIES_H_
#define SKUA_YCSB_DRIVER_KNOWN_PROPERTIES_H_

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skua::ycsb {

/// Name, default, meaning; an empty name starts a group whose title is the meaning.
[[nodiscard]] std::span<const std::array<std::string_view, 3>> known_properties();

/// The candidate that differs from `name` by at most two typing mistakes, or an empty view.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_KNOWN_PROPERTIES_H_
