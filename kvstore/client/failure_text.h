// Messages of failed operations: one line that says what was tried, on which node, how often, and what to do.
// FailureDetail has more as data. Both are made only when an operation fails. Pure.
//
//   PUT users/"ada" (shard 3) on node 3f2a.. worker 1 (10.0.0.7:7401): the deadline passed before the next attempt;
//   2 attempts in 4.9 s, the last on ..: ABORTED: ..; the write may have been applied: read the key before
//   writing it again
#ifndef SKUA_KVSTORE_CLIENT_FAILURE_TEXT_H_
#define SKUA_KVSTORE_CLIENT_FAILURE_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/client/operation.h"
#include "kvstore/client/route_table.h"
#include "kvstore/client/types.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/types/status.h"

namespace skua::kv {

/// `PUT users/"ada" (shard 3)`, `BATCH users (shard 3)`.
[[nodiscard]] std::string describe_operation(const Operation& operation);

/// A key for messages: in quotes, escaped, cut to kShownKeyBytesMax bytes.
[[nodiscard]] std::string quoted_key(std::string_view key);

/// The outcome of an operation that the store did not answer. `cause` is one clause without a full stop.
[[nodiscard]] Outcome make_failure(const Operation& operation, const RouteTable& routes, absl::StatusCode code,
                                   std::string_view cause, bool may_have_been_applied);

/// The text of an answer that is not OK. It begins with the name of `status` where that says more than a gRPC code.
/// Then comes `text` or, if `text` is empty, the meaning of `status`. If a condition did not hold, the key's version
/// and the condition's version come instead: `VERSION_MISMATCH: the key has version 7; version 3 was asked for`.
[[nodiscard]] std::string describe_answer(Method method, const Condition& condition, KvStatus status, uint64_t version,
                                          std::string_view text);

/// The status of an answer that is neither OK nor NOT_FOUND. `condition`: the operation's, for a write.
[[nodiscard]] absl::Status make_answer_status(const Operation& operation, const Condition& condition,
                                              const ReplyHead& head);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_FAILURE_TEXT_H_
