// ClientCore: the asynchronous client without sockets and gRPC. It has operations, routing and retries over a transport
// and a ClusterAccess that are handed in. AsyncClient gives it TCP (or another transport) and the real control plane;
// tests give it a simulated network and a scripted cluster.
//
//   get(), put(), ...          poll()
//        |                        |
//        v                        v
//     an operation of      map inbox       --> routes, dead sessions, operations that wait for a map
//     its family, from     endpoint's turn --> mailbox, replies --> callbacks
//     its pool             timers          --> operations that wait for a time, deadlines
//        |                        |
//        +---> OperationRunner <--+
//
// Callbacks run inside poll() (or the destructor, with CANCELLED), never inside a submitting call.
#ifndef SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_
#define SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/cluster_access.h"
#include "kvstore/client/operation_runner.h"
#include "kvstore/client/types.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Thread: the one that made it, or the last that called adopt_thread(). post() and mailbox() may be called on any
/// thread.
class ClientCore final : public ClientCalls<ClientCore> {
 public:
  /// `transport`, `clock` and `cluster` must outlive the core. `options` have passed check_options(). `client_id`
  /// identifies the client's writes: random, not 0, and different from that of every other client, also from that of
  /// this client before a restart. `simulation_seed`: see EndpointOptions.
  ClientCore(rpc::Transport& transport, const Clock& clock, ClusterAccess& cluster, const ClientOptions& options,
             uint64_t client_id, uint64_t simulation_seed = 0);
  /// Calls close().
  ~ClientCore();
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  // As in AsyncClient.
  template <typename Call, typename Done>
  absl::Status run(Call&& call, Done&& done);
  absl::Status warm_up(std::string_view table, DurationNs timeout_ns);
  [[nodiscard]] std::optional<uint32_t> shard_of(std::string_view table, std::string_view key) {
    return runner_.shard_of(table, key);
  }
  size_t poll(DurationNs max_wait_ns);
  [[nodiscard]] int wait_fd() const { return endpoint_.wait_fd(); }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> begin_wait();
  void end_wait();
  /// Ends all operations in flight with CANCELLED, and refuses new ones from now on. Idempotent.
  void close();
  void adopt_thread() { endpoint_.adopt_thread(); }
  [[nodiscard]] bool post(absl::AnyInvocable<void()>&& task) { return endpoint_.post(std::move(task)); }
  [[nodiscard]] std::shared_ptr<rpc::Mailbox> mailbox() const { return endpoint_.mailbox(); }

  [[nodiscard]] size_t in_flight() const { return runner_.in_flight(); }
  [[nodiscard]] const ClientCounters& counters() const { return counters_; }
  [[nodiscard]] const rpc::Endpoint& endpoint() const { return endpoint_; }
  /// For simulated clocks: the time at which poll() must run next, even without traffic.
  [[nodiscard]] TimeNs next_timer_ns();

 private:
  /// ClusterAccess's threads put the newest map here; poll() takes it out.
  struct MapInbox {
    std::mutex mutex;
    std::shared_ptr<const control::ShardMap> newest;
    std::atomic<bool> fresh{false};
  };

  static bool has_name(std::string_view table) { return !table.empty(); }
  static bool has_name(const char* table) { return *table != '\0'; }
  absl::Status admit(bool has_table, std::chrono::nanoseconds timeout);
  void take_map();

  const Clock& clock_;
  ClusterAccess& cluster_;
  const ClientOptions options_;
  ClientCounters counters_;
  const std::shared_ptr<MapInbox> inbox_ = std::make_shared<MapInbox>();
  OperationPools pools_;  // outlives the endpoint's messages, which hold operations
  rpc::Endpoint endpoint_;
  OperationRunner runner_;
  bool closing_ = false;
  size_t polled_ = 0;     // by the endpoint's latest poll
  bool waiting_ = false;  // between begin_wait() and end_wait()
};

template <typename Call, typename Done>
absl::Status ClientCore::run(Call&& call, Done&& done) {
  const auto table = call.table;
  const std::chrono::nanoseconds timeout = call.options.timeout;
  if (absl::Status refusal = admit(has_name(table), timeout); !refusal.ok()) return refusal;
  auto& pool = pools_.of(call);
  std::remove_reference_t<decltype(pool.take())>* taken = nullptr;
  absl::Status status;
  // Here the operation's bytes are copied. There may be no memory for them, and nothing is under way yet.
  try {
    taken = &pool.take();
    status = taken->accept(call, std::forward<Done>(done));
    if (status.ok()) taken->set_table(table);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("no memory for the operation");
  }
  if (!status.ok()) {
    if (taken != nullptr) taken->drop();
    return status;
  }
  Operation& operation = *taken;
  operation.started_ns = runner_.now();
  operation.deadline_ns = operation.started_ns + (timeout.count() == 0 ? options_.timeout : timeout).count();
  runner_.submit(operation);
  return absl::OkStatus();
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_
