// What goes into the client library and what comes out of it: options, results, views of received
// bytes.
//
// An operation ends in one of three ways, and the result says which:
//
//   answered      status is OK, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION or OUT_OF_RANGE: the store's
//                 answer
//   not done      any other code with may_have_been_applied == false: nothing changed, try again
//   unknown       any other code with may_have_been_applied == true: a write was sent and its fate
//                 is not known; read the key before writing it again
//
// With ClientOptions::exactly_once a write ends as unknown only when its deadline passed, the client was closed, or the
// node's storage failed.
//
// Results and views belong to the client's thread and must be gone before the client is.
#ifndef SKUA_KVSTORE_CLIENT_TYPES_H_
#define SKUA_KVSTORE_CLIENT_TYPES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/types/durability.h"
#include "rpc/base/lease.h"
#include "rpc/protocol/traffic_settings.h"

namespace skua::rpc {
class Transport;
struct EndpointIdentity;
}  // namespace skua::rpc

namespace skua::kv {

/// Makes what carries a client's packets, for an endpoint that calls itself `self`. Runs on the thread that makes the client,
/// once per client; several may run at once. The client drops the transport when it ends.
using TransportMaker =
    std::function<absl::StatusOr<std::shared_ptr<rpc::Transport>>(const rpc::EndpointIdentity& self)>;

struct ClientOptions {
  /// Where the control plane listens: "host:port"; of several control processes all, with commas between them.
  std::string control_address = "127.0.0.1:7400";
  /// For operations that name no timeout of their own. It covers everything: finding the cluster,
  /// opening sessions, all attempts.
  std::chrono::nanoseconds timeout = std::chrono::seconds(5);
  /// Operations in flight; one more is refused with RESOURCE_EXHAUSTED. 1..65,536.
  uint32_t operations_max = 4096;
  /// Requests in flight per session, one session per worker of each node; more wait. 1..1024, and
  /// never more than the server allows.
  uint16_t session_window = 128;
  /// poll() spins this long after the last work before it sleeps.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  /// Memory for replies that are not lent straight from the receive buffers.
  size_t memory_limit_bytes = size_t{1} << 30;
  /// Writes carry who asks and how often (docs/client.md), so that one whose answer was lost is sent again, until its
  /// deadline, and takes effect once. Without, such a write fails as unknown.
  bool exactly_once = true;
  /// Seeds back-off jitter; 0: drawn from the system.
  uint64_t seed = 0;
  /// How much of the client's traffic may be in the network, and what the network is like; nothing over TCP. docs/congestion.md.
  rpc::TrafficSettings traffic{};
  /// Empty: TCP. For DPDK see dpdk.h. Nodes and clients need the same transport.
  TransportMaker make_transport{};
};

/// OK, or INVALID_ARGUMENT naming the option and its range.
[[nodiscard]] absl::Status check_options(const ClientOptions& options);

/// How far a shard had got when it answered. Given to a read of the same shard (`at_least`) it makes that read see at
/// least what the answer had seen, on whatever node. Tokens of one shard are ordered by `index`; others are not.
/// A plain value: keep it, send it to another process.
struct Token {
  uint32_t table_id = 0;
  uint32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t index = 0;  ///< 0: no token

