// Types of the client library's interface: options, results, views of received bytes.
//
// An operation ends in one of three ways. The result says which:
//
//   answered      status is OK, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION or OUT_OF_RANGE: the store's
//                 answer
//   not done      any other code with may_have_been_applied == false: nothing changed, try again
//   unknown       any other code with may_have_been_applied == true: the write was sent, and the client does not
//                 know whether it took effect; read the key before writing it again
//
// With ClientOptions::exactly_once a write ends as unknown only if its deadline passed, the client was closed, the node
// failed (its storage, or an internal error), or the shard had forgotten this client (docs/client.md).
//
// FAILED_PRECONDITION is also the code if there is no such table, or if a read's token does not fit. The store did not
// answer then: Outcome::detail is set, and may_have_been_applied says whether an earlier attempt may have taken effect.
//
// Results and views of an AsyncClient belong to the client's thread. They must be destroyed before the client.
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
#include "control/security/credential_files.h"
#include "kvstore/types/durability.h"
#include "kvstore/types/patch_counts.h"
#include "kvstore/types/record_mark.h"
#include "rpc/base/lease.h"
#include "rpc/protocol/traffic_settings.h"
#include "rpc/transport/sealed/packet_protection.h"

namespace skua::rpc {
class Transport;
struct EndpointIdentity;
}  // namespace skua::rpc

namespace skua::kv {

/// Makes the transport that carries one client's packets. `self` is the identity of the client's endpoint. The maker
/// runs once per client, on the thread that makes the client; it may run on several threads at once. The client drops
/// the transport when it is destroyed.
using TransportMaker =
    std::function<absl::StatusOr<std::shared_ptr<rpc::Transport>>(const rpc::EndpointIdentity& self)>;

struct ClientOptions {
  /// Where the control plane listens: "host:port". If there are several control processes: all their addresses,
  /// separated by commas.
  std::string control_address = "127.0.0.1:7400";
  /// The client's certificate and whom it believes (docs/security.md). Empty: without TLS, for a cluster without.
  control::CredentialFiles credentials{};
  /// How packets are protected from others on the network. The nodes must have it on as well, or off.
  rpc::PacketProtection packets = rpc::PacketProtection::kDefault;
  /// How long the client protects its packets with one key, 1 s to 24 h. Then it goes on to the next one.
  std::chrono::nanoseconds packet_key_lifetime{rpc::kPacketKeyLifetime};
  /// Timeout of operations whose options give none. It covers everything: finding the cluster, opening sessions, all
  /// attempts. Above 0, at most one hour.
  std::chrono::nanoseconds timeout = std::chrono::seconds(5);
  /// Most operations in flight. A further operation is refused with RESOURCE_EXHAUSTED. 1..65,536.
  uint32_t operations_max = 4096;
  /// Most requests in flight per session; further requests wait. A power of two, 1..1024; the server may allow fewer.
  /// The client has one session with each worker of each node that it talks to.
  uint16_t session_window = 128;
  /// poll() spins for this long after its last work before it sleeps.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  /// Most memory for messages: replies of more than one packet are assembled there. Replies of one packet are lent from
  /// the receive buffers and do not count.
  size_t memory_limit_bytes = size_t{1} << 30;
  /// Writes carry the client's id and a number (docs/client.md). A write whose answer was lost is sent again until its
  /// deadline, and takes effect once. If false, such a write fails as unknown.
  bool exactly_once = true;
  /// Seed of the random pauses between retries. 0: drawn from the system.
  uint64_t seed = 0;
  /// How much of the client's traffic may be in the network at a time, and what the network is like
  /// (docs/congestion.md). Has no effect over TCP.
  rpc::TrafficSettings traffic{};
  /// Empty: TCP. For DPDK see dpdk.h, for RDMA verbs.h. Nodes and clients must use the same transport.
  TransportMaker make_transport{};
};

/// OK, or INVALID_ARGUMENT naming the option and its range.
[[nodiscard]] absl::Status check_options(const ClientOptions& options);

/// The state that a shard had when it answered. A read of the same shard that is given the token
/// (ReadOptions::at_least) sees at least that state, whichever node answers. Tokens of one shard are ordered by
/// `index`; tokens of different shards cannot be compared. A plain value: it may be kept, and sent to another process.
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
  /// GET only: read this state of the shard or a later one. FAILED_PRECONDITION: the shard lost that state in a crash,
  /// because it was written with a low durability; or the token is of another table, perhaps of one that was dropped.
  /// INVALID_ARGUMENT: the token is of another shard than the key.
  Token at_least{};
  /// GET only: the result says how long the key has to live.
  bool with_ttl = false;
  /// The results have the records' marks. UNIMPLEMENTED: the node's version is too old for marks.
  bool with_mark = false;
  /// GET only: the result has the value's size, and not the value. UNIMPLEMENTED: the node's version is too old.
  bool size_only = false;
  /// GET only: the value is a row, and the result has those of its fields that have one of these names, in the order of
  /// the row. 1 to 1,024 names; none: the whole value. They must live until the client has accepted the call.
  /// FAILED_PRECONDITION: the value is not a row. UNIMPLEMENTED: the node's version is too old.
  std::span<const std::string_view> fields{};
  /// MULTI_GET only: no key waits for a disk or for another key's large value. RESOURCE_EXHAUSTED for a key: its value
  /// is not in the node's memory, or with it the values of the shard's keys would be more than 64 KiB. Read it with GET
  /// then. UNIMPLEMENTED: the node's version is too old.
  bool memory_only = false;
};

