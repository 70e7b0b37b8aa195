// gRPC writes lines of its own to stderr, for instance a page when a port is in use. Programs say such things
// themselves.
#ifndef SKUA_CONTROL_PROTO_GRPC_LOG_H_
#define SKUA_CONTROL_PROTO_GRPC_LOG_H_

namespace skua::control {

/// Turns gRPC's own log off, unless GRPC_VERBOSITY is set in the environment. For mains: call it before threads exist
/// and before anything else of gRPC.
void silence_grpc_log();

/// The same for a library in a program of others, whose environment is not the library's to change: turns gRPC's own log
/// off in the whole process, unless GRPC_VERBOSITY is set. Thread: any.
void silence_grpc_log_of_process();

}  // namespace skua::control

#endif  // SKUA_CONTROL_PROTO_GRPC_LOG_H_
