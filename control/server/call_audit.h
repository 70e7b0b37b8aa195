// What an Auditor hears of the calls of a gRPC server: each that ends, before its answer goes out. The answer to a call
// that changed something waits until the call's line is on the disk; no thread waits for that. Calls that are refused
// before they reach a handler are told by the server's credentials (control/security/credentials.h).
#ifndef SKUA_CONTROL_SERVER_CALL_AUDIT_H_
#define SKUA_CONTROL_SERVER_CALL_AUDIT_H_

#include <google/protobuf/message.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <span>
#include <string_view>

#include "control/security/auditor.h"

namespace skua::control {

/// Trailing metadata of a call that changed nothing: there was nothing to do, or it failed before anything was tried.
inline constexpr const char* kNothingDoneMetadata = "skua-nothing-done";

/// Which fields of a method's request, and of its answer, stand in its line. No secrets, and no user's data.
struct AuditedArguments {
  std::string_view method;  ///< as in access.h
  std::span<const char* const> fields;
  std::span<const char* const> answer = {};
};

/// One for each method that access.h says is audited.
[[nodiscard]] std::span<const AuditedArguments> audited_arguments();

/// Those fields of `request` that are set.
[[nodiscard]] AuditFields describe_request(std::string_view method, const google::protobuf::Message& request);

/// Those fields of `reply` that are set.
[[nodiscard]] AuditFields describe_reply(std::string_view method, const google::protobuf::Message& reply);

/// Call it before the server is started.
void audit_calls(grpc::ServerBuilder& builder, std::shared_ptr<Auditor> auditor);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CALL_AUDIT_H_
