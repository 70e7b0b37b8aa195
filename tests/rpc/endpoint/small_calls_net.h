// Two endpoints on a simulated network, and an eye on the wire: which records and packets arrive.
#ifndef SKUA_TESTS_RPC_ENDPOINT_SMALL_CALLS_NET_H_
#define SKUA_TESTS_RPC_ENDPOINT_SMALL_CALLS_NET_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/wire/bundle.h"
#include "rpc/wire/handshake.h"
#include "rpc/wire/packet_header.h"
#include "tests/rpc/wire/bundle_testing.h"

namespace skua::rpc::testing {

inline constexpr MethodId kEcho = 1;
inline constexpr MethodId kHold = 2;  // its requests stay with the server
inline constexpr MethodId kFail = 3;
inline constexpr MethodId kLarge = 4;  // answers 20,000 bytes
inline constexpr MethodId kNobodys = 5;
inline constexpr size_t kLargeBytes = 20'000;

inline EndpointIdentity identity(uint8_t number, uint64_t incarnation = 1) {
  EndpointIdentity out;
  out.uuid.bytes[0] = number;
  out.incarnation = incarnation;
  return out;
}

/// What came of a call.
struct Ended {
  int completions = 0;
  absl::Status status;
  std::string bytes;
  bool from_peer = false;
  bool may_have_executed = false;
  Lease lease;
};

class SmallCallsNet : public ::testing::Test {
 protected:
  SmallCallsNet() {
    network_.set_watch([this](uint32_t from, uint32_t, std::vector<std::byte>& packet) { watch(from, packet); });
    caller_options_.simulation_seed = 3;
    server_options_.simulation_seed = 4;
  }
  ~SmallCallsNet() override {
    held_.clear();
    ended_.clear();
    caller_.reset();
    server_.reset();
  }

  void start() {
    caller_ = std::make_unique<Endpoint>(*caller_transport_, network_.clock(), caller_options_);
    caller_->serve(kEcho, [this](IncomingCall&& call) { echo(*caller_, std::move(call)); });
    start_server();
    session_ = caller_->connect(server_transport_->local_descriptor()).value();
    run([&] { return caller_->is_connected(session_); });
  }
  void start_server() {
    server_ = std::make_unique<Endpoint>(*server_transport_, network_.clock(), server_options_);
    server_->serve(kEcho, [this](IncomingCall&& call) { echo(*server_, std::move(call)); }, {.one_way = true});
    server_->serve(kHold, [this](IncomingCall&& call) {
      ++served_;
      held_.push_back(std::move(call));
    });
    server_->serve(kFail, [this](IncomingCall&& call) {
      ++served_;
      call.reply.fail(absl::AlreadyExistsError("on purpose"));
    });
    server_->serve(kLarge, [this](IncomingCall&& call) {
      ++served_;
      call.reply.reply(MessagePtr::copy_of(as_byte_span(std::string(kLargeBytes, 'l'))));
    });
  }
  void echo(Endpoint&, IncomingCall&& call) {
    ++served_;
    last_caller_ = call.session;
    if (!call.one_way) answer(call.reply, call.request.bytes());
  }
  /// The session has joined, and has its sslots.
  void join() {
    start();
    run_until_joined();
    EXPECT_TRUE(echoes("first"));
    packets_.clear();
    records_.clear();
    served_ = 0;
  }

  void run(const std::function<bool()>& condition, DurationNs limit_ns = 60 * kSecond) {
    const TimeNs limit = network_.now_ns() + limit_ns;
    while (!condition() && network_.now_ns() < limit) pump();
    EXPECT_TRUE(condition());
  }
  void run_until_joined() {
    run([&] { return joined_ > 0; });
    run_for(10 * kMicrosecond);  // it has arrived, and is heard now
  }
  void run_for(DurationNs time_ns) {
    const TimeNs until = network_.now_ns() + time_ns;
    while (network_.now_ns() < until) pump(until);
  }
  void pump(TimeNs until = kTimeNever) {
    for (Endpoint* endpoint : {caller_.get(), server_.get()}) {
      if (endpoint != nullptr) endpoint->poll();
    }
    TimeNs next = std::min(until, network_.next_event_ns());
    for (const Endpoint* endpoint : {caller_.get(), server_.get()}) {
      if (endpoint != nullptr) next = std::min(next, endpoint->next_timer_ns());
    }
    network_.advance_to(std::max(next == kTimeNever ? network_.now_ns() + kMillisecond : next, network_.now_ns()));
  }

