#include "app/transport_options.h"

#include <string>
#include <type_traits>

namespace skua::app {

void add_dpdk_options(Command& command, rpc::DpdkSettings* settings) {
  declare_dpdk_settings(*settings, [&](const char* name, auto* target, const char* help) {
    using Value = std::remove_pointer_t<decltype(target)>;
    if constexpr (std::is_same_v<Value, std::string>) {
      command.add_string(name, target, help);
    } else if constexpr (std::is_same_v<Value, bool>) {
      command.add_bool(name, target, help);
    } else {
      command.add_int(name, target, help);
    }
  });
}

}  // namespace skua::app
