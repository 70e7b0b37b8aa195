// The asynchronous client without its sockets: operations, routing and retries over an Endpoint and
// a ClusterAccess that are handed in. AsyncClient puts it over TCP and the real control plane; tests
// put it over a simulated network and a scripted cluster.
//
//   get(), put(), ...          poll()
//        |                        |        map inbox --> RouteTable --> dead targets --> Sessions
//        v                        v        endpoint turn: mailbox, replies --> on_result
//     Operation --> dispatch --> call      timers of parked operations --> dispatch, or deadline
//                      |
//                      +--> parked until a map, a session or a time comes
//
// Callbacks run inside poll() (or the destructor, with CANCELLED), never inside a submitting call.
//
// Files: client_core.cc (submission, poll, parking), client_writes.cc and client_batch.cc (submission of writes),
// client_attempts.cc (one attempt and what follows from its end), client_moves.cc (attempts on a node that no longer leads), client_parts.cc with client_multi_get.cc and client_scan.cc (operations of
// several parts), failure_text.cc.
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

/// Thread: the one that made it, or called adopt_thread(); post() and wake() are for any.
class ClientCore final : private SessionHost {
 public:
  /// `transport`, `clock` and `cluster` must outlive it. `options` have passed check_options(). `client_id`: random, not 0,
  /// and of no other client, also not of this one's predecessor; its writes are known by it. `simulation_seed`: see
  /// EndpointOptions.
  ClientCore(rpc::Transport& transport, const Clock& clock, ClusterAccess& cluster, const ClientOptions& options,
             uint64_t client_id, uint64_t simulation_seed = 0);
  /// close().
  ~ClientCore();
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  // As AsyncClient's.
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
  /// Ends what is in flight with CANCELLED and refuses everything from now on. Idempotent.
  void close();
  void adopt_thread() { endpoint_->adopt_thread(); }
  [[nodiscard]] bool post(absl::AnyInvocable<void()>&& task) { return endpoint_->post(std::move(task)); }
  [[nodiscard]] std::shared_ptr<rpc::Mailbox> mailbox() const { return endpoint_->mailbox(); }

  [[nodiscard]] size_t in_flight() const { return in_flight_; }
  [[nodiscard]] const ClientCounters& counters() const { return counters_; }
  [[nodiscard]] const rpc::Endpoint& endpoint() const { return *endpoint_; }
  /// For simulated clocks: when poll() must run next even without traffic.
  [[nodiscard]] TimeNs next_timer_ns();

 private:
  using State = Operation::State;
  using Kind = Operation::Kind;
  using Awaits = Operation::Awaits;

  /// Where the cluster's threads leave the newest map.
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
  /// An operation that was begun and is refused before it was submitted.
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
  /// The shard of all its keys; false: they differ, and the operation failed.
  bool place_batch(Operation& operation, uint32_t shard_count);
  void on_batch_reply(Operation& operation, const rpc::Lease& lease);
  void finish_batch(Operation& operation, BatchResult&& result);

  // client_attempts.cc
  void dispatch(Operation& operation);
  void dispatch_without_table(Operation& operation);
  void spread_read(Operation& operation, const TableRoutes& table, const ShardRoute& route);
  /// A backup did not answer. `at_fault`: it would not answer other reads either.
  void turn_to_primary(Operation& operation, bool at_fault);
  /// False: the operation waits for what its token needs, or failed.
  bool may_read(Operation& operation, const TableRoutes& table, const ShardRoute& route);
  absl::StatusOr<ByteSpan> encode_head(Operation& operation, const Route& route, const RequestId& id, ByteSpan body,
                                       HeadBuffer& buffer);
  rpc::MessagePtr message_of(Operation& operation, ByteSpan head, ByteSpan body);
  void send(Operation& operation, const TableRoutes& table, const ShardRoute& route);
  void on_result(Operation& operation, rpc::CallResult&& result);
  void on_get_reply(Operation& operation, rpc::Lease&& lease);
  void on_write_reply(Operation& operation, const rpc::Lease& lease);
  /// True if the reply is the answer; else it has seen to what follows.
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
  IntrusiveList<Operation, &Operation::call_hook> calls_;  // the oldest first
  TimeNs last_look_ns_ = 0;
  TimeNs next_wake_ns_ = kTimeNever;  // no parked operation is due earlier
  size_t in_flight_ = 0;              // parts not counted
  size_t finished_ = 0;               // callbacks run
  std::vector<std::byte> scratch_;    // a request while it is encoded
  uint32_t submitting_ = 0;           // callbacks must not run now
  bool in_turn_ = false;
  bool closing_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_CORE_H_
