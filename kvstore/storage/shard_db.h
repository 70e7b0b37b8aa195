// The durable, ordered tier of a shard. Everything that the worker's log has committed ends here.
//
//    worker --- committed effects ---> Applier --- apply(effects, index) ---> ShardDb --- flush() ---> durable to index
//       |                                                                        ^
//       +--- what memory does not have --- ReaderPool --- get, scan -------------+
//
// The database has no log of its own. After a crash it is as it was after some apply() that is not older than the last
// flush(). applied_index() tells which, and the worker's log has everything behind it. Every value has its version: the
// index of its last write.
#ifndef SKUA_KVSTORE_STORAGE_SHARD_DB_H_
#define SKUA_KVSTORE_STORAGE_SHARD_DB_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/pinned_value.h"
#include "kvstore/types/record_mark.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr size_t kRowsBetweenStops = 256;

/// Which keys a scan visits, in byte order.
struct KeyRange {
  std::string_view start{};      ///< empty: from the first key
  bool start_exclusive = false;  ///< begin after `start`
  std::string_view end{};        ///< exclusive; empty: to the last key
  uint64_t now_ms = 0;           ///< unix time; rows that have expired by then are not visited
  /// Asked every kRowsBetweenStops rows, and rows that are not visited count. True ends the scan with
  /// DEADLINE_EXCEEDED.
  std::optional<absl::FunctionRef<bool()>> stop = std::nullopt;
};

/// The range of a SCAN request, with its resume token applied. INVALID_ARGUMENT if the token was not made by this
/// service.
[[nodiscard]] absl::StatusOr<KeyRange> key_range_of(const ScanRequest& request);

/// How a scan ended.
struct ScanEnd {
  bool has_more = false;  ///< the visitor refused a row, so rows are left
  uint64_t index = 0;     ///< the page shows every write up to this index, and perhaps later ones
};

/// Called for each row. False stops the scan, and means that the row was not taken. The views are valid during the
/// call.
using RowVisitor = absl::FunctionRef<bool(const ScanRow&)>;

struct StoreStats {
  uint64_t last_index = 0;
  uint64_t keys_estimate = 0;
  uint64_t disk_bytes = 0;
};

/// The state of a key after the write of index `version`. A key of more than kKeyBytesMax bytes is the engine's own: a
/// row that users do not see (completion_rows.h).
struct AppliedEffect {
  std::string_view key{};
  std::optional<ByteSpan> value{};  ///< nullopt: deleted
  uint64_t version = 0;
  uint64_t expires_at = 0;  ///< unix time in ms from which on the key is absent; 0: never
  RecordMark mark{};
};

/// A row of the engine's own, which users do not see.
struct InternalRow {
  std::string key;
  std::string value;
  uint64_t version = 0;  ///< as in AppliedEffect
};

/// Thread: apply(), ingest(), flush() and set_short_of_room() one at a time; all other methods any thread, also during
/// these.
class ShardDb {
 public:
  virtual ~ShardDb() = default;

  [[nodiscard]] virtual ShardId id() const = 0;

  /// Makes `effects` (no key twice) and `applied_index` visible, all at once. May wait for the disk. After an error the
  /// database is as it was before.
  [[nodiscard]] virtual absl::Status apply(std::span<const AppliedEffect> effects, uint64_t applied_index) = 0;

  /// As apply(), for very many effects, which are sorted by key. They are added as a table file, without the memtable,
  /// and are durable at once.
  [[nodiscard]] virtual absl::Status ingest(std::span<const AppliedEffect> sorted_effects, uint64_t applied_index) = 0;

  /// Makes everything durable that was applied; waits for the disk. Returns the index up to which everything is
  /// durable.
  [[nodiscard]] virtual absl::StatusOr<uint64_t> flush() = 0;

  /// The disk is short of room, or has room again. While it is short, the space of rows that were deleted and flushed
  /// goes back to the file system soon, in the background, and not only when the database grows. It takes several
  /// calls.
  virtual void set_short_of_room(bool /*is_short*/) {}
  /// How many calls of set_short_of_room(true) may still bring something, after deletes.
  [[nodiscard]] virtual int room_rounds_left() const { return 0; }

  /// Makes a copy of the database in the directory `path`, an absolute path on the same file system. The copy is as the
  /// database was after some apply(), not older than the last one before the call. It shares its table files with the
  /// database. May wait for the disk.
  [[nodiscard]] virtual absl::Status checkpoint(const std::string& path);

  /// The index of the last apply() or ingest().
  [[nodiscard]] virtual uint64_t applied_index() const = 0;

  /// The engine's own rows, as they were when the database was opened. Returns them once; after that nothing, unless
  /// they were given back, perhaps changed.
  [[nodiscard]] virtual std::vector<InternalRow> take_internal_rows() { return {}; }
  virtual void give_back_internal_rows(std::vector<InternalRow>&& /*rows*/) {}

  /// Reads a key; may wait for the disk. Returns OK, NOT_FOUND, or an error of the storage (DATA_LOSS: a checksum is
  /// wrong). The value may have expired: see PinnedValue::expires_at().
  [[nodiscard]] virtual absl::Status get(std::string_view key, PinnedValue& out) = 0;

  /// Visits the rows of `range` in one snapshot; may wait for the disk.
  [[nodiscard]] virtual absl::StatusOr<ScanEnd> scan(const KeyRange& range, RowVisitor visit) = 0;

  /// For operators. Estimates may be far off. May wait for a lock.
  [[nodiscard]] virtual StoreStats stats() const = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_SHARD_DB_H_
