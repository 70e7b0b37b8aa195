// Sessions over verbs while their queue pairs fail under them. Runs where verbs_device_test.cc does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"
#include "rpc/memory/arena.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_transport.h"

namespace skua::rpc::verbs {
namespace {

constexpr MethodId kEcho = 1;
constexpr DurationNs kPatience = 60 * kSecond;
constexpr size_t kBodyBytes = 40'000;
constexpr uint32_t kOutstanding = 8;
constexpr int kFaults = 20;

EndpointIdentity identity_of(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes = {0x10, 0xad, number};
  out.incarnation = 1;
  return out;
}

struct Host {
  std::unique_ptr<Transport> transport;
  Arena arena;
  MutableByteSpan body;
  Endpoint endpoint;

  Host(VerbsFabric& fabric, uint8_t number, const Clock& clock)
      : transport(fabric.make_transport(identity_of(number)).value()),
        arena({.on_map = [this](MutableByteSpan region) { return transport->register_region(region); },
               .on_unmap = [this](MutableByteSpan region) { transport->unregister_region(region); }}),
        body(arena.map(kBodyBytes).value().first(kBodyBytes)),
        endpoint(*transport, clock, options()) {
    for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<std::byte>(mix64(i));
  }

  static EndpointOptions options() {
    EndpointOptions options;
    // Emulated devices queue longer than real ones.
    options.protocol.congestion = CongestionControl::kNone;
    return options;
  }
  MessagePtr message(size_t bytes) {
    MessagePtr out = endpoint.make_message();
    EXPECT_TRUE(out->add_body(ByteSpan(body).first(bytes), nullptr, nullptr));
    return out;
  }
  VerbsTransport& wire() { return dynamic_cast<VerbsTransport&>(*transport); }
};

class VerbsLoad : public testing::Test {
 protected:
  /// Of one process or of two, which share a queue pair for READs.
  explicit VerbsLoad(bool two_processes = false)
      : fabric_(VerbsFabric::start({}).value()),
        other_fabric_(two_processes ? VerbsFabric::start({}).value() : nullptr),
        server_(two_processes ? *other_fabric_ : *fabric_, 1, clock_),
        client_(*fabric_, 2, clock_) {
    server_.endpoint.serve(
        kEcho, [this](IncomingCall&& call) { call.reply.reply(server_.message(call.request.bytes().size())); });
    session_ = client_.endpoint.connect(server_.endpoint.local_descriptor()).value();
  }

  void start(size_t bytes) {
    ++started_;
    const auto call = client_.endpoint.call(
        session_, kEcho, client_.message(bytes), {.timeout_ns = kPatience}, [this, bytes](CallResult&& result) {
          ++completed_;
          if (!result.status.ok()) return;
          ++succeeded_;
          EXPECT_EQ(result.response.bytes().size(), bytes);
          EXPECT_TRUE(std::ranges::equal(result.response.bytes(), ByteSpan(client_.body).first(bytes)));
        });
    ASSERT_TRUE(call.ok()) << call.status();
  }

  void keep_going() {
    while (started_ - completed_ < kOutstanding) start(started_ % 3 == 0 ? kBodyBytes : 100);
    client_.endpoint.poll();
    server_.endpoint.poll();
  }
  bool until_completed(uint64_t count) {
    const TimeNs limit = clock_.now_ns() + kPatience;
    while (completed_ < count && clock_.now_ns() < limit) keep_going();
    return completed_ >= count;
  }

  void fail_connected_queues();
  void expect_nothing_left() {
    // Nothing is left behind: neither calls nor buffers.
    const TimeNs limit = clock_.now_ns() + kPatience;
    const auto at_rest = [](Host& host) {
      const Endpoint::Balance b = host.endpoint.balance();
      return b.calls + b.handlers + b.lent_buffers + b.pool_buffers + b.messages + b.credits_missing == 0;
    };
    while ((completed_ < started_ || !at_rest(client_) || !at_rest(server_)) && clock_.now_ns() < limit) {
      client_.endpoint.poll();
      server_.endpoint.poll();
    }
    EXPECT_EQ(completed_, started_);
    EXPECT_TRUE(at_rest(client_) && at_rest(server_));
    for (Host* host : {&client_, &server_}) {
      const UdQueue& queue = host->wire().queue();
      EXPECT_EQ(queue.posted_buffers() + queue.free_buffers(), queue.buffer_count());
    }
    for (Host* host : {&client_, &server_}) EXPECT_EQ(host->wire().connections()->operations_in_flight(), 0u);
  }

