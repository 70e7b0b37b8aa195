#include "rpc/incoming_calls.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc {

void IncomingCalls::serve(MethodId method, HandlerFn handler, const ServeOptions& options) {
  SKUA_CHECK(method < kMethodMax, "method ids are below 256");
  SKUA_CHECK(method != kRehearsalMethod, "method 254 is the engine's own");
  SKUA_CHECK(!handler || !handlers_[method], "a method has one handler");
  handlers_[method] = std::move(handler);
  takes_one_way_[method] = options.one_way;
  may_have_reserved_[method] = options.may_have_reserved;
}

void IncomingCalls::drop_handlers() {
  for (HandlerFn& handler : handlers_) handler = nullptr;
  burst_end_observer_ = nullptr;
}

void IncomingCalls::refuse(Session& session, const ArrivedRequest& request, absl::StatusCode code,
                           const std::string& text) {
  ++context_.counters.requests_refused;
  MessagePtr message = memory_.make_message();
  message->append_copy(as_byte_span(text));
  session.respond(request.slot, request.req_num, code, true, std::move(message), context_.now_ns);
}

void IncomingCalls::deliver(Session& session, ArrivedRequest&& request) {
  if (request.method >= kMethodMax || !handlers_[request.method]) {
    return refuse(session, request, absl::StatusCode::kUnimplemented,
                  absl::StrCat("no handler for method ", request.method));
  }
  if (!has_room(request.method)) {
    return refuse(
        session, request, absl::StatusCode::kResourceExhausted,
        absl::StrCat("the peer runs handlers_max (", context_.options.handlers_max, ") requests: try again later"));
  }
  ++context_.counters.requests_served;
  has_gathered_ = gathers();
  const SessionEntry& entry = context_.sessions[session.address().local_index];
  if (!request.one_way) {
    ++handlers_running_;
    context_.mailbox->hold();
  }
  IncomingCall call{.session = entry.handle(),
                    .method = request.method,
                    .one_way = request.one_way,
                    .deadline_ns = request.deadline_ns,
                    .received_ns = context_.now_ns,
                    .request = std::move(request.request),
                    .reply = ReplyToken(request.one_way ? nullptr : context_.mailbox.get(),
                                        {entry.index, entry.wire_generation}, request.slot, request.req_num)};
  handlers_[call.method](std::move(call));
}

}  // namespace skua::rpc
