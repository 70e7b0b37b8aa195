// What the conformance suite's tests share: two endpoints over a fabric, and methods that answer in all ways there are.
#ifndef SKUA_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_
#define SKUA_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/endpoint.h"
#include "rpc/memory/buffer_pool.h"
#include "tests/conformance/fabric.h"

namespace skua::rpc::conformance {

inline constexpr MethodId kEcho = 1;      // answers with the request
inline constexpr MethodId kSize = 2;      // answers with as many bytes as the request's first u32 says
inline constexpr MethodId kHold = 3;      // keeps token and lease in Host::held
inline constexpr MethodId kDrop = 4;      // drops its token
inline constexpr MethodId kFail = 5;      // answers NOT_FOUND
inline constexpr MethodId kCallBack = 6;  // calls kEcho on the caller, then answers with what came
inline constexpr MethodId kThread = 7;    // answers from another thread

/// One end: transport and endpoint, made and lost together.
struct Host {
  std::unique_ptr<Transport> transport;
  /// For bodies: where transports that need to know memory before they send from it know it.
  Arena arena;
  BufferPool bodies;
  std::unique_ptr<Endpoint> endpoint;
  std::deque<IncomingCall> held;
  uint64_t echoes = 0;

  Host(Fabric& fabric, uint32_t index, EndpointOptions options)
      : transport(fabric.make_transport(index)),
        arena({.on_map = [this](MutableByteSpan region) { return transport->register_region(region); },
               .on_unmap = [this](MutableByteSpan region) { transport->unregister_region(region); }}),
        bodies(arena),
        endpoint(std::make_unique<Endpoint>(*transport, fabric.clock(), std::move(options))) {
    serve();
  }
  ~Host() {
    held.clear();
    for (std::thread& thread : threads) thread.join();
    endpoint.reset();
  }

  void serve() {
    const auto echo = [this](IncomingCall&& call) {
      ++echoes;
      if (!call.one_way) call.reply.reply(copy(call.request.bytes()));
    };
    endpoint->serve(kEcho, echo, {.one_way = true});
    endpoint->serve(kSize, [this](IncomingCall&& call) {
      ByteReader reader(call.request.bytes());
      const std::string answer = bytes_of(reader.read<uint32_t>());
      call.reply.reply(copy(as_byte_span(answer)));
    });
    endpoint->serve(kHold, [this](IncomingCall&& call) { held.push_back(std::move(call)); });
    endpoint->serve(kDrop, [](IncomingCall&&) {});
    endpoint->serve(kFail, [](IncomingCall&& call) { call.reply.fail(absl::NotFoundError("no such thing")); });
    endpoint->serve(kCallBack, [this](IncomingCall&& call) {
      auto token = std::make_shared<ReplyToken>(std::move(call.reply));
      auto started =
          endpoint->call(call.session, kEcho, copy(call.request.bytes()), {},
                         [this, token](CallResult&& result) { token->reply(copy(result.response.bytes())); });
      ASSERT_TRUE(started.ok()) << started.status();
    });
    endpoint->serve(kThread, [this](IncomingCall&& call) {
      threads.emplace_back(
          [token = std::move(call.reply)]() mutable { token.reply(MessagePtr::copy_of(as_byte_span("from afar"))); });
    });
  }

  MessagePtr copy(ByteSpan bytes) {
    MessagePtr message = endpoint->make_message();
    if (message->append_head(bytes)) return message;
    auto body = std::make_unique<Buffer>(bodies.allocate(bytes.size()).value());
    copy_bytes(body->data(), bytes);
    const auto release = [](void* owned) { delete static_cast<Buffer*>(owned); };
    const ByteSpan content(body->data(), bytes.size());
    SKUA_CHECK(message->add_body(content, release, body.release()), "a message has room for a body");
    return message;
  }

  std::vector<std::thread> threads;
};

/// A client and a server with a session between them.
class Conformance : public ::testing::TestWithParam<FabricKind> {
 protected:
  void SetUp() override {
    std::string why_not;
    fabric_ = GetParam().make(why_not);
    if (fabric_ == nullptr) GTEST_SKIP() << GetParam().name << " cannot run here: " << why_not;
    server_ = std::make_unique<Host>(*fabric_, 1, options());
    client_ = std::make_unique<Host>(*fabric_, 0, options());
    connect();
  }