  const SteadyClock clock_;
  const std::unique_ptr<VerbsFabric> fabric_;
  const std::unique_ptr<VerbsFabric> other_fabric_;
  Host server_;
  Host client_;
  SessionId session_;
  uint64_t started_ = 0;
  uint64_t completed_ = 0;
  uint64_t succeeded_ = 0;
};

TEST_F(VerbsLoad, QueuesFailUnderLoad_SessionsGoOnAndEveryCallCompletes) {
  ASSERT_TRUE(until_completed(50));
  ASSERT_EQ(succeeded_, completed_);
  Rng rng(4);
  DurationNs longest_ns = 0;
  for (int fault = 0; fault < kFaults; ++fault) {
    for (uint64_t turns = rng.below(300); turns > 0; --turns) keep_going();
    const TimeNs failed_at = clock_.now_ns();
    const uint64_t which = rng.between(1, 3);
    if ((which & 1) != 0) client_.wire().fail_queue_for_test();
    if ((which & 2) != 0) server_.wire().fail_queue_for_test();
    // All that were in flight, and as many begun later.
    ASSERT_TRUE(until_completed(started_ + kOutstanding)) << "after fault " << fault;
    longest_ns = std::max(longest_ns, clock_.now_ns() - failed_at);
  }
  std::printf("%d faults, %llu calls; from a fault to %u calls more: at most %lld ms\n", kFaults,
              static_cast<unsigned long long>(completed_), 2 * kOutstanding,
              static_cast<long long>(longest_ns / kMillisecond));
  EXPECT_EQ(succeeded_, completed_) << "sessions survive, so no call has a reason to fail";
  EXPECT_GE(client_.wire().stats().restarts + server_.wire().stats().restarts, uint64_t{kFaults});

  expect_nothing_left();
}

void VerbsLoad::fail_connected_queues() {
  // READs have begun on both sides.
  const TimeNs limit = clock_.now_ns() + kPatience;
  while ((client_.endpoint.counters().rx_read_bytes == 0 || server_.endpoint.counters().rx_read_bytes == 0) &&
         clock_.now_ns() < limit) {
    keep_going();
  }
  ASSERT_GT(server_.endpoint.counters().rx_read_bytes, 0u);
  Rng rng(5);
  DurationNs longest_ns = 0;
  for (int fault = 0; fault < kFaults; ++fault) {
    for (uint64_t turns = rng.below(300); turns > 0; --turns) keep_going();
    const TimeNs failed_at = clock_.now_ns();
    const uint64_t which = rng.between(1, 3);
    // Each knows one peer.
    if ((which & 1) != 0) client_.wire().connections()->fail_for_test(0);
    if ((which & 2) != 0) server_.wire().connections()->fail_for_test(0);
    ASSERT_TRUE(until_completed(started_ + kOutstanding)) << "after fault " << fault;
    longest_ns = std::max(longest_ns, clock_.now_ns() - failed_at);
  }
  std::printf(
      "%d faults of connected queue pairs, %llu calls, %llu bytes by READ, %llu messages in packets after all; "
      "from a fault to %u calls more: at most %lld ms\n",
      kFaults, static_cast<unsigned long long>(completed_),
      static_cast<unsigned long long>(client_.endpoint.counters().rx_read_bytes),
      static_cast<unsigned long long>(client_.endpoint.counters().reads_failed), 2 * kOutstanding,
      static_cast<long long>(longest_ns / kMillisecond));
  EXPECT_EQ(succeeded_, completed_) << "sessions survive, so no call has a reason to fail";
  EXPECT_GT(client_.wire().connections()->stats().broken, 0u);
  EXPECT_EQ(client_.wire().stats().restarts + server_.wire().stats().restarts, 0u) << "datagrams are not disturbed";
  expect_nothing_left();
}

TEST_F(VerbsLoad, ConnectedQueuesFailUnderLoad_SessionsGoOnAndEveryCallCompletes) {
  fail_connected_queues();
}

class VerbsSharedLoad : public VerbsLoad {
 protected:
  VerbsSharedLoad() : VerbsLoad(true) {}
};

TEST_F(VerbsSharedLoad, SharedQueuePairsFailUnderLoad_SessionsGoOnAndEveryCallCompletes) {
  fail_connected_queues();
  EXPECT_EQ(client_.wire().connections()->queue_pairs(), 0u) << "messages went by shared ones";
}

}  // namespace
}  // namespace skua::rpc::verbs