  void watch(uint32_t from, std::vector<std::byte>& packet) {
    if (!is_bundle(packet.data())) {
      packets_.push_back(decode_header(packet).header.type);
      return;
    }
    BundleHead head;
    DropReason why{};
    ASSERT_TRUE(open_bundle(packet, false, head, why));
    if (from == kServerAddress) to_caller_ = head;
    bool is_lost = loses_bundles_ || (loses_answers_ && from == kServerAddress);
    for (const Record& record : read_records_by_hand(packet, head.records).records) {
      if (record.head.kind == RecordKind::kJoin) ++joins_;
      if (is_lost) continue;
      if (record.head.kind == RecordKind::kJoined) ++joined_;
      records_.push_back(record);
    }
    if (is_lost) packet.back() ^= std::byte{1};
  }
  [[nodiscard]] size_t records(RecordKind kind) const {
    return static_cast<size_t>(
        std::count_if(records_.begin(), records_.end(), [&](const auto& one) { return one.head.kind == kind; }));
  }
  [[nodiscard]] size_t packets(PacketType type) const {
    return static_cast<size_t>(std::count(packets_.begin(), packets_.end(), type));
  }
  static uint64_t drops(const Endpoint& endpoint, DropReason reason) {
    return endpoint.counters().drops[static_cast<size_t>(reason)];
  }

  Ended& call(MethodId method, std::string_view text, const CallOptions& options = {.timeout_ns = 5 * kSecond}) {
    Ended& ended = ended_.emplace_back();
    CompletionFn completion = [&ended](CallResult&& result) {
      ++ended.completions;
      ended.status = result.status;
      ended.bytes = as_string_view(result.response.bytes());
      ended.from_peer = result.from_peer;
      ended.may_have_executed = result.may_have_executed;
      ended.lease = std::move(result.response);
    };
    const ByteSpan bytes = as_byte_span(text);
    const absl::StatusOr<CallId> id =
        as_bytes() ? caller_->call(session_, method, bytes, options, std::move(completion))
                   : caller_->call(session_, method, MessagePtr::copy_of(bytes), options, std::move(completion));
    if (id.ok()) {
      last_id_ = *id;
    } else {
      ended.status = id.status();
    }
    return ended;
  }
  /// Every other message is given as bytes.
  bool as_bytes() { return std::exchange(as_bytes_, !as_bytes_); }
  void answer(ReplyToken& reply, ByteSpan bytes) {
    as_bytes() ? reply.reply(bytes) : reply.reply(MessagePtr::copy_of(bytes));
  }
  bool echoes(std::string_view text) {
    Ended& ended = call(kEcho, text);
    run([&] { return ended.completions > 0; });
    ended.lease.reset();
    return ended.status.ok() && ended.bytes == text;
  }
  /// Past the endpoint of `from`.
  void send(SimTransport& from, const SimTransport& to, std::string_view bundle) {
    TxFrame frame = from.take_frame(from.resolve(to.local_descriptor()).value());
    ASSERT_NE(frame.bytes, nullptr);
    std::copy_n(as_byte_span(bundle).data(), bundle.size(), frame.bytes);
    frame.size = static_cast<uint32_t>(bundle.size());
    from.send_frames({&frame, 1});
    run_for(50 * kMicrosecond);
  }
  void answer_held(std::string_view text = "late") {
    while (!held_.empty()) {
      answer(held_.front().reply, as_byte_span(text));
      held_.pop_front();
    }
  }
  void expect_rest() {
    run_for(100 * kMillisecond);
    for (Ended& ended : ended_) ended.lease.reset();
    run_for(kMillisecond);
    for (const Endpoint* endpoint : {caller_.get(), server_.get()}) {
      const Endpoint::Balance balance = endpoint->balance();
      EXPECT_EQ(balance.calls, 0u);
      EXPECT_EQ(balance.handlers, 0u);
      EXPECT_EQ(balance.lent_buffers, 0u);
      EXPECT_EQ(balance.pool_buffers, 0u);
      EXPECT_EQ(balance.messages, 0u);
      EXPECT_EQ(balance.credits_missing, 0u);
    }
    EXPECT_EQ(network_.violations().bad_release, 0u);
  }

  static constexpr uint32_t kCallerAddress = 1;
  static constexpr uint32_t kServerAddress = 2;

  SimNetwork network_{11};
  std::unique_ptr<SimTransport> caller_transport_ = network_.attach(kCallerAddress, identity(1), {});
  std::unique_ptr<SimTransport> server_transport_ = network_.attach(kServerAddress, identity(2), {});
  EndpointOptions caller_options_;
  EndpointOptions server_options_;
  std::unique_ptr<Endpoint> caller_;
  std::unique_ptr<Endpoint> server_;
  SessionId session_;
  SessionId last_caller_;
  CallId last_id_;
  bool as_bytes_ = false;
  std::deque<Ended> ended_;
  std::deque<IncomingCall> held_;
  int served_ = 0;
  // On the wire.
  bool loses_bundles_ = false;
  bool loses_answers_ = false;
  int joins_ = 0;
  int joined_ = 0;
  std::vector<Record> records_;
  std::vector<PacketType> packets_;
  BundleHead to_caller_;  // the last one's
};

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_ENDPOINT_SMALL_CALLS_NET_H_
