// Options about the engine's transports, the same in every program that has them.
#ifndef SKUA_APP_TRANSPORT_OPTIONS_H_
#define SKUA_APP_TRANSPORT_OPTIONS_H_

#include "app/config.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/transport/dpdk/dpdk_settings.h"
#include "rpc/transport/verbs/verbs_settings.h"

namespace skua::app {

/// The --dpdk-* options; what `settings` holds is the default.
void add_dpdk_options(Command& command, rpc::DpdkSettings* settings);
/// The --verbs-* options, likewise.
void add_verbs_options(Command& command, rpc::VerbsSettings* settings);

/// Congestion control, receive budget and what they follow from; what `settings` holds is the default. What the options
/// accept passes TrafficSettings::check().
void add_traffic_options(Command& command, rpc::TrafficSettings* settings);

/// A complaint about the first option of a transport other than `chosen` ("tcp", "dpdk", "verbs") that was given as a
/// flag: it would do nothing. Files and environments may serve several programs, and are not asked. INVALID_ARGUMENT.
[[nodiscard]] absl::Status check_transport_flags(const Command& command, std::string_view chosen);

}  // namespace skua::app

#endif  // SKUA_APP_TRANSPORT_OPTIONS_H_