  void TearDown() override {
    if (fabric_ == nullptr || client_ == nullptr || server_ == nullptr) return;
    server_->held.clear();
    EXPECT_TRUE(run_until([&] { return at_rest(*client_) && at_rest(*server_); }))
        << "something is left: client " << describe(*client_) << ", server " << describe(*server_);
  }

  static EndpointOptions options() {
    EndpointOptions options;
    options.simulation_seed = 11;
    options.protocol.window = 8;
    options.protocol.credits = 16;
    options.protocol.backlog_max = 16;
    options.protocol.peer_timeout_ns = 2 * kSecond;
    options.protocol.connect_timeout_ns = 20 * kSecond;
    return options;
  }

  void connect() {
    absl::StatusOr<SessionId> session = open_session(*client_->endpoint, *server_->endpoint);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *session;
  }

  static bool at_rest(Host& host) {
    const Endpoint::Balance b = host.endpoint->balance();
    return b.calls + b.handlers + b.lent_buffers + b.pool_buffers + b.messages + b.credits_missing == 0;
  }
  static std::string describe(Host& host) {
    const Endpoint::Balance b = host.endpoint->balance();
    return absl::StrCat("calls ", b.calls, " handlers ", b.handlers, " lent ", b.lent_buffers, " pool ", b.pool_buffers,
                        " messages ", b.messages, " credits ", b.credits_missing);
  }

  void turn() {
    TimeNs next = kTimeNever;
    for (Host* host : {client_.get(), server_.get(), third_.get()}) {
      if (host == nullptr) continue;
      // On a virtual clock, hours pass before another thread gets its turn: wait for it.
      for (std::thread& thread : host->threads) thread.join();
      host->threads.clear();
      host->endpoint->poll();
      next = std::min(next, host->endpoint->next_timer_ns());
    }
    fabric_->let_time_pass(next);
  }

  /// Turns the loops until `done` or the end of patience.
  bool run_until(const std::function<bool()>& done) {
    const TimeNs limit = fabric_->clock().now_ns() + kPatience;
    while (!done()) {
      if (fabric_->clock().now_ns() > limit) return false;
      turn();
    }
    return true;
  }

  struct Outcome {
    absl::Status status;
    std::string response;
    bool from_peer = false;
    bool may_have_executed = false;
  };

  /// Starts a call; the outcome appears in the returned box.
  std::shared_ptr<std::optional<Outcome>> start(MethodId method, ByteSpan request, CallOptions call_options = {},
                                                CallId* id = nullptr) {
    auto box = std::make_shared<std::optional<Outcome>>();
    absl::StatusOr<CallId> call =
        client_->endpoint->call(session_, method, client_->copy(request), call_options, [box](CallResult&& result) {
          EXPECT_FALSE(box->has_value()) << "completed twice";
          *box = Outcome{result.status, std::string(as_string_view(result.response.bytes())), result.from_peer,
                         result.may_have_executed};
        });
    if (!call.ok()) *box = Outcome{call.status(), "", false, false};
    if (call.ok() && id != nullptr) *id = *call;
    return box;
  }

  Outcome call(MethodId method, ByteSpan request, CallOptions call_options = {}) {
    auto box = start(method, request, call_options);
    EXPECT_TRUE(run_until([&] { return box->has_value(); }));
    return box->value_or(Outcome{absl::UnknownError("never completed"), "", false, true});
  }

  Outcome call_for_size(uint32_t size) {
    return call(kSize, ByteSpan(reinterpret_cast<const std::byte*>(&size), sizeof size), {.timeout_ns = 60 * kSecond});
  }

  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Host> server_;
  std::unique_ptr<Host> client_;
  std::unique_ptr<Host> third_;
  SessionId session_;
};

}  // namespace skua::rpc::conformance

#endif  // SKUA_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_