struct WriteOptions {
  /// 0: ClientOptions::timeout.
  std::chrono::nanoseconds timeout{0};
  /// Write only if the key has this version. Otherwise FAILED_PRECONDITION, and the result has the key's version (0:
  /// the key is absent). A write takes one of if_version, if_absent and if_present.
  std::optional<uint64_t> if_version{};
  /// PUT, ADD, APPEND: write only if the key is absent. Otherwise ALREADY_EXISTS, and the result has the key's version.
  bool if_absent = false;
  /// Write only if the key is there. Otherwise NOT_FOUND.
  bool if_present = false;
  /// PUT only: the key vanishes after this time. Rounded up to milliseconds; at most 100 years; 0: never.
  std::chrono::nanoseconds ttl{0};
  /// PUT only: the key keeps the time to live that it has. Not together with ttl.
  bool keep_ttl = false;
  /// PUT only: the record's mark, a tag of 32 bits and whether the value is a row (RecordMark). Writes that change a
  /// record keep its mark, but for PUT: without a mark of its own it leaves none. UNIMPLEMENTED: the node's
  /// version is too old for marks.
  RecordMark mark{};
  /// How safe the write must be before it is answered. The result says how safe it was then.
  Durability durability = Durability::kDefault;
};

struct PatchOptions {
  /// 0: ClientOptions::timeout.
  std::chrono::nanoseconds timeout{0};
  /// If the key is missing, make a row of the given fields; otherwise a missing key is NOT_FOUND.
  bool create_if_missing = false;
  /// The record must be marked as a row, otherwise FAILED_PRECONDITION, and a row that is made will be.
  bool row = false;
  /// The result has WriteResult::fields, as if fields were removed. UNIMPLEMENTED: the node's version is too old.
  bool count_fields = false;
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

/// A field of a row, to be replaced, added or removed. Views: the bytes need to live for the call only.
struct FieldUpdate {
  std::string_view name;
  std::string_view value = {};
  /// The field goes; there is no value. A field that the row lacks may be removed. If the last field of the row goes,
  /// the key goes, too. Not in batches. UNIMPLEMENTED: the node's version is too old.
  bool remove = false;
};

/// The part of a table to be scanned, in the byte order of keys. Views: the bytes need to live for the call only.
struct ScanRange {
  /// Inclusive. Empty: from the first key.
  std::string_view start{};
  /// Exclusive. Empty: to the last key.
  std::string_view end{};
  /// Most rows to return: 1..kScanLimitMax.
  uint32_t limit = 100;
  /// The rows have no values. Nodes read the values all the same, up to 16 MiB for a page. UNIMPLEMENTED: the version
  /// of a node is too old for that.
  bool keys_only = false;
  /// The result has the number of rows only (ScanResult::count), of all that are in the range: `limit` has no meaning.
  /// The timeout must be long enough for the whole range. UNIMPLEMENTED as with keys_only.
  bool count_only = false;
};
inline constexpr uint32_t kScanLimitMax = 100'000;

/// The value of a PUT, or the bytes of an APPEND. A view is copied before the call returns. A moved-in string and lent
/// memory are not copied: they are sent from where they lie. Lent memory is released exactly once, on the client's
/// thread, when nobody reads it any longer; also if the call returns an error. Move-only.
class PutValue {
 public:
  using ReleaseFn = void (*)(void* context);

