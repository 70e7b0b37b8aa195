// "Not me": the answer of a control process that does not lead. Nothing was done, so the call may be tried elsewhere.
//
// It is an UNAVAILABLE, which whoever does not know better tries again. On the wire the trailing metadata `skua-leader`
// sets it apart: the leader's address, or empty if nobody leads or it is not known; in absl::Status a payload.
#ifndef SKUA_CONTROL_PROTO_REDIRECT_H_
#define SKUA_CONTROL_PROTO_REDIRECT_H_

#include <grpcpp/client_context.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace skua::control {

inline constexpr const char* kLeaderMetadata = "skua-leader";

/// `trouble` says why there is no leader, if that is known.
[[nodiscard]] absl::Status not_leading(const std::string& leader, const std::string& trouble);

/// The leader that such a status names, perhaps empty; nothing for any other status.
[[nodiscard]] std::optional<std::string> redirected_to(const absl::Status& status);
/// The same for a call that has ended.
[[nodiscard]] std::optional<std::string> redirected_to(const grpc::ClientContext& context);

}  // namespace skua::control

#endif  // SKUA_CONTROL_PROTO_REDIRECT_H_
