// One operation from acceptance to callback, and the pool that recycles them.
//
//             submit                       session, map            CallResult
//   kFree ----------> (dispatch) --------------------> kInFlight ------------> answer, or again:
//                         |   ^                                                    |
//                         v   | map, session, time                                 |
//                        kParked <-------------------------------------------------+
//
// An operation is held by itself while it runs, and by each message that sends bytes from its
// memory; it is recycled when the last hold goes. So a value that a wire may still read is never
// given to another operation.
//
// MULTI_GET and SCAN are parents: they send nothing themselves, but have parts (kMultiGetPart,
// kScanPage) that run like operations of their own and report to them.
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

/// INVALID_ARGUMENT for options that only a GET has.
[[nodiscard]] absl::Status check_read_of_many(Method method, const ReadOptions& options);

/// What a MULTI_GET keeps besides the operation.
struct MultiGetState {
  std::string key_bytes;               // all keys, one after the other
  std::vector<std::string_view> keys;  // views into it, grouped by shard
  std::vector<uint32_t> places;        // of each of these in the caller's order
  struct Group {
    uint32_t shard = 0;
    uint32_t first = 0;
    uint32_t count = 0;
  };
  std::vector<Group> groups;
  uint32_t next_group = 0;
  std::vector<uint32_t> alone;  // keys whose values did not fit a reply: to be asked for singly
  MultiGetResult result;
};

/// What a SCAN keeps besides the operation.
struct ScanState {
  std::string start;
  std::string end;
  uint32_t limit = 0;
  ScanMerge merge;
  ScanResult result;
};

/// What a BATCH keeps besides the operation.
struct BatchState {
  BatchOpsBuilder ops;
  BatchCallback on_batch;
};

struct Operation {
  enum class State : uint8_t { kFree, kInFlight, kParked };
  enum class Kind : uint8_t { kSingle, kMultiGet, kMultiGetPart, kScan, kScanPage };
  /// What a parked operation waits for, besides its time.
  enum class Awaits : uint8_t { kTime, kMap, kSession, kCallback };

  ListHook parked_hook;
  ListHook call_hook;  // among those that a call is under way of (client_moves.cc)
  State state = State::kFree;
  Kind kind = Kind::kSingle;
  Awaits awaits = Awaits::kTime;
  Method method = Method::kGet;
  bool create_if_missing = false;
  bool wants_ttl = false;  // GET
  /// An earlier attempt of this write may have been executed.
  bool uncertain = false;
  Durability durability = Durability::kDefault;
  Condition condition;
  uint32_t uses = 0;
  OperationPool* pool = nullptr;

  std::string table;
  /// Of the map of that revision; 0: not looked up yet.
  const TableRoutes* routes = nullptr;
  uint64_t routes_revision = 0;
  KeyText key;
  PutValue value;       // PUT: an owned or lent value
  std::string payload;  // PUT, APPEND: copied bytes; PATCH: the fields
  uint64_t ttl_ms = 0;  // PUT, EXPIRE
  int64_t delta = 0;    // ADD
  Token at_least;       // GET

  TimeNs started_ns = 0;
  TimeNs deadline_ns = 0;
  TimeNs wake_at_ns = kTimeNever;  // parked

  // Writes: the request's number, and the lane that it is in (request_lanes.h).
  ListHook lane_hook;
  uint64_t seq = 0;
  uint32_t lane_table_id = 0;
  uint32_t lane_shard = 0;

  // The present attempt.
  uint32_t attempt = 0;  // counts from 1
  TimeNs attempt_ns = 0;
  uint32_t table_id = 0;
  uint32_t shard = 0;
  bool shard_known = false;
  TargetId target = kNoTarget;
  rpc::SessionId session;
  rpc::CallId call;  // while call_hook is linked
  /// The call ends because the shard moved, not because it failed.
  bool moved = false;
  // Reads of tables that are read anywhere.
  bool spreads = false;     // any replica's session will do
  bool at_backup = false;   // another replica than the primary is asked
  bool to_primary = false;  // a backup did not answer: the next attempt is the primary's

  /// Failed attempts: the first and the latest.
  std::vector<Attempt> trail;
  uint32_t failed_attempts = 0;
  /// Awaits::kCallback: what the next poll() tells. Parents: the first failure of a part.
  Outcome failure;

  GetCallback on_get;
  WriteCallback on_write;
  MultiGetCallback on_multi_get;
  ScanCallback on_scan;

  // Parents and parts.
  Operation* parent = nullptr;
  uint32_t part = 0;   // kMultiGetPart: its group, or its key if `alone`
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
  /// The value or fields that follow a request's head.
  [[nodiscard]] std::string_view body() const { return payload.empty() ? value.bytes() : std::string_view(payload); }
};

/// Thread: the client's. Must outlive all holds.
class OperationPool {
 public:
  OperationPool() = default;
  OperationPool(const OperationPool&) = delete;
  OperationPool& operator=(const OperationPool&) = delete;

  /// A fresh operation with one hold.
  Operation& take();
  static void hold(Operation& operation) { ++operation.uses; }
  static void drop(Operation& operation);
  /// drop() as a message's BodyReleaseFn.
  static void drop_body(void* operation) { drop(*static_cast<Operation*>(operation)); }

  /// Takes over `value` without copying if it is owned or lent, else copies it.
  static void set_value(Operation& operation, PutValue&& value);

  /// Operations held, by whatever.
  [[nodiscard]] size_t in_use() const { return in_use_; }

 private:
  void recycle(Operation& operation);

  std::vector<std::unique_ptr<Operation>> all_;
  std::vector<Operation*> free_;
  size_t in_use_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_OPERATION_H_
