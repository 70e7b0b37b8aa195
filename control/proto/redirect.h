// Whose answer it is, where the code does not tell. Both are UNAVAILABLE, which whoever does not know better tries
// again, and on the wire trailing metadata sets them apart; in absl::Status a payload.
//
//    "not me"     of a control process that does not lead. Nothing was done, so the call may be tried elsewhere. `skua-leader`: the
//                 leader's address, or empty if nobody leads or it is not known
//    "not yet"    of the one that leads and cannot say more now: nobody else can either. `skua-leads`
#ifndef SKUA_CONTROL_PROTO_REDIRECT_H_
#define SKUA_CONTROL_PROTO_REDIRECT_H_

#include <grpcpp/client_context.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace skua::control {

inline constexpr const char* kLeaderMetadata = "skua-leader";
inline constexpr const char* kLeadsMetadata = "skua-leads";

/// `trouble` says why there is no leader, if that is known.
[[nodiscard]] absl::Status not_leading(const std::string& leader, const std::string& trouble);

/// The leader that such a status names, perhaps empty; nothing for any other status.
[[nodiscard]] std::optional<std::string> redirected_to(const absl::Status& status);
/// The same for a call that has ended.
[[nodiscard]] std::optional<std::string> redirected_to(const grpc::ClientContext& context);

/// Makes an UNAVAILABLE the answer of the process that leads. Other codes say that by themselves.
void mark_leaders_answer(absl::Status& status);
/// Whether it is one.
[[nodiscard]] bool is_leaders_answer(const absl::Status& status);
/// The same for a call that has ended.
[[nodiscard]] bool is_leaders_answer(const grpc::ClientContext& context);

}  // namespace skua::control

#endif  // SKUA_CONTROL_PROTO_REDIRECT_H_
