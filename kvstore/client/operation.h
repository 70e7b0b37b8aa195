// Operation: one operation of a client, from acceptance to callback. Each family of verbs has a class of its own:
//
//   Operation                  what all have: table, deadline, failed attempts
//     CallOperation            asks one shard, by one call at a time
//       GetOperation             GET
//       NumberedOperation        writes: their requests carry a number, so that they take effect once
//         WriteOperation           PUT, DELETE, PATCH, ADD, APPEND, EXPIRE
//         BatchOperation           BATCH
//       OperationPart            parts of the two below
//     PartedOperation          asks several shards: has parts, which run like operations of their own
//       MultiGetOperation        MULTI_GET
//       ScanOperation            SCAN
//
// A class says how its request is encoded, what a reply means, and how the application gets the result. OperationRunner
// does the rest: it routes, sends, waits and repeats.
//
//             submit                       session, map            CallResult
//   free -----------> (dispatch) --------------------> in flight ------------> answer, or again:
//                         |   ^                                                    |
//                         v   | map, session, time                                 |
//                        parked <--------------------------------------------------+
//
// Holds are counted (hold(), drop()): one while the operation runs, and one for each message that sends bytes from the
// operation's memory. An operation is recycled when the last hold is dropped. So memory that a transport may still read
// is never reused for another operation.
#ifndef SKUA_KVSTORE_CLIENT_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_OPERATION_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/client/key_text.h"
#include "kvstore/client/route_table.h"
#include "kvstore/client/types.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/types/features.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/endpoint.h"

namespace skua::kv {

class OperationRunner;

/// Thread: the client's, for this class and those derived from it.
class Operation {
 public:
  /// What ends a parked operation's wait, besides wake_at_ns.
  enum class Awaits : uint8_t { kTime, kMap, kSession, kCallback };

  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// The operation failed: gives the application a result with this outcome.
  virtual void finish(Outcome&& outcome) = 0;
  /// The key for messages. Empty: the operation has several keys.
  [[nodiscard]] virtual std::string_view shown_key() const { return {}; }

  [[nodiscard]] bool is_write() const {
    return method != Method::kGet && method != Method::kMultiGet && method != Method::kScan;
  }
  void set_table(std::string_view name) {
    if (table == name) return;
    change_table(name);
  }
  /// For names that end with a zero. No name that the client is ever given may have a zero inside.
  void set_table(const char* name) {
    if (std::strcmp(table.c_str(), name) == 0) return;
    change_table(name);
  }

  void hold() { ++uses; }
  void drop() {
    if (--uses > 0) return;
    reset();
    pool->push_back(this);
  }

  ListHook parked_hook;
  Awaits awaits = Awaits::kTime;
  Method method = Method::kGet;
  bool is_parted = false;   // a PartedOperation, or else a CallOperation
  bool is_part = false;     // of a PartedOperation
  uint32_t part_table = 0;  // if is_part: id of the table that the operation was divided for
  /// Writes: an earlier attempt may have been executed.
  bool uncertain = false;
  uint32_t uses = 0;
  std::vector<Operation*>* pool = nullptr;
  OperationRunner* runner = nullptr;

  std::string table;
  /// The table's routes. Valid only while RouteTable has the revision `routes_revision`; 0: not looked up yet.
  const TableRoutes* routes = nullptr;
  uint64_t routes_revision = 0;
  uint32_t shard = 0;
  bool shard_known = false;
  TargetId target = kNoTarget;

  TimeNs started_ns = 0;
  TimeNs deadline_ns = 0;
  TimeNs wake_at_ns = kTimeNever;  // while parked

  /// The first and the latest failed attempts (kTrailFirstMax, kTrailLatestMax). failed_attempts counts all.
  std::vector<Attempt> trail;
  uint32_t failed_attempts = 0;
  /// Awaits::kCallback: the outcome that the next poll() hands to the callback. Parted operations: the first failure of
  /// a part.
  Outcome failure;

 protected:
  Operation() = default;
  void change_table(std::string_view name);
  /// The last hold was dropped: gives back memory of others, and sets fields back for the next use.
  virtual void reset();
};

/// An operation that asks one shard, by one call at a time.
class CallOperation : public Operation {
 public:
  struct Request {
    ByteSpan head;
    /// Follows the head. Sent from the operation's memory.
    ByteSpan body = {};
  };

  /// The request of the next attempt. The head is in `buffer` or in the runner's scratch memory. Errors: the operation
  /// fails with them.
  [[nodiscard]] virtual absl::StatusOr<Request> encode(const Route& route, HeadBuffer& buffer) = 0;
  /// The node has answered the attempt.
  virtual void on_reply(rpc::Lease&& reply) = 0;

  /// What a node must know that is asked. Set with the operation's options.
  Features features = 0;

  ListHook call_hook;  // in CallsInFlight
  // The current attempt.
  uint32_t attempt = 0;  // its number, from 1; 0: none yet
  TimeNs attempt_ns = 0;
  uint32_t table_id = 0;
  rpc::SessionId session;
  rpc::CallId call;  // valid while call_hook is linked
  /// The client cancels the call because another node leads the shard now (calls_in_flight.h).
  bool moved = false;
  // Reads of tables with read_anywhere.
  bool spreads = false;     // the read may go to any replica of its shard
  bool at_backup = false;   // this attempt goes to a backup
  bool to_primary = false;  // a backup did not answer, so the next attempt goes to the primary

  /// The state of the shard that the reply is from.
  [[nodiscard]] Token token_of(const ReplyHead& head) const { return {table_id, shard, head.epoch, head.index}; }

 protected:
  void reset() override;
  /// With a head that was encoded, or its error.
  [[nodiscard]] static absl::StatusOr<Request> request_of(const absl::StatusOr<ByteSpan>& head, ByteSpan body = {}) {
    if (!head.ok()) return head.status();
    return Request{*head, body};
  }
};

/// A write.
class NumberedOperation : public CallOperation {
 public:
  ListHook lane_hook;  // in a lane of RequestLanes
  uint64_t seq = 0;    // its number; 0: none yet
  uint32_t lane_table_id = 0;
  uint32_t lane_shard = 0;
  /// What the request of the next attempt carries.
  RequestId id;
};

/// The result of an operation that the store did not answer.
template <typename Result>
[[nodiscard]] Result failed(Outcome&& outcome) {
  Result result;
  static_cast<Outcome&>(result) = std::move(outcome);
  return result;
}

/// Operations of one class: those in use, and free ones for later use. Must outlive all holds. Thread: the client's.
template <typename Kind>
class OperationPool {
 public:
  /// A free operation, now with one hold. Its table, key and routes are those of its last use; callers overwrite them.
  Kind& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Kind>());
      all_.back()->pool = &free_;
      free_.push_back(all_.back().get());
    }
    Kind& operation = static_cast<Kind&>(*free_.back());
    free_.pop_back();
    operation.uses = 1;
    return operation;
  }

 private:
  std::vector<std::unique_ptr<Kind>> all_;
  std::vector<Operation*> free_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_OPERATION_H_