  [[nodiscard]] bool empty() const { return index == 0; }
  friend bool operator==(const Token&, const Token&) = default;
};

struct ReadOptions {
  /// 0: ClientOptions::timeout.
  std::chrono::nanoseconds timeout{0};
  /// GET only: with this state of the shard or a later one; else FAILED_PRECONDITION (what the token had seen was lost in
  /// a crash, because it was written with a low durability, or is of a table that was dropped), or INVALID_ARGUMENT (the
  /// token is of another shard than the key).
  Token at_least{};
  /// GET only: tell how long the key has to live.
  bool with_ttl = false;
};

struct WriteOptions {
  /// 0: ClientOptions::timeout.
  std::chrono::nanoseconds timeout{0};
  /// Only if the key has this version; else FAILED_PRECONDITION, and the result's version is the
  /// key's (0: the key is absent).
  std::optional<uint64_t> if_version{};
  /// PUT, ADD, APPEND: only if the key is absent; else ALREADY_EXISTS, and the result's version is the key's.
  bool if_absent = false;
  /// PUT only: the key vanishes after this long, which is rounded up to milliseconds; 0: never. At most 100 years.
  std::chrono::nanoseconds ttl{0};
  /// What must have happened before the write is answered. The result tells what did.
  Durability durability = Durability::kDefault;
};

struct PatchOptions {
  /// 0: ClientOptions::timeout.
  std::chrono::nanoseconds timeout{0};
  /// A missing key becomes a row of the given fields instead of NOT_FOUND.
  bool create_if_missing = false;
  /// As in WriteOptions.
  std::optional<uint64_t> if_version{};
  Durability durability = Durability::kDefault;
};

struct BatchOptions {
  /// 0: ClientOptions::timeout.
  std::chrono::nanoseconds timeout{0};
  /// As in WriteOptions.
  Durability durability = Durability::kDefault;
};

/// A field of a row to be replaced or added.
struct FieldUpdate {
  std::string_view name;
  std::string_view value;
};

/// The part of a table to be scanned, in byte order of keys.
struct ScanRange {
  /// Inclusive; empty: from the first key.
  std::string_view start{};
  /// Exclusive; empty: to the last key.
  std::string_view end{};
  /// 1..kScanLimitMax.
  uint32_t limit = 100;
};
inline constexpr uint32_t kScanLimitMax = 100'000;

/// The value of a PUT. A view is copied before put() returns; a moved-in string and lent memory are
/// sent from where they lie. Move-only; lent memory is released exactly once, when nobody reads it
/// any longer (also if put() refuses), on the client's thread.
class PutValue {
 public:
  using ReleaseFn = void (*)(void* context);

  PutValue() = default;
  PutValue(const char* text) : view_(text) {}                  // NOLINT(google-explicit-constructor)
  PutValue(std::string_view view) : view_(view) {}             // NOLINT(google-explicit-constructor)
  PutValue(const std::string& text) : view_(text) {}           // NOLINT(google-explicit-constructor)
  PutValue(std::string&& owned) : owned_(std::move(owned)) {}  // NOLINT(google-explicit-constructor)
  /// `bytes` stay readable and unchanged until `release(context)`.
  [[nodiscard]] static PutValue lend(std::string_view bytes, ReleaseFn release, void* context);

  PutValue(PutValue&& other) noexcept;
  PutValue& operator=(PutValue&& other) noexcept;
  ~PutValue() { release(); }

  [[nodiscard]] std::string_view bytes() const { return owned_.has_value() ? *owned_ : view_; }

 private:
  friend class OperationPool;
  void release();

  std::optional<std::string> owned_;
  std::string_view view_;
  ReleaseFn release_ = nullptr;
  void* context_ = nullptr;
};

/// A value as it was received, not copied. May be kept; while it is kept, receive memory is pinned.
class ValueView {
 public:
  ValueView() = default;
  ValueView(std::string_view bytes, rpc::Lease&& lease) : bytes_(bytes), lease_(std::move(lease)) {}
  ValueView(ValueView&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), lease_(std::move(other.lease_)) {}
  ValueView& operator=(ValueView&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, {});
    lease_ = std::move(other.lease_);
    return *this;
  }

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::string str() const { return std::string(bytes_); }
  /// Lets go of the memory.
  void reset() { *this = ValueView(); }

 private:
  std::string_view bytes_;
  rpc::Lease lease_;
};

/// One try of an operation on one node.
struct Attempt {
  /// Since the operation began.
  std::chrono::nanoseconds started{0};
  /// "node 3f2a... worker 1 (10.0.0.7:7410)", or empty when no node was reached.
  std::string whom;
  /// How it ended: code and text.
  std::string outcome;
};

/// What is known of an operation that failed; its status' message says the same in one line.
struct FailureDetail {
  std::string table;
  std::optional<uint32_t> shard;
  /// The first and the latest few; attempt_count says how many there were.
  std::vector<Attempt> attempts;
  uint32_t attempt_count = 0;
};

/// How an operation ended.
struct Outcome {
  absl::Status status;
  /// GET: the key's. Writes: the new one. ALREADY_EXISTS and FAILED_PRECONDITION: the present one.
  uint64_t version = 0;
  /// Failed writes: the store may have changed (see the head of this file).
  bool may_have_been_applied = false;
  /// What the answer had seen; empty if the store did not answer, and where several shards did (MULTI_GET, SCAN).
  Token token{};
  /// Set unless the store answered.
  std::shared_ptr<const FailureDetail> detail;

