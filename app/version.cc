#include "app/version.h"

namespace skua::app {

std::string_view version() {
  return SKUA_VERSION;
}

}  // namespace skua::app
