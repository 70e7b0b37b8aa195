// OutgoingCalls, and a peer that is the test: what is called and answered, and how calls ended.
#ifndef SKUA_TESTS_RPC_ENDPOINT_OUTGOING_CALLS_HARNESS_H_
#define SKUA_TESTS_RPC_ENDPOINT_OUTGOING_CALLS_HARNESS_H_

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/outgoing_calls.h"
#include "tests/rpc/endpoint/bundled_parts.h"

namespace skua::rpc::testing {

inline constexpr MethodId kAsked = 9;
inline constexpr uint32_t kCallsMax = 12;
inline constexpr PeerId kCalled = 1;

/// How a call ended.
struct EndedCall {
  size_t call = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string response;
  bool from_peer = false;
  bool may_have_executed = false;
};

class OutgoingCallsTest : public BundledPartsTest {
 protected:
  OutgoingCallsTest() : BundledPartsTest(with_few_calls()) { parts.host.outgoing = &calls; }
  ~OutgoingCallsTest() override {
    parts.lives.abort_all(why);
    calls.run_completions();
    EXPECT_EQ(ended.size(), accepted) << "each accepted call completes once";
    EXPECT_EQ(calls.in_flight(), 0u);
  }

  static EndpointOptions with_few_calls() {
    EndpointOptions out;
    out.calls_max = kCallsMax;
    return out;
  }
  CompletionFn completion() {
    return [this, call = accepted](CallOutcome&& outcome) { on_end(call, std::move(outcome)); };
  }
  virtual void on_end(size_t call, CallOutcome&& outcome) {
    ended.push_back({call, outcome.status.code(), std::string(as_string_view(outcome.response.bytes())),
                     outcome.from_peer, outcome.may_have_executed});
  }
  /// Empty: the call is not a small one. Then nothing may have happened.
  std::optional<CallId> small(SessionId session, std::string_view text, const CallOptions& options = {},
                              MethodId method = kAsked) {
    CompletionFn fn = completion();
    const size_t before = calls.in_flight();
    const uint64_t started = context.counters.calls_started;
    CallId id;
    if (calls.call_small(session, method, SentBytes(as_byte_span(text)), options, fn, id)) {
      ++accepted;
      EXPECT_FALSE(fn);
      return id;
    }
    EXPECT_TRUE(fn);
    EXPECT_EQ(id.index, UINT32_MAX);
    EXPECT_EQ(calls.in_flight(), before);
    EXPECT_EQ(context.counters.calls_started, started);
    return std::nullopt;
  }
  absl::StatusOr<CallId> large(SessionId session, MessagePtr request, const CallOptions& options = {},
                               MethodId method = kAsked) {
    CompletionFn fn = completion();
    const size_t before = calls.in_flight();
    absl::StatusOr<CallId> id = calls.call_large(session, method, request, options, fn);
    EXPECT_EQ(static_cast<bool>(fn), !id.ok()) << "the completion of a refused call stays the caller's";
    EXPECT_EQ(calls.in_flight(), before + (id.ok() ? 1 : 0));
    accepted += id.ok() ? 1 : 0;
    return id;
  }
  absl::StatusOr<CallId> large(SessionId session, std::string_view text, const CallOptions& options = {}) {
    return large(session, MessagePtr::copy_of(as_byte_span(text)), options);
  }
  absl::StatusCode refusal(SessionId session, const CallOptions& options, MethodId method = kAsked) {
    return large(session, MessagePtr(), options, method).status().code();
  }
  /// The peer answers a small call.
  void answer_small(const SessionEntry& entry, uint32_t number, const std::string& text) {
    receive(*entry.association, {{{.session = entry.session->hot().handle,
                                   .number = number,
                                   .bytes = static_cast<uint16_t>(text.size()),
                                   .kind = RecordKind::kResponse},
                                  text}});
  }
  /// The peer answers a large call.
  void answer_large(const SessionEntry& entry, uint32_t number, std::string_view text) {
    Arrival arrival;
    arrival.header.type = PacketType::kResponse;
    arrival.header.session_index = entry.index;
    arrival.header.req_num = number;
    arrival.header.message_bytes = static_cast<uint32_t>(text.size());
    arrival.header.stamp = to_ticks(context.now_ns);
    arrival.payload = as_byte_span(text);
    entry.session->on_packet(arrival, context.now_ns);
  }
  /// The numbers of the session's calls of one kind that have an sslot.
  static std::vector<uint32_t> numbers(const SessionEntry& entry, ClientSlot::State state) {
    std::vector<uint32_t> out;
    const SessionHot& hot = entry.session->hot();
    for (uint32_t i = 0; hot.client != nullptr && i < hot.window(); ++i) {
      if (hot.client[i].state == state) out.push_back(hot.client[i].req_num);
    }
    return out;
  }
  static std::vector<uint32_t> large_numbers(const SessionEntry& entry) {
    return numbers(entry, ClientSlot::State::kLarge);
  }

  size_t accepted = 0;
  std::vector<EndedCall> ended;
  OutgoingCalls calls{context, parts.memory, parts.bundles};
};

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_ENDPOINT_OUTGOING_CALLS_HARNESS_H_
