// OutgoingCalls: the application's calls, from acceptance to completion. There are two ways:
//
//   call_small()    a record of a bundle (small_calls.h): no record of the call is kept here
//   call_large()    a Call, which the session has until complete()         complete() --> run_completions()
//
// The way of small calls is tried first. A large call that waited in a session may start as a small one later
// (start_small()), and a small call may become a large one (take_over()).
#ifndef SKUA_RPC_OUTGOING_CALLS_H_
#define SKUA_RPC_OUTGOING_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/base/message.h"
#include "rpc/bundles.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/protocol/call.h"
#include "rpc/protocol/session.h"
#include "rpc/receive_memory.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class OutgoingCalls {
 public:
  OutgoingCalls(EndpointContext& context, ReceiveMemory& memory, Bundles& bundles)
      : context_(context), memory_(memory), bundles_(bundles), small_calls_max_(context.options.calls_max) {}
  OutgoingCalls(const OutgoingCalls&) = delete;
  OutgoingCalls& operator=(const OutgoingCalls&) = delete;

  // --- The caller's side
  /// False: the call is not a small one, and nothing has happened. `request`: SentMessage or SentBytes.
  template <typename Sent>
  [[gnu::always_inline]] inline bool call_small(SessionId session, MethodId method, Sent request,
                                                const CallOptions& options, CompletionFn& completion, CallId& id);
  /// For the engine's own calls: sends a message with a copy of `bytes`.
  bool call_small(SessionId session, MethodId method, ByteSpan bytes, CompletionFn& completion);
  /// As Endpoint::call(), for a call that call_small() did not take.
  [[gnu::noinline]] absl::StatusOr<CallId> call_large(SessionId session, MethodId method, MessagePtr& request,
                                                      const CallOptions& options, CompletionFn& completion);
  /// Endpoint::call() with bytes that do not fit an sslot. The arguments are in one struct: passed one by one on the
  /// stack, they would slow down the small calls.
  struct CopiedCall {
    SessionId session;
    MethodId method;
    const CallOptions* options;
    CompletionFn* completion;
  };
  [[gnu::noinline]] absl::StatusOr<CallId> call_copied(const CopiedCall& call, ByteSpan request);
  /// As Endpoint::cancel(). Runs completions.
  void cancel(CallId call);
  /// From now on large calls are refused: the endpoint ends.
  void shut_down() { shutting_down_ = true; }

  // --- The sessions' side (SessionHost)
  void complete(Call& call) {
    call.session_index = UINT32_MAX;
    completed_.push_back(call);
  }
  bool start_small(Session& session, Call& call);
  Call& take_over(Session& session);

  // --- The loop's side
  /// Runs the completions of large calls. Returns how many.
  size_t run_completions();
  [[nodiscard]] bool has_completed() const { return !completed_.empty(); }
  /// Calls that were accepted and whose completion has not begun.
  [[nodiscard]] size_t in_flight() const {
    return calls_.size() - free_.size() - completing_count_ + bundles_.calls().in_flight() - small_records_;
  }

 private:
  /// The highest bit of CallId::index: the call is a small one. The other bits are the session's index, and `number` is
  /// the request number.
  static constexpr uint32_t kSmallCall = 1u << 31;

  Call& take_call();

  EndpointContext& context_;
  ReceiveMemory& memory_;
  Bundles& bundles_;
  /// Below this number, small calls are within calls_max, however many records of large calls are in use.
  uint32_t small_calls_max_;
  uint32_t completing_count_ = 0;  // calls whose completion is running
  uint32_t small_records_ = 0;     // calls that waited and then started as small ones; counted there, too
  bool shutting_down_ = false;
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<uint32_t> free_;
  IntrusiveList<Call, &Call::hook> completed_;
};

// Inline, because each small call runs this code.
template <typename Sent>
bool OutgoingCalls::call_small(SessionId session, MethodId method, Sent request, const CallOptions& options,
                               CompletionFn& completion, CallId& id) {
  SessionHot& hot = bundles_.hot(session.index);
  const bool is_other = (index_of_handle(hot.handle) != session.index) | (hot.handle_generation != session.generation);
  if (is_other | (method >= kMethodMax) | options.one_way) [[unlikely]] {
    return false;
  }
  if (bundles_.calls().in_flight() >= small_calls_max_ && in_flight() >= context_.options.calls_max) [[unlikely]] {
    return false;
  }
  if (!bundles_.calls().start(hot, static_cast<uint8_t>(method), request, options.timeout_ns, completion, id.number)) {
    return false;
  }
  id.index = session.index | kSmallCall;
  id.generation = hot.wire_generation;  // names this connection: the next one numbers its calls anew
  ++context_.counters.calls_started;
  return true;
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_OUTGOING_CALLS_H_
