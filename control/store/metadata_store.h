// The metadata store's contract: a small, linearizable, versioned map with compare-and-swap
// transactions and watches.
//
// Every transaction that changes something makes one new *revision* of the whole store; all its
// keys carry that number:
//
//    revision:   1        2               3          4
//               put a    put a, put b    del a      put a        a: created at 1, changed at 2; created again at 4
//                └────────┴───────────────┴──────────┴──> the history that watches read
//
// A key's `create_revision` is that of the transaction that made it, its `mod_revision` that of the
// last put. A transaction compares such revisions (or absence) and runs one of two lists of
// operations, atomically. That is all that view changes and table creation need, and it is what
// etcd offers; the implementations are
//
//    embedded_store.h   RocksDB with synced writes, for one control process (the default)
//    etcd_store.h       etcd, for several control processes
//    memory_store.h     a dumb twin: tests and simulation
//
// and one contract test runs against each. Revisions only grow; where the store has other users
// there are gaps between the ones seen here.
//
// A failed transaction (status not OK, as against `succeeded == false`) may or may not have
// happened. Read again; never assume.
#ifndef SKUA_CONTROL_STORE_METADATA_STORE_H_
#define SKUA_CONTROL_STORE_METADATA_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/clock.h"

namespace skua::control {

inline constexpr size_t kStoreKeyMax = 1024;
inline constexpr size_t kStoreValueMax = size_t{1} << 20;
/// Compares and operations of either list, each counted on its own. Enough for a table of 4,096
/// shards.
inline constexpr size_t kTransactionOpsMax = 8192;
/// Events that one Watch::next returns at most, rounded up to whole revisions.
inline constexpr size_t kWatchBatchMax = 1024;

struct KeyValue {
  std::string key;
  std::string value;
  uint64_t create_revision = 0;
  uint64_t mod_revision = 0;

  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

/// Holds if the key's mod_revision is `mod_revision`; 0 means "the key does not exist".
struct Compare {
  std::string key;
  uint64_t mod_revision = 0;

  static Compare absent(std::string key) { return {std::move(key), 0}; }
  static Compare unchanged(std::string key, uint64_t mod_revision) { return {std::move(key), mod_revision}; }
};

struct Operation {
  enum class Kind { kPut, kDelete, kDeletePrefix };
  Kind kind = Kind::kPut;
  /// The prefix for kDeletePrefix.
  std::string key;
  std::string value;

  static Operation put(std::string key, std::string value) { return {Kind::kPut, std::move(key), std::move(value)}; }
  /// Deleting what does not exist is no change.
  static Operation erase(std::string key) { return {Kind::kDelete, std::move(key), {}}; }
  static Operation erase_prefix(std::string prefix) { return {Kind::kDeletePrefix, std::move(prefix), {}}; }
};

/// `then_ops` run if all compares hold, else `else_ops`. A key that a list puts must not be put or
/// deleted by another operation of that list: a watch shows one event per key and revision.
struct Transaction {
  std::vector<Compare> compares;
  std::vector<Operation> then_ops;
  std::vector<Operation> else_ops;
};

struct TransactionResult {
  /// Whether the compares held.
  bool succeeded = false;
  /// The store's revision after the transaction; a new one only if an operation changed something.
  uint64_t revision = 0;
};

struct GetResult {
  /// Nothing if the key does not exist.
  std::optional<KeyValue> kv;
  /// The store's revision at which this was read.
  uint64_t revision = 0;
};

struct RangeResult {
  /// Sorted by key.
  std::vector<KeyValue> kvs;
  uint64_t revision = 0;
};

struct WatchEvent {
  enum class Kind { kPut, kDelete };
  Kind kind = Kind::kPut;
  /// For a deletion: the key and, as mod_revision, the revision of the deletion.
  KeyValue kv;

  friend bool operator==(const WatchEvent&, const WatchEvent&) = default;
};

struct WatchBatch {
  /// In order of revision, whole revisions only; within a revision in no promised order. Empty if
  /// nothing arrived within the timeout.
  std::vector<WatchEvent> events;
  /// Everything up to and including this revision has been delivered. Not older than the last event;
  /// how much newer depends on the implementation.
  uint64_t revision = 0;
};

/// A reader of the history. It pulls, so a slow one costs no memory; one that is slower than
/// compaction gets an error.
class Watch {
 public:
  virtual ~Watch() = default;

  /// The next events of the watched prefix, waiting up to `timeout_ns` for some. OUT_OF_RANGE when
  /// the history it needs has been compacted away: read everything again, then watch from the
  /// revision of that read + 1. UNAVAILABLE when the store cannot be reached: the next call goes on
  /// where this one stopped. A store in this process delivers everything that has happened whatever
  /// the timeout; one across a network what has arrived. Thread: one at a time.
  virtual absl::StatusOr<WatchBatch> next(DurationNs timeout_ns) = 0;
};

/// Thread: any, for all methods. Methods block on the disk or network; never call them from a
/// polling thread.
class MetadataStore {
 public:
  virtual ~MetadataStore() = default;

  /// One key, linearizable. UNAVAILABLE, DATA_LOSS (what is stored cannot be read).
  virtual absl::StatusOr<GetResult> get(const std::string& key) = 0;

  /// All keys that start with `prefix`, in one revision. Errors as for get.
  virtual absl::StatusOr<RangeResult> range(const std::string& prefix) = 0;

  /// Runs a transaction; when OK is returned it is on stable storage. INVALID_ARGUMENT (a bound is
  /// exceeded, operations conflict): nothing happened. Any other error: it may have happened.
  virtual absl::StatusOr<TransactionResult> transact(const Transaction& transaction) = 0;

  /// Follows changes of keys with `prefix` from `from_revision` on, that revision included; 0 means
  /// from the next change. OUT_OF_RANGE as for Watch::next. The store must outlive the watch.
  virtual absl::StatusOr<std::unique_ptr<Watch>> watch(const std::string& prefix, uint64_t from_revision) = 0;

  /// Forgets the history before `revision`; current values stay. Going back is no change;
  /// OUT_OF_RANGE if `revision` is in the future.
  virtual absl::Status compact(uint64_t revision) = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_METADATA_STORE_H_
