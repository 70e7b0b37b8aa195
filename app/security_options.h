// Options about certificates, the same in every program.
#ifndef SKUA_APP_SECURITY_OPTIONS_H_
#define SKUA_APP_SECURITY_OPTIONS_H_

#include "app/config.h"
#include "control/security/credential_files.h"
#include "control/security/security_choice.h"
#include "rpc/transport/sealed/packet_protection.h"

namespace skua::app {

/// --cert, --key and --ca. All three go together; without them a program speaks without TLS.
void add_security_options(Command& command, control::CredentialFiles* files);
/// --security, for servers.
void add_security_choice(Command& command, control::SecurityChoice* choice);
/// --packets, for programs that open or accept sessions.
void add_packets_option(Command& command, rpc::PacketProtection* packets);
/// --packet-key-lifetime, for programs that run for long.
void add_packet_key_option(Command& command, DurationNs* lifetime_ns);

}  // namespace skua::app

#endif  // SKUA_APP_SECURITY_OPTIONS_H_
