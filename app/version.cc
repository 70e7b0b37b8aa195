#include "app/version.h"

namespace skua::app {

std::string_view version() {
  return SKUA_VERSION;
}

std::string_view version_date() {
  return SKUA_VERSION_DATE;
}

}  // namespace skua::app
