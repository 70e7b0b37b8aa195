// IncomingCalls: the requests that handlers run: who serves which method, how many handlers run, and the moment when
// handlers that gather requests answer them.
//
//   small calls   deliver_small() --+
//                                   +--> handler(IncomingCall) ... reply token --> Answers: handler_done()
//   large calls   deliver() --------+
//                     |  no handler, or handlers_max run: the engine answers with the reason
//
// How answers are given is in answers.h.
#ifndef SKUA_RPC_INCOMING_CALLS_H_
#define SKUA_RPC_INCOMING_CALLS_H_

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "rpc/base/lease.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/protocol/session.h"
#include "rpc/protocol/session_host.h"
#include "rpc/protocol/small_slots.h"
#include "rpc/receive_memory.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. `context` and `memory` must outlive it.
class IncomingCalls {
 public:
  IncomingCalls(EndpointContext& context, ReceiveMemory& memory)
      : context_(context),
        memory_(memory),
        common_max_(context.options.handlers_max -
                    std::min(context.options.handlers_max, context.options.handlers_reserved)) {}
  IncomingCalls(const IncomingCalls&) = delete;
  IncomingCalls& operator=(const IncomingCalls&) = delete;

  /// As Endpoint::serve(). Aborts if the method is not one that applications may serve, or has a handler.
  void serve(MethodId method, HandlerFn handler, const ServeOptions& options);
  /// Serves a method of the engine's own.
  void serve_own(MethodId method, HandlerFn handler) { handlers_[method] = std::move(handler); }
  [[nodiscard]] bool takes_one_way(uint16_t method) const { return method < kMethodMax && takes_one_way_[method]; }
  /// Drops the handlers and the observer, and what they captured. At the endpoint's end.
  void drop_handlers();

  /// Hands the request to its handler, or answers it with the reason why not.
  void deliver(Session& session, ArrivedRequest&& request);
  /// Hands a small call's request to its handler. False: give the request to deliver(), which will refuse it; `request`
  /// is untouched.
  [[gnu::always_inline]] inline bool deliver_small(const SessionHot& hot, const RawRecord& record, DurationNs time_ns,
                                                   const LeaseParts& request);
  /// A handler has answered.
  void handler_done() { --handlers_running_; }
  /// How many handlers run, or have not answered yet.
  [[nodiscard]] uint32_t running() const { return handlers_running_; }

  // --- Gathering (Endpoint::on_burst_end)
  /// Null: handlers answer one by one.
  void observe_burst_end(absl::AnyInvocable<void()> observer) { burst_end_observer_ = std::move(observer); }
  [[nodiscard]] bool gathers() const { return static_cast<bool>(burst_end_observer_); }
  /// Handlers have run since tell_burst_end(), and may have gathered requests.
  [[nodiscard]] bool has_gathered() const { return has_gathered_; }
  void tell_burst_end() {
    has_gathered_ = false;
    if (burst_end_observer_) burst_end_observer_();
  }

 private:
  /// Another handler of the method may run.
  [[nodiscard]] bool has_room(uint16_t method) const {
    return handlers_running_ < common_max_ ||
           (may_have_reserved_[method] && handlers_running_ < context_.options.handlers_max);
  }
  void refuse(Session& session, const ArrivedRequest& request, absl::StatusCode code, const std::string& text);

  EndpointContext& context_;
  ReceiveMemory& memory_;
  const uint32_t common_max_;  // of handlers_max, without those that are reserved
  uint32_t handlers_running_ = 0;
  bool has_gathered_ = false;
  absl::AnyInvocable<void()> burst_end_observer_;
  std::bitset<kMethodMax> takes_one_way_;
  std::bitset<kMethodMax> may_have_reserved_;
  std::array<HandlerFn, kMethodMax> handlers_;
};

bool IncomingCalls::deliver_small(const SessionHot& hot, const RawRecord& record, DurationNs time_ns,
                                  const LeaseParts& request) {
  HandlerFn& handler = handlers_[record.method()];
  if (!handler || !has_room(record.method())) [[unlikely]] {
    return false;
  }
  ++context_.counters.requests_served;
  ++handlers_running_;
  has_gathered_ = gathers();
  context_.mailbox->hold();
  const uint32_t index = index_of_handle(hot.handle);
  // Field by field: an aggregate initialization would clear the whole struct first.
  IncomingCall call;
  call.session = {index, hot.handle_generation};
  call.method = record.method();
  call.deadline_ns = context_.now_ns + time_ns;
  call.received_ns = context_.now_ns;
  call.request.fill(request.bytes, request.owner, request.cookie);
  call.reply.fill(context_.mailbox.get(), {index, hot.wire_generation}, record.number & hot.mask, record.number);
  handler(std::move(call));
  return true;
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_INCOMING_CALLS_H_
