// One suite for every transport: what an application may rely on, whatever carries its packets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"
#include "rpc/memory/buffer_pool.h"
#include "tests/conformance/fabric.h"

namespace skua::rpc::conformance {
namespace {

using ::testing::HasSubstr;

constexpr MethodId kEcho = 1;      // answers with the request
constexpr MethodId kSize = 2;      // answers with as many bytes as the request's first u32 says
constexpr MethodId kHold = 3;      // keeps token and lease in Host::held
constexpr MethodId kDrop = 4;      // drops its token
constexpr MethodId kFail = 5;      // answers NOT_FOUND
constexpr MethodId kCallBack = 6;  // calls kEcho on the caller, then answers with what came
constexpr MethodId kThread = 7;    // answers from another thread
constexpr DurationNs kPatience = 60 * kSecond;

std::string bytes_of(size_t size, uint64_t seed = 1) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(mix64(seed + i / 64) >> (i % 56));
  return out;
}

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

// --- Messages --------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Sizes_AroundEveryLimit) {
  const uint32_t payload = std::min<uint32_t>(client_->transport->capabilities().payload_max_bytes, 1 << 20);
  const uint32_t head = Message::kHeadMax;
  std::vector<uint32_t> sizes = {
      0,       1,           31,           head - 1,     head,         head + 1,         payload - 1,
      payload, payload + 1, 15 * payload, 16 * payload, 17 * payload, 63 * payload + 1, 64 * payload};
  for (uint32_t size : sizes) {
    if (size > options().protocol.message_max_bytes) continue;
    SCOPED_TRACE(size);
    const std::string request = bytes_of(size, size);
    const Outcome outcome = call(kEcho, as_byte_span(request), {.timeout_ns = 60 * kSecond});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(outcome.response == request);
    EXPECT_TRUE(outcome.from_peer);
  }
}

TEST_P(Conformance, Sizes_LargestAndOneMore) {
  const uint32_t largest = options().protocol.message_max_bytes;
  Outcome outcome = call_for_size(largest);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.response, bytes_of(largest));
  outcome = call_for_size(largest + 1);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal) << outcome.status;
  const std::string request(largest + 1, 'x');
  outcome = call(kEcho, as_byte_span(request));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(outcome.may_have_executed);
}

TEST_P(Conformance, Bodies_SeveralSpansAndOneBodyForManyCalls) {
  SharedBody* shared = SharedBody::make(bytes_of(5000));
  int done = 0;
  for (int i = 0; i < 8; ++i) {
    MessagePtr message = client_->endpoint->make_message();
    ASSERT_TRUE(message->append_head(as_byte_span(absl::StrCat(i))));
    ASSERT_TRUE(shared->attach(*message));
    ASSERT_TRUE(shared->attach(*message));
    auto started = client_->endpoint->call(session_, kEcho, std::move(message), {}, [&, i](CallResult&& result) {
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(as_string_view(result.response.bytes()), absl::StrCat(i, bytes_of(5000), bytes_of(5000)));
      ++done;
    });
    ASSERT_TRUE(started.ok());
  }
  shared->release();
  EXPECT_TRUE(run_until([&] { return done == 8; }));
}

TEST_P(Conformance, Copies_SinglePacketMessagesAreLentNotCopied) {
  if (GetParam().name == "SimLossy") GTEST_SKIP() << "repeated packets count as well";
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  const uint64_t before = server_->endpoint->counters().rx_copied_bytes;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(call(kEcho, as_byte_span(bytes_of(500))).status.ok());
  EXPECT_EQ(server_->endpoint->counters().rx_copied_bytes, before);
  EXPECT_EQ(client_->endpoint->counters().rx_copied_bytes, 0u);
  EXPECT_GE(server_->endpoint->counters().rx_zero_copy_bytes, 100u * 500);
}

