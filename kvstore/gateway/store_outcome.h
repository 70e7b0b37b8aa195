// What the outcome of an operation of the client library means for a command. Pure.
#ifndef SKUA_KVSTORE_GATEWAY_STORE_OUTCOME_H_
#define SKUA_KVSTORE_GATEWAY_STORE_OUTCOME_H_

#include "kvstore/client/types.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// `kind`: of the operation.
[[nodiscard]] StoreResult::Status store_status(StoreRequest::Kind kind, const Outcome& outcome);
/// Status, version, and the text of a failure.
[[nodiscard]] StoreResult store_result(StoreRequest::Kind kind, const Outcome& outcome);
/// The client has not accepted the operation: too many are in flight, or it is closing.
[[nodiscard]] StoreResult store_refusal(StoreRequest::Kind kind, const absl::Status& status);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_STORE_OUTCOME_H_
