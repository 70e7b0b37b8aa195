// What the server's tests share: a ShardServer and a client of it on one simulated network, polled
// by the test's thread, with real engine threads and readers behind, and the log on a simulated disk.
#ifndef SKUA_TESTS_KVSTORE_NODE_SERVER_TESTING_H_
#define SKUA_TESTS_KVSTORE_NODE_SERVER_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kvstore/codec/batch.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/log/log_recovery.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/machine_clock.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "tests/kvstore/log/sim_device.h"
#include "tests/kvstore/shard/engine_world.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::testing {

/// The time of day in servers under test.
inline std::atomic<uint64_t> g_unix_ms{1'000'000};

/// The time of day is g_unix_ms.
class TestClock final : public MachineClock {
 public:
  [[nodiscard]] uint64_t unix_ms() const override { return g_unix_ms; }
  [[nodiscard]] TimeNs boot_ns() const override { return system().boot_ns(); }
};
inline const TestClock kTestClock;

/// What came back of a request: the RPC's status, and the reply's bytes.
struct Answer {
  absl::Status rpc = absl::UnknownError("not answered yet");
  std::string bytes;

  [[nodiscard]] ReplyHead head() const {
    if (!rpc.ok()) {
      ADD_FAILURE() << rpc;
      return {.status = KvStatus::kUnknown};
    }
    // The head reads alike in the replies of all methods, but not what is behind it, nor the flags.
    const auto write = decode_write_reply(as_byte_span(bytes));
    if (write.ok()) return write->head;
    const auto add = decode_add_reply(as_byte_span(bytes));
    if (add.ok()) return add->write.head;
    const auto batch = decode_batch_reply(as_byte_span(bytes));
    if (batch.ok()) return batch->head;
    const auto reply = decode_get_reply(as_byte_span(bytes));
    if (reply.ok()) return reply->head;
    const auto page = decode_scan_reply(as_byte_span(bytes));
    if (page.ok()) return page->head;
    const auto multi = decode_multi_get_reply(as_byte_span(bytes));
    EXPECT_TRUE(multi.ok()) << multi.status();
    return multi.ok() ? multi->head : ReplyHead{.status = KvStatus::kUnknown};
  }
  [[nodiscard]] KvStatus status() const { return head().status; }
  [[nodiscard]] std::string value() const {
    const auto reply = decode_get_reply(as_byte_span(bytes));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? std::string(as_string_view(reply->value)) : std::string();
  }
};

/// Requests as bytes.
[[nodiscard]] inline std::string encoded_get(const Route& route, std::string_view key) {
  HeadBuffer head;
  return std::string(as_string_view(encode_get({route, key}, head).value()));
}
[[nodiscard]] inline std::string encoded_mutation(const MutationRequest& request) {
  HeadBuffer head;
  return std::string(as_string_view(encode_mutation_head(request, head).value()))
      .append(as_string_view(request.mutation.value));
}
[[nodiscard]] inline std::string encoded_put(const Route& route, std::string_view key, std::string_view value,
                                             Condition condition = {}) {
  return encoded_mutation({route, mutations::put(key, as_byte_span(value), condition)});
}
[[nodiscard]] inline std::string encoded_delete(const Route& route, std::string_view key, Condition condition = {}) {
  return encoded_mutation({route, mutations::remove(key, condition)});
}
[[nodiscard]] inline std::string encoded_patch(const Route& route, std::string_view key, std::string_view fields,
                                               bool create) {
  return encoded_mutation({route, mutations::patch(key, as_byte_span(fields), create)});
}
[[nodiscard]] inline std::string encoded_multi_get(const Route& route, const std::vector<std::string_view>& keys) {
  std::vector<std::byte> buffer(multi_get_bytes(keys));
  return std::string(as_string_view(encode_multi_get(route, keys, buffer).value()));
}
[[nodiscard]] inline std::string encoded_scan(const ScanRequest& request) {
  std::vector<std::byte> buffer(scan_bytes(request));
  return std::string(as_string_view(encode_scan(request, buffer).value()));
}

class ServerWorld {
 public:
  explicit ServerWorld(ShardServer::Options options = {}, LogOptions log_options = log_files(4 << 20)) {
    if (options.engine.memory.budget_bytes == MemoryTier::Options{}.budget_bytes ||
        options.engine.memory.budget_bytes == WorkerEngine::Options{}.memory.budget_bytes) {
      options.engine.memory.budget_bytes = 4 * log_options.segment_bytes;
    }
    options.engine.memory.try_huge_pages = false;
    if (options.clock == &MachineClock::system()) options.clock = &kTestClock;
    const rpc::SimTransportOptions transport{.payload_max_bytes = 8192, .rx_ring = 4096};
    client_transport_ = network_.attach(1, identity(1), transport);
    server_transport_ = network_.attach(2, identity(2), transport);
    rpc::EndpointOptions endpoint;
    endpoint.protocol.window = 256;
    endpoint.answers_limit_bytes = 64 << 20;
    client_ = std::make_unique<rpc::Endpoint>(*client_transport_, network_.clock(), endpoint);
    endpoint_ = std::make_unique<rpc::Endpoint>(*server_transport_, network_.clock(), endpoint);
    auto device = std::make_unique<BorrowedDevice>(device_, gate_);
    const auto recovery = LogRecovery::scan(*device, log_options.identity, [](const LogProgress&) {}).value();
    auto log = Log::open(*device, log_options, *recovery).value();
    server_ = ShardServer::create(*endpoint_, readers_, options, {std::move(device), std::move(log)}).value();
    server_->engine().bind_to_this_thread();
    session_ = client_->connect(server_transport_->local_descriptor()).value();
    wait_for([&] { return client_->is_connected(session_); });
  }