TEST_P(Conformance, Copies_LargeMessagesAreSentInPlace) {
  if (client_->transport->capabilities().keyed) GTEST_SKIP() << "sealing writes what is sent into frames, once";
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  for (const size_t size : std::initializer_list<size_t>{4096, 65'536, 1'048'576}) {
    const uint64_t client_before = client_->transport->counters().tx_copied_bytes;
    const uint64_t server_before = server_->transport->counters().tx_copied_bytes;
    const uint64_t in_place_before =
        client_->transport->counters().tx_zero_copy_bytes + server_->endpoint->counters().rx_read_bytes;
    ASSERT_TRUE(call(kEcho, as_byte_span(bytes_of(size))).status.ok());
    // Acknowledgements, pulls and the last piece may be small enough to be copied; the message itself is not.
    EXPECT_LE(client_->transport->counters().tx_copied_bytes - client_before, 256 + size / 50) << size;
    EXPECT_LE(server_->transport->counters().tx_copied_bytes - server_before, 256 + size / 50) << size;
    // Sent from where it lies, or read there by the server.
    const uint64_t in_place =
        client_->transport->counters().tx_zero_copy_bytes + server_->endpoint->counters().rx_read_bytes;
    EXPECT_GE(in_place - in_place_before, size - 256) << size;
  }
}

TEST_P(Conformance, Copies_LargeMessagesAreReadInPlaceWhereTheTransportCan) {
  if (!client_->transport->capabilities().one_sided) GTEST_SKIP() << "the transport has no one-sided operations";
  if (GetParam().name == "SimOneSidedLossy") GTEST_SKIP() << "READs fail there, and packets are copied";
  // The connection that READs go by comes with the first that is wanted.
  const bool connected = run_until([&] {
    return call(kEcho, as_byte_span(bytes_of(65'536))).status.ok() && server_->endpoint->counters().rx_read_bytes > 0 &&
           client_->endpoint->counters().rx_read_bytes > 0;
  });
  ASSERT_TRUE(connected);
  const uint64_t client_before = client_->endpoint->counters().rx_copied_bytes;
  const uint64_t server_before = server_->endpoint->counters().rx_copied_bytes;
  for (int i = 0; i < 5; ++i) {
    const std::string request = bytes_of(1'048'576, static_cast<uint64_t>(i));
    const Outcome outcome = call(kEcho, as_byte_span(request), {.timeout_ns = 60 * kSecond});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(outcome.response == request);
  }
  EXPECT_EQ(client_->endpoint->counters().rx_copied_bytes, client_before);
  EXPECT_EQ(server_->endpoint->counters().rx_copied_bytes, server_before);
}

// --- Handlers --------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Handler_Statuses) {
  Outcome outcome = call(kFail, as_byte_span("x"));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(outcome.status.message(), "no such thing");
  EXPECT_TRUE(outcome.from_peer);
  outcome = call(kDrop, as_byte_span("x"));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("dropped its reply token"));
  outcome = call(200, as_byte_span("x"));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(outcome.may_have_executed);
}

TEST_P(Conformance, Handler_AnswersLaterAndKeepsTheLease) {
  const std::string request = bytes_of(700);
  auto box = start(kHold, as_byte_span(request));
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(call(kEcho, as_byte_span("other traffic")).status.ok());
  IncomingCall held = std::move(server_->held.front());
  server_->held.pop_front();
  EXPECT_EQ(as_string_view(held.request.bytes()), request);
  held.reply.reply(server_->copy(held.request.bytes()));
  ASSERT_TRUE(run_until([&] { return box->has_value(); }));
  EXPECT_EQ((*box)->response, request);
}

TEST_P(Conformance, Handler_AnswersFromAnotherThread) {
  for (int i = 0; i < 20; ++i) {
    const Outcome outcome = call(kThread, as_byte_span("x"));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.response, "from afar");
  }
}

TEST_P(Conformance, Handler_CallsItsCallerOnTheSameSession) {
  const Outcome outcome = call(kCallBack, as_byte_span("there and back"));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.response, "there and back");
  EXPECT_EQ(client_->echoes, 1u);
}

TEST_P(Conformance, OneWay_IsDeliveredAndCompletes) {
  const Outcome outcome = call(kEcho, as_byte_span("note"), {.timeout_ns = 5 * kSecond, .one_way = true});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.response, "");
  EXPECT_EQ(server_->echoes, 1u);
}

TEST_P(Conformance, OneWay_OfAMethodThatAnswersIsRefused) {
  const Outcome outcome = call(kHold, as_byte_span("note"), {.timeout_ns = 5 * kSecond, .one_way = true});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition) << outcome.status;
  EXPECT_TRUE(server_->held.empty());
}

