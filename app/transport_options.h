// Options about the engine's transports, the same in every program that has them.
#ifndef SKUA_APP_TRANSPORT_OPTIONS_H_
#define SKUA_APP_TRANSPORT_OPTIONS_H_

#include "app/config.h"
#include "rpc/transport/dpdk/dpdk_settings.h"

namespace skua::app {

/// The --dpdk-* options; what `settings` holds is the default.
void add_dpdk_options(Command& command, rpc::DpdkSettings* settings);

}  // namespace skua::app

#endif  // SKUA_APP_TRANSPORT_OPTIONS_H_