  ~ServerWorld() {
    gate_.open();
    bool drained = false;
    server_->drain([&] { drained = true; });
    wait_for([&] { return drained; });
    server_->engine().stop();
    readers_.stop();
    pump();
    client_.reset();
    endpoint_.reset();
  }

  ShardServer& server() { return *server_; }
  rpc::Endpoint& endpoint() { return *endpoint_; }
  /// The log's disk: what holds its writes up, and what breaks it.
  BorrowedDevice::Gate& gate() { return gate_; }
  LockedDevice device() { return {std::unique_lock(gate_.device), &device_}; }

  /// A log whose records have up to a quarter of this.
  static LogOptions log_files(uint64_t segment_bytes) {
    LogOptions options;
    options.segment_bytes = segment_bytes;
    options.group_bytes_max = segment_bytes / 2;
    options.reserve_segments = 1;
    options.spares_at_open = 1;
    return options;
  }

  /// Sends a request; the answer is filled in while pump() or wait_for() runs.
  std::shared_ptr<Answer> send(Method method, std::string_view request, DurationNs timeout_ns = 600 * kSecond) {
    auto answer = std::make_shared<Answer>();
    ++waiting_;
    const auto call =
        client_->call(session_, static_cast<rpc::MethodId>(method), rpc::MessagePtr::copy_of(as_byte_span(request)),
                      {.timeout_ns = timeout_ns}, [this, answer](rpc::CallResult&& result) {
                        --waiting_;
                        answer->rpc = result.status;
                        answer->bytes = as_string_view(result.response.bytes());
                      });
    EXPECT_TRUE(call.ok()) << call.status();
    return answer;
  }

  /// What is sent from now on has slots of its own: those of earlier calls keep their replies.
  void use_another_session() {
    session_ = client_->connect(server_transport_->local_descriptor()).value();
    wait_for([&] { return client_->is_connected(session_); });
  }

  Answer ask(Method method, std::string_view request) {
    const auto answer = send(method, request);
    wait_for_answers();
    return *answer;
  }

  /// The server has been told when this returns.
  void set_time(uint64_t unix_ms) {
    g_unix_ms = unix_ms;
    network_.advance_to(network_.now_ns() + 2 * kMillisecond);
    server_->tick();
  }

  void pass(DurationNs time) { network_.advance_to(network_.now_ns() + time); }

  void wait_for_answers() {
    wait_for([&] { return waiting_ == 0; });
  }

  /// Polls until `condition` holds; gives up, failing the test, after a generous time.
  void wait_for(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > give_up) {
        ADD_FAILURE() << "waited a minute in vain";
        return;
      }
      pump();
    }
  }

  /// While it is stopped, the client takes no answers: the server keeps them.
  void stop_client(bool stopped) { client_stopped_ = stopped; }

  void pump() {
    size_t work = 0;
    if (client_ != nullptr && !client_stopped_) work += client_->poll();
    if (endpoint_ != nullptr) work += endpoint_->poll();
    server_->tick();
    const TimeNs next = network_.next_event_ns();
    if (next != kTimeNever) {
      network_.advance_to(next);
    } else if (work == 0) {
      network_.advance_to(network_.now_ns() + kMicrosecond);
      std::this_thread::yield();  // another thread has the floor
    }
  }

 private:
  static rpc::EndpointIdentity identity(uint8_t number) {
    rpc::EndpointIdentity out;
    out.uuid.bytes[0] = number;
    out.incarnation = 1;
    return out;
  }

  rpc::SimNetwork network_{7};
  std::unique_ptr<rpc::SimTransport> client_transport_;
  std::unique_ptr<rpc::SimTransport> server_transport_;
  sim::SimDevice device_{7, uint64_t{1} << 30};
  BorrowedDevice::Gate gate_;
  ReaderPool readers_{{.threads = 2}};
  std::unique_ptr<ShardServer> server_;  // outlives its endpoint
  std::unique_ptr<rpc::Endpoint> client_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
  rpc::SessionId session_;
  size_t waiting_ = 0;
  bool client_stopped_ = false;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_NODE_SERVER_TESTING_H_
