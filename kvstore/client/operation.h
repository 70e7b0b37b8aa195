// Operation: one operation from acceptance to callback. OperationPool recycles operations.
//
//             submit                       session, map            CallResult
//   kFree ----------> (dispatch) --------------------> kInFlight ------------> answer, or again:
//                         |   ^                                                    |
//                         v   | map, session, time                                 |
//                        kParked <-------------------------------------------------+
//
// Holds are counted (Operation::uses): one while the operation runs, and one for each message that sends bytes from the
// operation's memory. An operation is recycled when the last hold is dropped. So memory that a transport may still read
// is never reused for another operation.
//
// MULTI_GET and SCAN are parents. A parent sends nothing itself. It has parts (kMultiGetPart, kScanPage), which run
// like operations of their own and report to their parent.
#ifndef SKUA_KVSTORE_CLIENT_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_OPERATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/client/key_text.h"
#include "kvstore/client/route_table.h"
#include "kvstore/client/scan_merge.h"
#include "kvstore/client/types.h"
#include "kvstore/codec/batch.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/request.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/endpoint.h"

namespace skua::kv {

class OperationPool;

/// INVALID_ARGUMENT if options are set that only GET takes (at_least, with_ttl). `method`: MULTI_GET or SCAN.
[[nodiscard]] absl::Status check_read_of_many(Method method, const ReadOptions& options);

/// The state of a MULTI_GET beyond its Operation.
struct MultiGetState {
  std::string key_bytes;               // all keys, one after the other
  std::vector<std::string_view> keys;  // views into it, grouped by shard
  std::vector<uint32_t> places;        // for each of `keys`: its index in the caller's order
  struct Group {
    uint32_t shard = 0;
    uint32_t first = 0;
    uint32_t count = 0;
  };
  std::vector<Group> groups;
  uint32_t next_group = 0;
  std::vector<uint32_t> alone;  // indices of keys whose values did not fit into a reply: each gets a GET of its own
  MultiGetResult result;
};

/// The state of a SCAN beyond its Operation.
struct ScanState {
  std::string start;
  std::string end;
  uint32_t limit = 0;
  ScanMerge merge;
  ScanResult result;
};

/// The state of a BATCH beyond its Operation.
struct BatchState {
  BatchOpsBuilder ops;
  BatchCallback on_batch;
};

struct Operation {
  enum class State : uint8_t { kFree, kInFlight, kParked };
  enum class Kind : uint8_t { kSingle, kMultiGet, kMultiGetPart, kScan, kScanPage };
  /// What ends a parked operation's wait, besides wake_at_ns.
  enum class Awaits : uint8_t { kTime, kMap, kSession, kCallback };

  ListHook parked_hook;
  ListHook call_hook;  // in ClientCore's list of operations with a call in flight (client_moves.cc)
  State state = State::kFree;
  Kind kind = Kind::kSingle;
  Awaits awaits = Awaits::kTime;
  Method method = Method::kGet;
  bool create_if_missing = false;
  bool wants_ttl = false;  // GET
  /// Writes: an earlier attempt may have been executed.
  bool uncertain = false;
  Durability durability = Durability::kDefault;
  Condition condition;
  uint32_t uses = 0;
  OperationPool* pool = nullptr;

  std::string table;
  /// The table's routes. Valid only while RouteTable has the revision `routes_revision`; 0: not looked up yet.
  const TableRoutes* routes = nullptr;
  uint64_t routes_revision = 0;
  KeyText key;
  PutValue value;       // PUT, APPEND: owned or lent bytes
  std::string payload;  // PUT, APPEND: copied bytes; PATCH: the fields
  uint64_t ttl_ms = 0;  // PUT, EXPIRE
  int64_t delta = 0;    // ADD
  Token at_least;       // GET

  TimeNs started_ns = 0;
  TimeNs deadline_ns = 0;
  TimeNs wake_at_ns = kTimeNever;  // while parked

  // Writes: the request's number (0: none yet), and the lane that the operation is in (request_lanes.h).
  ListHook lane_hook;
  uint64_t seq = 0;
  uint32_t lane_table_id = 0;
  uint32_t lane_shard = 0;

  // The current attempt.
  uint32_t attempt = 0;  // its number, from 1; 0: none yet
  TimeNs attempt_ns = 0;
  uint32_t table_id = 0;
  uint32_t shard = 0;
  bool shard_known = false;
  TargetId target = kNoTarget;
  rpc::SessionId session;
  rpc::CallId call;  // valid while call_hook is linked
  /// The client cancels the call because another node leads the shard now (client_moves.cc).
  bool moved = false;
  // Reads of tables with read_anywhere.
  bool spreads = false;     // the read may go to any replica of its shard
  bool at_backup = false;   // this attempt goes to a backup
  bool to_primary = false;  // a backup did not answer, so the next attempt goes to the primary

  /// The first and the latest failed attempts (kTrailFirstMax, kTrailLatestMax). failed_attempts counts all.
  std::vector<Attempt> trail;
  uint32_t failed_attempts = 0;
  /// Awaits::kCallback: the outcome that the next poll() hands to the callback. Parents: the first failure of a part.
  Outcome failure;

  GetCallback on_get;
  WriteCallback on_write;
  MultiGetCallback on_multi_get;
  ScanCallback on_scan;

  // Parents and parts.
  Operation* parent = nullptr;
  uint32_t part = 0;   // kMultiGetPart: index of its group or, if `alone`, of its key
  bool alone = false;  // kMultiGetPart: a GET of one key
  uint32_t parts_running = 0;
  bool starting_parts = false;
  std::unique_ptr<MultiGetState> multi_get;
  std::unique_ptr<ScanState> scan;
  std::unique_ptr<BatchState> batch;

  [[nodiscard]] bool is_write() const {
    return method != Method::kGet && method != Method::kMultiGet && method != Method::kScan;
  }
  [[nodiscard]] bool is_part() const { return parent != nullptr; }
  /// The bytes that follow the request's head: a value, or the fields of a PATCH.
  [[nodiscard]] std::string_view body() const { return payload.empty() ? value.bytes() : std::string_view(payload); }
};

/// Owns all operations of a client. Must outlive all holds. Thread: the client's.
class OperationPool {
 public:
  OperationPool() = default;
  OperationPool(const OperationPool&) = delete;
  OperationPool& operator=(const OperationPool&) = delete;

  /// A free operation, now with one hold. Its table, key and routes are those of its last use; callers overwrite them.
  Operation& take();
  static void hold(Operation& operation) { ++operation.uses; }
  static void drop(Operation& operation);
  /// drop() in the form of a message's BodyReleaseFn.
  static void drop_body(void* operation) { drop(*static_cast<Operation*>(operation)); }

  /// Moves `value` into the operation if it is owned or lent; copies it if it is a view.
  static void set_value(Operation& operation, PutValue&& value);

  /// Operations with at least one hold.
  [[nodiscard]] size_t in_use() const { return in_use_; }

 private:
  void recycle(Operation& operation);

  std::vector<std::unique_ptr<Operation>> all_;
  std::vector<Operation*> free_;
  size_t in_use_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_OPERATION_H_