TEST_P(Conformance, Leases_MoreThanTheRingIsCopiedOut) {
  // Every response stays lent to the application; the ring must not run dry.
  std::deque<Lease> kept;
  const std::string request = bytes_of(600);
  const size_t wanted = client_->transport->capabilities().lendable_count + 100;
  size_t answered = 0;
  size_t started = 0;
  while (started < wanted) {
    while (started - answered < 8 && started < wanted) {
      ++started;
      ASSERT_TRUE(client_->endpoint
                      ->call(session_, kEcho, client_->copy(as_byte_span(request)), {.timeout_ns = 60 * kSecond},
                             [&](CallResult&& result) {
                               EXPECT_TRUE(result.status.ok()) << result.status;
                               kept.push_back(std::move(result.response));
                               ++answered;
                             })
                      .ok());
    }
    const size_t target = answered + 1;
    ASSERT_TRUE(run_until([&] { return answered >= target; }));
  }
  ASSERT_TRUE(run_until([&] { return answered == wanted; }));
  for (const Lease& lease : kept) EXPECT_EQ(as_string_view(lease.bytes()), request);
}

// --- Deadlines and cancellation --------------------------------------------------------------------------------------

TEST_P(Conformance, Deadline_EndsACallThatIsNotAnswered) {
  const Outcome outcome = call(kHold, as_byte_span("x"), {.timeout_ns = 30 * kMillisecond});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDeadlineExceeded) << outcome.status;
  server_->held.clear();  // its answer is stale now, and harmless
  EXPECT_TRUE(call(kEcho, as_byte_span("next")).status.ok());
}

TEST_P(Conformance, Cancel_InEachState) {
  // Before it was sent.
  CallId id;
  auto unsent = start(kEcho, as_byte_span("x"), {}, &id);
  client_->endpoint->cancel(id);
  ASSERT_TRUE(unsent->has_value());
  EXPECT_EQ((*unsent)->status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE((*unsent)->may_have_executed);
  // While its handler runs.
  auto running = start(kHold, as_byte_span("y"), {}, &id);
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  client_->endpoint->cancel(id);
  ASSERT_TRUE(running->has_value());
  EXPECT_EQ((*running)->status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE((*running)->may_have_executed);
  server_->held.front().reply.reply(MessagePtr());
  server_->held.clear();
  // While a large message is under way.
  auto large = start(kEcho, as_byte_span(bytes_of(4 << 20)), {}, &id);
  for (int i = 0; i < 30; ++i) turn();
  client_->endpoint->cancel(id);
  EXPECT_TRUE(large->has_value());
  // After it completed: nothing happens.
  client_->endpoint->cancel(id);
  EXPECT_TRUE(call(kEcho, as_byte_span("still well")).status.ok());
}

// --- Bounds ----------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Backlog_IsBoundedAndSaysSo) {
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  std::vector<std::shared_ptr<std::optional<Outcome>>> boxes;
  for (int i = 0; i < 24; ++i) boxes.push_back(start(kEcho, as_byte_span("x")));  // 8 slots and 16 waiting
  const Outcome refused = *(*start(kEcho, as_byte_span("one too many")));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("backlog"));
  for (auto& box : boxes) {
    ASSERT_TRUE(run_until([&] { return box->has_value(); }));
    EXPECT_TRUE((*box)->status.ok());
  }
}

TEST_P(Conformance, Sessions_ManyAtOnceAndOneTooMany) {
  std::vector<SessionId> sessions;
  for (int i = 0; i < 50; ++i) {
    absl::StatusOr<SessionId> session = open_session(*client_->endpoint, *server_->endpoint);
    ASSERT_TRUE(session.ok());
    sessions.push_back(*session);
  }
  int done = 0;
  for (SessionId session : sessions) {
    ASSERT_TRUE(client_->endpoint
                    ->call(session, kEcho, client_->copy(as_byte_span("hi")), {.timeout_ns = 30 * kSecond},
                           [&](CallResult&& result) {
                             EXPECT_TRUE(result.status.ok()) << result.status;
                             ++done;
                           })
                    .ok());
  }
  EXPECT_TRUE(run_until([&] { return done == 50; }));
  for (SessionId session : sessions) client_->endpoint->close(session);
  EXPECT_TRUE(run_until([&] { return client_->endpoint->session_count() == 1; }));
}

// --- Life of sessions ------------------------------------------------------------------------------------------------

TEST_P(Conformance, Close_CompletesCallsAndRefusesNewOnes) {
  auto box = start(kHold, as_byte_span("x"));
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  client_->endpoint->close(session_);
  turn();
  ASSERT_TRUE(box->has_value());
  EXPECT_EQ((*box)->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*start(kEcho, as_byte_span("y")))->status.code(), absl::StatusCode::kNotFound);
  server_->held.clear();
  connect();
  EXPECT_TRUE(call(kEcho, as_byte_span("anew")).status.ok());
}

