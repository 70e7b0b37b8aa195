// Answers: what handlers answer, on its way to the caller. An answer takes the way that its sslot records: that of
// small calls (bundles.h) or that of large ones (rpc/protocol/session_callee.h).
//
// Reply tokens find it through the mailbox, which outlives the endpoint. They name a session by its index and the
// generation on the wire, so an answer for an earlier connection is discarded and counted.
#ifndef SKUA_RPC_ANSWERS_H_
#define SKUA_RPC_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"
#include "rpc/bundles.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/incoming_calls.h"
#include "rpc/memory_shares.h"
#include "rpc/receive_memory.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it; answers that hold reserved shares must not.
class Answers {
 public:
  Answers(EndpointContext& context, ReceiveMemory& memory, Bundles& bundles, IncomingCalls& incoming)
      : context_(context),
        memory_(memory),
        bundles_(bundles),
        incoming_(incoming),
        shares_(context.options.answers_limit_bytes) {}
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  MessagePtr make_message() { return memory_.make_message(); }

  /// Answers OK, and ends the handler. False: the answer is not a small one, and nothing has happened.
  template <typename Sent>
  [[gnu::always_inline]] inline bool give_small(SessionId wire_session, uint32_t req_num, Sent response) {
    if (!try_small(wire_session, req_num, response)) return false;
    incoming_.handler_done();
    return true;
  }
  /// Answers with any status, and ends the handler. The answer is counted as stale if the session or sslot is used for
  /// something newer.
  void give(SessionId wire_session, uint32_t slot, uint32_t req_num, const absl::Status& status, MessagePtr&& message);
  /// As ReplyToken::reserve().
  std::optional<Lease> reserve(SessionId wire_session, size_t bytes);
  /// The application's name of the session that has this one on the wire; SessionId{}: it has ended.
  [[nodiscard]] SessionId session_of(SessionId wire_session) const;

 private:
  template <typename Sent>
  [[gnu::always_inline]] inline bool try_small(SessionId wire_session, uint32_t req_num, Sent response) {
    SessionHot& hot = bundles_.hot(wire_session.index);
    return hot.wire_generation == wire_session.generation && bundles_.calls().answer(hot, req_num, response);
  }
  [[gnu::noinline]] MessagePtr error_message(const absl::Status& status);

  EndpointContext& context_;
  ReceiveMemory& memory_;
  Bundles& bundles_;
  IncomingCalls& incoming_;
  ShareLeases shares_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ANSWERS_H_