  PutValue() = default;
  PutValue(const char* text) : view_(text) {}                  // NOLINT(google-explicit-constructor)
  PutValue(std::string_view view) : view_(view) {}             // NOLINT(google-explicit-constructor)
  PutValue(const std::string& text) : view_(text) {}           // NOLINT(google-explicit-constructor)
  PutValue(std::string&& owned) : owned_(std::move(owned)) {}  // NOLINT(google-explicit-constructor)
  /// Lends `bytes`. They must stay readable and unchanged until the client calls `release(context)`.
  [[nodiscard]] static PutValue lend(std::string_view bytes, ReleaseFn release, void* context);

  PutValue(PutValue&& other) noexcept;
  PutValue& operator=(PutValue&& other) noexcept;
  ~PutValue() { release(); }

  [[nodiscard]] std::string_view bytes() const { return owned_.has_value() ? *owned_ : view_; }
  /// Neither owned nor lent bytes.
  [[nodiscard]] bool is_view() const { return !owned_.has_value() && release_ == nullptr; }

 private:
  void release();

  std::optional<std::string> owned_;
  std::string_view view_;
  ReleaseFn release_ = nullptr;
  void* context_ = nullptr;
};

/// A received value, not copied. It holds receive memory (a lease) as long as it lives. Thread: the client's, also for
/// its destruction.
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
  /// Gives the memory back; the view is empty then.
  void reset() { *this = ValueView(); }

 private:
  std::string_view bytes_;
  rpc::Lease lease_;
};

/// One failed attempt of an operation on one node.
struct Attempt {
  /// When the attempt began, counted from the start of the operation.
  std::chrono::nanoseconds started{0};
  /// "node 3f2a... worker 1 (10.0.0.7:7410)"; empty if there was no node to ask.
  std::string whom;
  /// How it ended: code and text.
  std::string outcome;
};

/// What is known of a failed operation. The message of its status says the same in one line.
struct FailureDetail {
  std::string table;
  std::optional<uint32_t> shard;
  /// The first three and the latest three failed attempts; attempt_count counts all.
  std::vector<Attempt> attempts;
  uint32_t attempt_count = 0;
};

/// How an operation ended.
struct Outcome {
  absl::Status status;
  /// GET: the key's version. Writes: the key's new version. ALREADY_EXISTS, or if_version did not hold: the key's
  /// present version.
  uint64_t version = 0;
  /// Failed writes: the write may have taken effect (see the head of this file).
  bool may_have_been_applied = false;
  /// The state of the shard that the answer is from. Empty if the store did not answer, and for MULTI_GET and SCAN,
  /// which several shards may answer; their results have tokens of their own.
  Token token{};
  /// Set if the operation began and the store did not answer it. Null if the store answered, or if the client refused
  /// the operation before it began (a limit, bad options).
  std::shared_ptr<const FailureDetail> detail;

  [[nodiscard]] bool ok() const { return status.ok(); }
};

/// The fields below are set for a write that is OK.
struct WriteResult : Outcome {
  /// How safe the write was when it was answered: at least as safe as was asked for.
  Durability durability = Durability::kDefault;
  /// ADD: the counter afterwards; else 0.
  int64_t value = 0;
  /// PATCH that removes fields, or with PatchOptions::count_fields: what changed.
  PatchCounts fields{};
  /// An earlier attempt had been executed, and its answer was lost. This is the answer that the shard kept.
  bool repeated = false;
};

struct GetResult : Outcome {
  ValueView value;
  /// With ReadOptions::with_ttl: the time that the key has left. nullopt: it does not expire.
  std::optional<std::chrono::milliseconds> ttl;
  /// With ReadOptions::with_mark: the record's.
  RecordMark mark{};
  /// With ReadOptions::size_only: the value's.
  size_t value_bytes = 0;
};

/// How one operation of a BATCH ended.
struct BatchOpResult {
  /// Not OK: why this operation could not be done. No operation of the batch was applied then.
  absl::Status status;
  /// As in the result of the single operation. If no operation was applied, and this one is not the reason: 0.
  uint64_t version = 0;
  /// ADD: the counter afterwards; else 0.
  int64_t value = 0;
};