TEST_P(Conformance, Handshake_CarriedBySomebodyElse) {
  absl::StatusOr<Endpoint::Offer> offer = client_->endpoint->begin_connect(server_->endpoint->local_descriptor());
  ASSERT_TRUE(offer.ok());
  const std::string answer = server_->endpoint->accept_offer(as_byte_span(offer->bytes), test_origin());
  EXPECT_EQ(server_->endpoint->accept_offer(as_byte_span(offer->bytes), test_origin()), answer)
      << "a repeated offer, the same answer";
  ASSERT_TRUE(client_->endpoint->finish_connect(offer->session, as_byte_span(answer)).ok());
  session_ = offer->session;
  EXPECT_TRUE(client_->endpoint->is_connected(session_));
  EXPECT_TRUE(call(kEcho, as_byte_span("hello")).status.ok());
}

TEST_P(Conformance, Handshake_BadRecordsAreRefusedInWords) {
  const std::string answer = server_->endpoint->accept_offer(as_byte_span("garbage"));
  absl::StatusOr<Endpoint::Offer> offer = client_->endpoint->begin_connect(server_->endpoint->local_descriptor());
  ASSERT_TRUE(offer.ok());
  EXPECT_FALSE(client_->endpoint->finish_connect(offer->session, as_byte_span(answer)).ok());
  EXPECT_FALSE(client_->endpoint->finish_connect(offer->session, as_byte_span("x")).ok());
  client_->endpoint->close(offer->session);
}

TEST_P(Conformance, PeerGone_CallsGetATypedOutcome) {
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  auto box = start(kHold, as_byte_span("x"), {.timeout_ns = 50 * kSecond});
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  server_.reset();
  ASSERT_TRUE(run_until([&] { return box->has_value(); }));
  const auto code = (*box)->status.code();
  EXPECT_TRUE(code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kAborted ||
              code == absl::StatusCode::kInternal)
      << (*box)->status;
  EXPECT_TRUE((*box)->may_have_executed);
}

TEST_P(Conformance, Idle_ThenCall) {
  ASSERT_TRUE(call(kEcho, as_byte_span("first")).status.ok());
  const TimeNs until = fabric_->clock().now_ns() + 300 * kMillisecond;
  ASSERT_TRUE(run_until([&] { return fabric_->clock().now_ns() >= until; }));
  EXPECT_TRUE(call(kEcho, as_byte_span("after the pause")).status.ok());
}

TEST_P(Conformance, Shutdown_WithCallsInFlight) {
  int completed = 0;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(client_->endpoint
                    ->call(session_, kEcho, client_->copy(as_byte_span(bytes_of(200'000))), {},
                           [&](CallResult&&) { ++completed; })
                    .ok());
  }
  for (int i = 0; i < 10; ++i) turn();
  client_.reset();
  EXPECT_EQ(completed, 8);
}

// --- Threads ---------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Mailbox_RunsTasksOnTheOwnersThread) {
  std::atomic<int> ran = 0;
  const auto owner = std::this_thread::get_id();
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      while (!client_->endpoint->post([&] {
        EXPECT_EQ(std::this_thread::get_id(), owner);
        ++ran;
      })) {
        std::this_thread::yield();
      }
    }
  });
  while (ran < 100) turn();
  other.join();
}

TEST_P(Conformance, WrongThread_IsReportedInEveryBuild) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        std::thread other([&] { client_->endpoint->poll(); });
        other.join();
      },
      "used from another thread");
}

/// Where a device is promised (SKUA_CONFORMANCE_REQUIRED names kinds), leaving its tests out is a failure.
TEST(Fabrics, RequiredOnesAreThere) {
  const char* required = std::getenv("SKUA_CONFORMANCE_REQUIRED");  // NOLINT(concurrency-mt-unsafe): one thread yet
  std::istringstream names(required == nullptr ? "" : required);
  for (std::string name; names >> name;) {
    std::string why_not = "no such device, or not built";
    bool there = false;
    for (const FabricKind& kind : all_fabrics()) there = there || (kind.name == name && kind.make(why_not) != nullptr);
    EXPECT_TRUE(there) << name << ": " << why_not;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, ::testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace skua::rpc::conformance
