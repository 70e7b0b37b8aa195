// ClientCore: the asynchronous client without sockets and gRPC. It has operations, routing and retries over a transport
// and a ClusterAccess that are handed in. AsyncClient gives it TCP (or another transport) and the real control plane;
// tests give it a simulated network and a scripted cluster.
//
//   get(), put(), ...          poll()
//        |                        |        map inbox --> RouteTable --> dead targets --> Sessions
//        v                        v        endpoint turn: mailbox, replies --> on_result
//     Operation --> dispatch --> call      timers of parked operations --> dispatch, or deadline
//                      |
//                      +--> parked until there is a newer map or a session, or until a time
//
// Callbacks run inside poll() (or the destructor, with CANCELLED), never inside a submitting call.
//
// Files:
//   client_core.cc                          submission, poll, parking
//   client_writes.cc, client_batch.cc       submission of writes; a BATCH's reply
//   client_attempts.cc                      one attempt, and what follows from its end
//   client_moves.cc                         attempts on a node that no longer leads the shard
//   client_parts.cc, client_multi_get.cc,   operations of several parts
//     client_scan.cc
//   failure_text.cc                         messages of failures
#ifndef SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_
#define SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/cluster_access.h"
#include "kvstore/client/operation.h"
#include "kvstore/client/read_spread.h"
#include "kvstore/client/request_lanes.h"
#include "kvstore/client/retry_policy.h"
#include "kvstore/client/route_table.h"
#include "kvstore/client/sessions.h"
#include "kvstore/client/types.h"
#include "kvstore/codec/reply.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Thread: the one that made it, or the last that called adopt_thread(). post() and mailbox() may be called on any
/// thread.
class ClientCore final : private SessionHost {
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
  absl::Status warm_up(std::string_view table, DurationNs timeout_ns);
  absl::Status get(std::string_view table, std::string_view key, const ReadOptions& options, GetCallback&& done);
  absl::Status put(std::string_view table, std::string_view key, PutValue&& value, const WriteOptions& options,
                   WriteCallback&& done);
  absl::Status remove(std::string_view table, std::string_view key, const WriteOptions& options, WriteCallback&& done);
  absl::Status patch(std::string_view table, std::string_view key, std::span<const FieldUpdate> fields,
                     const PatchOptions& options, WriteCallback&& done);
  absl::Status add(std::string_view table, std::string_view key, int64_t delta, const WriteOptions& options,
                   WriteCallback&& done);
  absl::Status append(std::string_view table, std::string_view key, PutValue&& bytes, const WriteOptions& options,
                      WriteCallback&& done);
  absl::Status expire(std::string_view table, std::string_view key, std::chrono::nanoseconds ttl,
                      const WriteOptions& options, WriteCallback&& done);
  absl::Status batch(std::string_view table, const Batch& batch, const BatchOptions& options, BatchCallback&& done);
  absl::Status multi_get(std::string_view table, std::span<const std::string_view> keys, const ReadOptions& options,
                         MultiGetCallback&& done);
  absl::Status scan(std::string_view table, const ScanRange& range, const ReadOptions& options, ScanCallback&& done);
  size_t poll(DurationNs max_wait_ns);
  /// Ends all operations in flight with CANCELLED, and refuses new ones from now on. Idempotent.
  void close();
  void adopt_thread() { endpoint_->adopt_thread(); }
  [[nodiscard]] bool post(absl::AnyInvocable<void()>&& task) { return endpoint_->post(std::move(task)); }
  [[nodiscard]] std::shared_ptr<rpc::Mailbox> mailbox() const { return endpoint_->mailbox(); }

  [[nodiscard]] size_t in_flight() const { return in_flight_; }
  [[nodiscard]] const ClientCounters& counters() const { return counters_; }
  [[nodiscard]] const rpc::Endpoint& endpoint() const { return *endpoint_; }
  /// For simulated clocks: the time at which poll() must run next, even without traffic.
  [[nodiscard]] TimeNs next_timer_ns();

 private:
  using State = Operation::State;
  using Kind = Operation::Kind;
  using Awaits = Operation::Awaits;

  /// ClusterAccess's threads put the newest map here; poll() takes it out.
  struct MapInbox {
    std::mutex mutex;
    std::shared_ptr<const control::ShardMap> newest;
    std::atomic<bool> fresh{false};
  };

  // SessionHost.
  void session_ready(TargetId target) override;
  void session_failed(TargetId target, const absl::Status& why) override;
  void session_lost(TargetId target) override;

  // client_core.cc
  [[nodiscard]] TimeNs now() const { return in_turn_ ? endpoint_->now_ns() : clock_.now_ns(); }
  absl::Status admit(std::string_view table, std::chrono::nanoseconds timeout);
  Operation& begin(Method method, std::string_view table, std::string_view key, std::chrono::nanoseconds timeout);
  absl::Status submit(Operation& operation);
  /// Takes back begin(), for an operation that is refused before it was submitted.
  void take_back(Operation& operation);
  void take_map();
  [[nodiscard]] absl::Status readiness(std::string_view table);
  void park(Operation& operation, Awaits awaits, TimeNs wake_at_ns);
  template <typename Predicate>
  void wake_parked(Predicate wanted);
  void resume(Operation& operation);

