// OperationRunner: brings operations to their end. It routes an operation, sends its request, judges what comes back,
// and repeats until there is an answer or the deadline has passed.
//
//     submit() --> dispatch() --> send() --> on_result() --> the operation's on_reply() --> end(), callback
//                   |    ^                        |
//                   v    |                        v
//                parked: map, session, time  <--- again
//
// Callbacks run inside the endpoint's turns and work_off(), never inside submit(): what fails there is parked until the
// next work_off().
//
// Files:
//   operation_runner.cc      routing, sending, parking, failures
//   operation_replies.cc     what follows from the end of an attempt
//   failure_text.cc          messages of failures
#ifndef SKUA_KVSTORE_CLIENT_OPERATION_RUNNER_H_
#define SKUA_KVSTORE_CLIENT_OPERATION_RUNNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/client/batch_operation.h"
#include "kvstore/client/calls_in_flight.h"
#include "kvstore/client/cluster_access.h"
#include "kvstore/client/get_operation.h"
#include "kvstore/client/multi_get_operation.h"
#include "kvstore/client/operation.h"
#include "kvstore/client/parked_operations.h"
#include "kvstore/client/read_spread.h"
#include "kvstore/client/request_lanes.h"
#include "kvstore/client/retry_policy.h"
#include "kvstore/client/route_table.h"
#include "kvstore/client/scan_operation.h"
#include "kvstore/client/sessions.h"
#include "kvstore/client/types.h"
#include "kvstore/client/write_operation.h"
#include "kvstore/codec/reply.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"

namespace skua::kv {

struct OperationPools {
  OperationPool<GetOperation> gets;
  OperationPool<WriteOperation> writes;
  OperationPool<BatchOperation> batches;
  OperationPool<MultiGetOperation> multi_gets;
  OperationPool<ScanOperation> scans;
  OperationPool<OperationPart> parts;

  // Of the operation that carries a call out.
  [[nodiscard]] OperationPool<GetOperation>& of(const GetCall&) { return gets; }
  [[nodiscard]] OperationPool<GetOperation>& of(const PlainGetCall&) { return gets; }
  [[nodiscard]] OperationPool<WriteOperation>& of(const WriteCall&) { return writes; }
  [[nodiscard]] OperationPool<BatchOperation>& of(const BatchCall&) { return batches; }
  [[nodiscard]] OperationPool<MultiGetOperation>& of(const MultiGetCall&) { return multi_gets; }
  [[nodiscard]] OperationPool<ScanOperation>& of(const ScanCall&) { return scans; }
};

/// Thread: the endpoint's. All constructor arguments must outlive this object.
class OperationRunner {
 public:
  /// `client_id`: 0, or the id that identifies the client's writes.
  OperationRunner(rpc::Endpoint& endpoint, const Clock& clock, ClusterAccess& cluster, OperationPools& pools,
                  ClientCounters& counters, uint64_t client_id, uint64_t seed);

  // --- For ClientCore

  /// `operation` is fresh from its pool; table, deadline and the fields of its verb are set.
  void submit(Operation& operation);
  void take_map(const control::ShardMap& map);
  /// Does what is due by time. To be called after each of the endpoint's turns.
  void work_off();
  /// The time at which work_off() must run next.
  [[nodiscard]] TimeNs next_timer_ns();
  /// Starts sessions with the nodes of the table's shards. OK: all sessions with primaries are open. DEADLINE_EXCEEDED:
  /// what is missing.
  [[nodiscard]] absl::Status readiness(std::string_view table);
  /// Nothing: the table is not in the newest map.
  [[nodiscard]] std::optional<uint32_t> shard_of(std::string_view table, std::string_view key);
  /// Ends all operations with CANCELLED. The endpoint must poll once after that.
  void close();
  /// The endpoint's turn begins or ends: inside a turn, now() is the turn's time.
  void set_in_turn(bool in_turn) { in_turn_ = in_turn; }
  [[nodiscard]] bool has_map() const { return routes_.revision() > 0; }
  [[nodiscard]] TimeNs now() const { return in_turn_ ? endpoint_.now_ns() : clock_.now_ns(); }
  [[nodiscard]] size_t in_flight() const { return in_flight_; }
  /// Callbacks that ran.
  [[nodiscard]] size_t finished() const { return finished_; }

  // --- For operations

