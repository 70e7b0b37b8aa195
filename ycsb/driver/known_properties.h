// The properties that the driver itself understands, for --help and for spotting typing mistakes.
#ifndef SKUA_YCSB_DRIVER_KNOWN_PROPERTIES_H_
#define SKUA_YCSB_DRIVER_KNOWN_PROPERTIES_H_

#include <array>
#include <span>
#include <string_view>

namespace skua::ycsb {

/// Name, default, meaning; an empty name starts a group whose title is the meaning.
[[nodiscard]] std::span<const std::array<std::string_view, 3>> known_properties();

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_KNOWN_PROPERTIES_H_
