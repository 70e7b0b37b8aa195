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
#include <optional>
#include <string_view>

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
  absl::Status run(const GetCall& call, GetCallback&& done);
  absl::Status run(const PlainGetCall& call, const GetFunction& done);
  absl::Status run(WriteCall&& call, WriteCallback&& done);
  absl::Status run(const BatchCall& call, BatchCallback&& done);
  absl::Status run(const MultiGetCall& call, MultiGetCallback&& done);
  absl::Status run(const ScanCall& call, ScanCallback&& done);
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

  absl::Status admit(bool has_table, std::chrono::nanoseconds timeout);
  template <typename Kind, typename Call, typename Done>
  absl::Status start(OperationPool<Kind>& pool, Call& call, Done&& done);
  /// start(), as a part of who calls it.
  template <typename Kind, typename Call, typename Done>
  [[gnu::always_inline]] absl::Status start_here(OperationPool<Kind>& pool, Call& call, Done&& done);
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

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_