  void dispatch(Operation& operation);
  /// True if the reply is the answer. False: the operation was tried again or failed here; the caller must not touch
  /// it.
  [[nodiscard]] bool is_answer(CallOperation& operation, const ReplyHead& head);
  void on_malformed(CallOperation& operation, const absl::Status& why);
  /// The operation has its result, and its callback runs next: forgets the operation.
  void forget(Operation& operation, const Outcome& outcome);
  /// The operation has its result: forgets the operation, and calls `done`.
  template <typename Callback, typename Result>
  void end(Operation& operation, Callback& done, Result&& result) {
    Callback callback = std::move(done);
    forget(operation, result);
    callback(std::forward<Result>(result));
  }
  [[nodiscard]] OperationPools& pools() { return pools_; }
  /// Memory for a request's head. Valid until the next call.
  [[nodiscard]] MutableByteSpan scratch(size_t bytes);
  [[nodiscard]] const absl::Status& not_found() const { return not_found_; }

  // --- For Sessions

  /// A session with the target is open, or one is gone. Sessions::ensure_open() opens a new one: at once or, if the
  /// session had answered nothing, after a pause.
  void session_changed(TargetId target);
  /// An opening failed. The next opening is possible after a pause.
  void session_failed(TargetId target, const absl::Status& why);

 private:
  using Awaits = Operation::Awaits;

  // Routing. route() is on the path of every call, so it is a part of dispatch() for the compiler.
  void dispatch_without_table(Operation& operation);
  [[gnu::always_inline]] inline void route(CallOperation& operation, const TableRoutes& table);
  void spread_read(CallOperation& operation, const TableRoutes& table, const ShardRoute& route);
  /// A backup did not answer the read: sends the read to the primary. `at_fault`: the backup would not answer other
  /// reads either, so it gets a pause.
  void turn_to_primary(CallOperation& operation, bool at_fault);
  /// Checks the read's token. False: the operation waits for a newer map, or it failed.
  bool may_read(GetOperation& operation, const TableRoutes& table, const ShardRoute& route);

  // Sending.
  void send(CallOperation& operation, const TableRoutes& table, const ShardRoute& route);
  /// False: the operation failed.
  bool encode(CallOperation& operation, const TableRoutes& table, const Route& told, HeadBuffer& buffer,
              CallOperation::Request& request);
  rpc::MessagePtr message_of(CallOperation& operation, const CallOperation::Request& request);

  // Parking.
  void park(Operation& operation, Awaits awaits, TimeNs wake_at_ns) { parked_.park(operation, awaits, wake_at_ns); }
  template <typename Predicate>
  void wake_parked(Predicate wanted);
  void resume(Operation& operation);

  // The end of an attempt.
  void on_result(CallOperation& operation, rpc::CallResult&& result);
  void on_given_up(CallOperation& operation, const rpc::CallResult& result);
  void give_up_moved();
  void retry_or_give_up(CallOperation& operation, const Judgement& judgement, const absl::Status& cause);
  void note_attempt(Operation& operation, TimeNs started_ns, const absl::Status& outcome);
  [[nodiscard]] Repeat repeat_of(const Operation& operation) const {
    if (!operation.is_write()) return Repeat::kRead;
    return lanes_.enabled() ? Repeat::kIdentified : Repeat::kUnidentified;
  }

  // Failures.
  /// Why no operation on the table can be routed.
  [[nodiscard]] std::string why_no_table(std::string_view table) const;
  void expire(Operation& operation);
  void fail(Operation& operation, absl::StatusCode code, std::string_view cause, bool may_have_been_applied = false);

  rpc::Endpoint& endpoint_;
  const Clock& clock_;
  ClusterAccess& cluster_;
  OperationPools& pools_;
  ClientCounters& counters_;
  Rng rng_;
  const absl::Status not_found_ = absl::NotFoundError("no such key");
  RouteTable routes_;
  ReadSpread spread_;
  RequestLanes lanes_;
  ParkedOperations parked_;
  CallsInFlight calls_;
  Sessions sessions_;
  size_t in_flight_ = 0;            // without parts
  size_t finished_ = 0;             // callbacks that ran
  std::vector<std::byte> scratch_;  // the request that is being encoded
  uint32_t submitting_ = 0;         // above 0: inside submit(), so callbacks must not run
  bool in_turn_ = false;
  bool closing_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_OPERATION_RUNNER_H_
