// Call: one request of the application from acceptance to completion.
#ifndef SKUA_RPC_PROTOCOL_CALL_H_
#define SKUA_RPC_PROTOCOL_CALL_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"
#include "rpc/base/one_shot.h"

namespace skua::rpc {

/// How a call ended, as the application sees it (rpc::CallResult).
struct CallOutcome {
  absl::Status status;
  /// The answer's bytes; empty unless status is OK.
  Lease response;
  /// The status came from the peer (its handler or its engine), not from this side.
  bool from_peer = false;
  /// False: the request certainly did not run. True: it ran or may have run.
  bool may_have_executed = false;
};

/// Told of a call's outcome, once.
using CompletionFn = OneShot<CallOutcome>;

/// An outcome decided on this side.
[[nodiscard]] inline CallOutcome local_failure(absl::Status status, bool may_have_executed) {
  CallOutcome outcome;
  outcome.status = std::move(status);
  outcome.may_have_executed = may_have_executed;
  return outcome;
}

inline constexpr uint32_t kNoSlot = UINT32_MAX;

/// Owned by the endpoint's pool; on a session's backlog (slot == kNoSlot) or in one of its client
/// slots.
struct Call {
  ListHook hook;
  MessagePtr request;
  uint16_t method = 0;
  bool one_way = false;
  /// A packet of it was handed to the wire.
  bool sent = false;
  TimeNs deadline_ns = kTimeNever;
  CompletionFn completion;
  uint32_t session_index = 0;
  uint32_t slot = kNoSlot;
  /// It waited, and is a small call now, of that number (small_calls.h); its outcome comes back here.
  bool is_small = false;
  uint32_t small_number = 0;
  /// The session fills it in, then it says that the call is complete; the completion runs when the endpoint's turn ends.
  CallOutcome outcome;
  // The endpoint's pool:
  uint32_t pool_index = 0;
  uint32_t pool_generation = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_CALL_H_
