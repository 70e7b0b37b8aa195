#ifndef SKUA_APP_VERSION_H_
#define SKUA_APP_VERSION_H_

#include <string_view>

namespace skua::app {

/// The project's version as CMake knows it, for example "0.1.0".
[[nodiscard]] std::string_view version();

/// The date of this version, for example "2026-11-28".
[[nodiscard]] std::string_view version_date();

}  // namespace skua::app

#endif  // SKUA_APP_VERSION_H_
