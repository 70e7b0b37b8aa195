// What the rest of the node sees of a shard's data: a versioned, ordered, durable map from keys to values.
//
//    worker ----- try_get ----------------------------> hit, not found, or "would block"
//      |                                                            |
//      +---- LogThread:  apply(group) --> one synced batch          +--> ReaderPool: get, scan
//
// Every key that exists has a version: the shard's index of its last write. Indices rise by one with each mutation that
// takes effect, in the order of apply, and never go back or repeat, not through deletes and not through a restart.
// Version 0 means "absent".
//
// A read that begins after apply() returned sees that group. While apply() runs a read sees the state before it or
// after it, per key and never back again.
#ifndef SKUA_KVSTORE_ENGINE_SHARD_STORE_H_
#define SKUA_KVSTORE_ENGINE_SHARD_STORE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/status.h"
#include "kvstore/engine/pinned_value.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A shard of a table on this node.
struct ShardId {
  uint32_t table_id = 0;
  uint32_t shard = 0;

  friend auto operator<=>(const ShardId&, const ShardId&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14
};

/// One write, as views that the submitter keeps alive until its result is there.
struct Mutation {
  enum class Kind : uint8_t { kPut, kDelete, kPatch };
  Kind kind = Kind::kPut;
  bool create_if_missing = false;  ///< kPatch: a missing key is an empty row
  Condition condition{};           ///< kPut, kDelete
  std::string_view key{};
  ByteSpan value{};  ///< kPut: the value; kPatch: the fields in row format

  static Mutation put(std::string_view key, ByteSpan value, Condition condition = {}) {
    return {Kind::kPut, false, condition, key, value};
  }
  static Mutation remove(std::string_view key, Condition condition = {}) {
    return {Kind::kDelete, false, condition, key, {}};
  }
  static Mutation patch(std::string_view key, ByteSpan fields, bool create_if_missing) {
    return {Kind::kPatch, create_if_missing, {}, key, fields};
  }
};

/// What became of a mutation.
///   kOk               done; version = its index
///   kNotFound         DELETE or PATCH of a key that is absent; version = 0
///   kAlreadyExists    if_absent; version = the key's
///   kVersionMismatch  if_version; version = the key's, 0 if absent
///   kNotARow          PATCH of a value that is not a row; version = the key's
///   kInvalidArgument  key or value outside of codec/limits.h, a malformed patch, or a patched row
///   above the limits kStorageFailed    the group's write or sync failed; it may or may not survive
///   a restart kShardReadOnly    refused because an earlier group failed (ShardStore::health says
///   how); not applied
struct MutationResult {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;

  friend bool operator==(const MutationResult&, const MutationResult&) = default;
};

enum class ReadOutcome : uint8_t { kHit, kNotFound, kWouldBlock };

/// Which keys a scan visits, in byte order.
struct ScanRange {
  std::string_view start{};      ///< empty: from the first key
  bool start_exclusive = false;  ///< begin after `start`
  std::string_view end{};        ///< exclusive; empty: to the last key
};

/// The range of a SCAN request, its resume token applied. INVALID_ARGUMENT if the token is foreign.
[[nodiscard]] absl::StatusOr<ScanRange> scan_range(const ScanRequest& request);

/// How a scan ended.
struct ScanEnd {
  bool has_more = false;  ///< the visitor refused a row
  uint64_t index = 0;     ///< the page shows every write up to this index, and perhaps later ones
};

/// Called per row; false stops the scan and says that the row was not taken. The views are valid during the call.
using RowVisitor = absl::FunctionRef<bool(const ScanRow&)>;

struct StoreStats {
  uint64_t last_index = 0;
  uint64_t keys_estimate = 0;
  uint64_t disk_bytes = 0;
};

/// Thread: try_get, get, scan, last_index, health, stats: any, also while apply runs. apply: one thread at a time.
class ShardStore {
 public:
  virtual ~ShardStore() = default;

  [[nodiscard]] virtual ShardId id() const = 0;

  /// Looks in memory only: never waits for a disk. kWouldBlock: ask get(), on a thread that may wait (also when reading
  /// failed: get() then says how). `out` is filled on kHit, else left as it was.
  [[nodiscard]] virtual ReadOutcome try_get(std::string_view key, PinnedValue& out) = 0;

  /// Looks everywhere; may wait for a disk. OK, NOT_FOUND, or what the storage says (DATA_LOSS: a checksum is wrong).
  [[nodiscard]] virtual absl::Status get(std::string_view key, PinnedValue& out) = 0;

  /// Evaluates `group` in order, each mutation against the state that the ones before it left, makes all that take
  /// effect durable as one batch and one sync, then fills `results` (same size, checked). Waits for the disk. An error
  /// means that the write or the sync failed: every result is kStorageFailed, nothing of the group is visible, and from
  /// now on each mutation gets kShardReadOnly. A failed sync is not tried again, because the kernel may have dropped
  /// the pages it could not write.
  [[nodiscard]] virtual absl::Status apply(std::span<const Mutation> group, std::span<MutationResult> results) = 0;

  /// Visits the rows of `range` on one snapshot; may wait for a disk.
  [[nodiscard]] virtual absl::StatusOr<ScanEnd> scan(const ScanRange& range, RowVisitor visit) = 0;

  /// Index of the last mutation that took effect and is durable.
  [[nodiscard]] virtual uint64_t last_index() const = 0;

  /// OK, or why the store refuses writes.
  [[nodiscard]] virtual absl::Status health() const = 0;

  /// For operators; estimates may be far off. May wait for a lock.
  [[nodiscard]] virtual StoreStats stats() const = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_SHARD_STORE_H_
