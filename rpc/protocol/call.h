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
  /// The answer's bytes. Empty unless status is OK.
  Lease response;
  /// True: the status came from the peer (its handler or its engine). False: this side decided it.
  bool from_peer = false;
  /// False: the request certainly did not run. True: it ran or may have run.
  bool may_have_executed = false;
};

/// Runs once, with the call's outcome.
using CompletionFn = OneShot<CallOutcome>;

/// An outcome decided on this side.
[[nodiscard]] inline CallOutcome local_failure(absl::Status status, bool may_have_executed) {
  CallOutcome outcome;
  outcome.status = std::move(status);
  outcome.may_have_executed = may_have_executed;
  return outcome;
}

inline constexpr uint32_t kNoSlot = UINT32_MAX;

/// Owned by the endpoint's pool. While in use, it is in a session's backlog (slot == kNoSlot) or in one of the
/// session's client sslots.
struct Call {
  ListHook hook;
  MessagePtr request;
  uint16_t method = 0;
  bool one_way = false;
  /// A packet of the call was handed to the wire.
  bool sent = false;
  TimeNs deadline_ns = kTimeNever;
  CompletionFn completion;
  uint32_t session_index = 0;
  uint32_t slot = kNoSlot;
  /// The call waited, and then started as a small call with number small_number (small_calls.h). Its outcome comes back
  /// to this record.
  bool is_small = false;
  uint32_t small_number = 0;
  /// The session sets the outcome, and then tells the host that the call is complete. The completion runs at the end of
  /// the endpoint's turn.
  CallOutcome outcome;
  // For the endpoint's pool:
  uint32_t pool_index = 0;
  uint32_t pool_generation = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_CALL_H_