struct BatchResult : WriteResult {
  /// One for each operation, in their order. Empty if the store did not evaluate the batch. If an operation could not
  /// be done, the status of the whole result is that of the first such operation, and names it.
  std::vector<BatchOpResult> ops;
};

/// The result of a MULTI_GET for one key.
struct KeyResult {
  /// OK, NOT_FOUND, or why this key could not be read.
  absl::Status status;
  uint64_t version = 0;
  /// A view into the MultiGetResult's `memory`: valid as long as the MultiGetResult.
  std::string_view value;
  /// Of the shard that answered for this key.
  Token token{};
  /// With ReadOptions::with_mark.
  RecordMark mark{};
};

struct MultiGetResult : Outcome {
  /// In the order of the keys asked for. If keys could not be read, the status of the whole result is the failure that
  /// came first. NOT_FOUND is not a failure, nor is RESOURCE_EXHAUSTED with ReadOptions::memory_only.
  std::vector<KeyResult> entries;

  std::vector<ValueView> memory;  // what the entries point into
};

struct Row {
  std::string_view key;
  std::string_view value;
  uint64_t version = 0;
  /// With ReadOptions::with_mark.
  RecordMark mark{};
};

/// A shard answers in pages of at most 1 MiB and 10,000 rows. Each page shows the shard as it was at one moment, no
/// earlier than the page was asked for: it contains every write that the shard had applied until then and no later
/// write. (An exception: a key that expires while the page is read may be there or not.) Pages are of different
/// moments, also pages of different shards. So a whole scan is of one moment only if one shard answered it with one
/// page (`tokens` has one).
struct ScanResult : Outcome {
  /// In key order. Views into `memory`: valid as long as this object. Empty unless OK.
  std::vector<Row> rows;
  /// With ScanRange::count_only: how many rows the range has. Each page is counted at a moment of its own: of at most
  /// 10,000 rows, with at most 16 MiB of keys and values.
  uint64_t count = 0;
  /// One for each page, in no order. If a shard sent several pages, its token with the greatest index covers them all.
  /// With ScanRange::count_only: that one for each shard.
  /// Empty unless OK.
  std::vector<Token> tokens;
  /// There may be more rows in the range: scan again with `start = next_start`.
  bool has_more = false;
  std::string next_start;

  std::vector<ValueView> memory;  // what the rows point into
};

using GetCallback = absl::AnyInvocable<void(GetResult&&)>;
/// A GET's callback that is a function and two words: all that bindings of other languages have. It takes fewer
/// instructions than a GetCallback, which is an object that has to be moved and destroyed.
struct GetFunction {
  using Any = void (*)();
  /// Called once, with the two words below.
  void (*call)(Any function, void* context, GetResult&& result) = nullptr;
  Any function = nullptr;
  void* context = nullptr;
};
using WriteCallback = absl::AnyInvocable<void(WriteResult&&)>;
using BatchCallback = absl::AnyInvocable<void(BatchResult&&)>;
using MultiGetCallback = absl::AnyInvocable<void(MultiGetResult&&)>;
using ScanCallback = absl::AnyInvocable<void(ScanResult&&)>;

/// Counters of one client, from its start.
struct ClientCounters {
  uint64_t operations_started = 0;
  uint64_t operations_ok = 0;
  /// Operations that ended without an answer of the store (Outcome::detail is set).
  uint64_t operations_failed = 0;
  /// Operations refused before they began: operations_max, closing client, bad timeout, table without a name.
  uint64_t operations_refused = 0;
  uint64_t attempts = 0;
  /// Attempts that were not the first of their operation.
  uint64_t retries = 0;
  /// Attempts of writes of which an earlier attempt may have been executed.
  uint64_t repeated_writes = 0;
  /// Attempts answered with WRONG_SHARD: client and node knew different shard maps.
  uint64_t wrong_shard = 0;
  /// Attempts given up because another node leads their shard now. Each was repeated at that node.
  uint64_t calls_moved = 0;
  /// Reads of tables with read_anywhere that were answered by a backup. Each part of a MULTI_GET and each page of a
  /// SCAN counts as one read.
  uint64_t backup_reads = 0;
  /// Such reads that a backup did not answer, and that went on to the primary.
  uint64_t backup_reads_refused = 0;
  uint64_t map_updates = 0;
  uint64_t sessions_opened = 0;
  uint64_t sessions_lost = 0;
  uint64_t session_open_failures = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_TYPES_H_