  [[nodiscard]] bool ok() const { return status.ok(); }
};

/// Of a write that is OK:
struct WriteResult : Outcome {
  /// What was achieved: at least what was asked for.
  Durability durability = Durability::kDefault;
  /// ADD: the counter afterwards; else 0.
  int64_t value = 0;
  /// The answer to an earlier attempt, which had been lost.
  bool repeated = false;
};

struct GetResult : Outcome {
  ValueView value;
  /// With ReadOptions::with_ttl: what is left; nullopt: for ever.
  std::optional<std::chrono::milliseconds> ttl;
};

/// What became of one operation of a BATCH, in the operations' order.
struct BatchOpResult {
  /// OK, or why this operation could not be done, and so none was.
  absl::Status status;
  /// As in the result of the single operation. 0 if nothing was applied and this operation could have been.
  uint64_t version = 0;
  /// ADD: the counter afterwards; else 0.
  int64_t value = 0;
};

struct BatchResult : WriteResult {
  /// Empty unless the store evaluated the batch. The result's status is the first that is not OK, with its operation named.
  std::vector<BatchOpResult> ops;
};

/// One key's part of a MULTI_GET.
struct KeyResult {
  /// OK, NOT_FOUND, or why this key could not be read.
  absl::Status status;
  uint64_t version = 0;
  /// Valid as long as the MultiGetResult it came in.
  std::string_view value;
  /// Of the shard that answered for this key.
  Token token{};
};

struct MultiGetResult : Outcome {
  /// In the order of the keys asked for. The outcome's status is the first that is neither OK nor
  /// NOT_FOUND.
  std::vector<KeyResult> entries;

  std::vector<ValueView> memory;  // what the entries point into
};

struct Row {
  std::string_view key;
  std::string_view value;
  uint64_t version = 0;
};

/// A shard answers with pages. Each page is the shard as it was at one moment, no earlier than the page was asked for: no write
/// is half seen, nor one without those that the shard had applied before it. (Times to live are the exception: a key that
/// expires while the page is read may be there or not.) Pages are of different moments, and so are shards: only a scan that
/// one shard answered with one page (`tokens` has one) is of one moment. One page has at most 1 MiB or 10,000 rows.
struct ScanResult : Outcome {
  /// In key order; views that are valid as long as this object. Empty unless OK.
  std::vector<Row> rows;
  /// One for each page that a shard sent, in no order: the greatest index of a shard counts.
  std::vector<Token> tokens;
  /// There may be more rows in the range: scan again with `start = next_start`.
  bool has_more = false;
  std::string next_start;

  std::vector<ValueView> memory;  // what the rows point into
};

using GetCallback = absl::AnyInvocable<void(GetResult&&)>;
using WriteCallback = absl::AnyInvocable<void(WriteResult&&)>;
using BatchCallback = absl::AnyInvocable<void(BatchResult&&)>;
using MultiGetCallback = absl::AnyInvocable<void(MultiGetResult&&)>;
using ScanCallback = absl::AnyInvocable<void(ScanResult&&)>;

/// Always-on counters of one client.
struct ClientCounters {
  uint64_t operations_started = 0;
  uint64_t operations_ok = 0;
  /// Ended with a code that is not the store's answer.
  uint64_t operations_failed = 0;
  uint64_t operations_refused = 0;
  uint64_t attempts = 0;
  uint64_t retries = 0;
  /// Retries of writes that an earlier attempt may have executed.
  uint64_t repeated_writes = 0;
  uint64_t wrong_shard = 0;
  /// Attempts given up because another node had taken over their shard; each was followed by one there.
  uint64_t calls_moved = 0;
  /// Of tables that are read anywhere: reads (MULTI_GETs and SCANs by shard and page) that replicas other than the primary
  /// answered, and such that went on to the primary.
  uint64_t backup_reads = 0;
  uint64_t backup_reads_refused = 0;
  uint64_t map_updates = 0;
  uint64_t sessions_opened = 0;
  uint64_t sessions_lost = 0;
  uint64_t session_open_failures = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_TYPES_H_