  // client_writes.cc
  absl::StatusOr<Operation*> begin_write(Method method, std::string_view table, std::string_view key,
                                         const WriteOptions& options);
  absl::StatusOr<Operation*> begin_value(Method method, std::string_view table, std::string_view key, PutValue&& value,
                                         const WriteOptions& options);

  // client_batch.cc
  /// Sets the operation's shard, the one of all its keys. False: the keys are in different shards, and the operation
  /// failed.
  bool place_batch(Operation& operation, uint32_t shard_count);
  void on_batch_reply(Operation& operation, const rpc::Lease& lease);
  void finish_batch(Operation& operation, BatchResult&& result);

  // client_attempts.cc
  void dispatch(Operation& operation);
  void dispatch_without_table(Operation& operation);
  void spread_read(Operation& operation, const TableRoutes& table, const ShardRoute& route);
  /// A backup did not answer the read: sends the read to the primary. `at_fault`: the backup would not answer other
  /// reads either, so it gets a pause.
  void turn_to_primary(Operation& operation, bool at_fault);
  /// Checks the read's token. False: the operation waits for a newer map, or it failed.
  bool may_read(Operation& operation, const TableRoutes& table, const ShardRoute& route);
  absl::StatusOr<ByteSpan> encode_head(Operation& operation, const Route& route, const RequestId& id, ByteSpan body,
                                       HeadBuffer& buffer);
  rpc::MessagePtr message_of(Operation& operation, ByteSpan head, ByteSpan body);
  void send(Operation& operation, const TableRoutes& table, const ShardRoute& route);
  void on_result(Operation& operation, rpc::CallResult&& result);
  void on_get_reply(Operation& operation, rpc::Lease&& lease);
  void on_write_reply(Operation& operation, const rpc::Lease& lease);
  /// True if the reply is the answer. False: the operation was tried again or failed here; the caller must not touch
  /// it.
  bool judge(Operation& operation, const ReplyHead& head);
  void on_malformed(Operation& operation, const absl::Status& why);
  void retry_or_give_up(Operation& operation, const Judgement& judgement, const absl::Status& cause);
  void note_attempt(Operation& operation, TimeNs started_ns, const absl::Status& outcome);
  [[nodiscard]] Repeat repeat_of(const Operation& operation) const {
    if (!operation.is_write()) return Repeat::kRead;
    return lanes_.enabled() ? Repeat::kIdentified : Repeat::kUnidentified;
  }
  /// Why no operation on the table can be routed.
  [[nodiscard]] std::string why_no_table(std::string_view table) const;
  void expire(Operation& operation);
  void fail(Operation& operation, absl::StatusCode code, std::string_view cause, bool may_have_been_applied);
  void finish_get(Operation& operation, GetResult&& result);
  void finish_write(Operation& operation, WriteResult&& result);
  void finish(Operation& operation, Outcome&& outcome);
  void end(Operation& operation, const Outcome& outcome);

  // client_moves.cc
  [[nodiscard]] bool has_moved(const Operation& operation);
  void give_up_moved();
  void on_given_up(Operation& operation, const rpc::CallResult& result);
  [[nodiscard]] TimeNs next_look_ns();
  void look_for_a_map();

  // client_parts.cc
  Operation& begin_part(Operation& parent, Kind kind, Method method, uint32_t shard);
  void run_parent(Operation& parent);
  void part_ended(Operation& part);
  void part_failed(Operation& part, Outcome&& outcome);

  // client_multi_get.cc
  void start_multi_get(Operation& parent, const TableRoutes& table);
  bool start_multi_get_part(Operation& parent);
  absl::StatusOr<ByteSpan> encode_multi_get_part(const Operation& part, const Route& route);
  void on_multi_get_reply(Operation& part, rpc::Lease&& lease);
  void on_lone_value(Operation& part, GetResult&& result);
  void fail_keys(const Operation& part, const absl::Status& status);
  void finish_multi_get(Operation& parent, Outcome&& outcome);

  // client_scan.cc
  void start_scan(Operation& parent, const TableRoutes& table);
  bool start_scan_page(Operation& parent);
  absl::StatusOr<ByteSpan> encode_scan_page(const Operation& part, const Route& route);
  void on_scan_reply(Operation& part, rpc::Lease&& lease);
  void finish_scan(Operation& parent, Outcome&& outcome);

  const Clock& clock_;
  ClusterAccess& cluster_;
  const ClientOptions options_;
  ClientCounters counters_;
  Rng rng_;
  const absl::Status not_found_ = absl::NotFoundError("no such key");
  const std::shared_ptr<MapInbox> inbox_ = std::make_shared<MapInbox>();
  RouteTable routes_;
  ReadSpread spread_;
  RequestLanes lanes_;
  OperationPool pool_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
  std::unique_ptr<Sessions> sessions_;
  IntrusiveList<Operation, &Operation::parked_hook> parked_;
  IntrusiveList<Operation, &Operation::call_hook> calls_;  // operations with a call in flight, the oldest first
  TimeNs last_look_ns_ = 0;
  TimeNs next_wake_ns_ = kTimeNever;  // no parked operation is due earlier
  size_t in_flight_ = 0;              // without parts
  size_t finished_ = 0;               // callbacks that ran
  std::vector<std::byte> scratch_;    // the request that is being encoded
  uint32_t submitting_ = 0;           // above 0: inside a submitting call, so callbacks must not run
  bool in_turn_ = false;
  bool closing_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_
