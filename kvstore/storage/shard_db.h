// The durable, ordered tier of a shard: everything that the worker's log has committed ends here.
//
//    worker --- committed effects ---> Applier --- apply(effects, index) ---> ShardDb --- flush() ---> durable up to index
//       |                                                                        ^
//       +--- what memory does not have --- ReaderPool --- get, scan -------------+
//
// It has no log of its own. After a crash it is as it was at some apply(), not older than the last flush(); applied_index()
// tells which, and the worker's log has what is behind it. Every value carries its version: the index of its last write.
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
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Which keys a scan visits, in byte order.
struct KeyRange {
  std::string_view start{};      ///< empty: from the first key
  bool start_exclusive = false;  ///< begin after `start`
  std::string_view end{};        ///< exclusive; empty: to the last key
  uint64_t now_ms = 0;           ///< unix time: rows that have expired are passed over
};

/// The range of a SCAN request, its resume token applied. INVALID_ARGUMENT if the token is foreign.
[[nodiscard]] absl::StatusOr<KeyRange> key_range_of(const ScanRequest& request);

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

/// A key's state after the write of that index. A key of more than kKeyBytesMax bytes is the engine's own: a row that users
/// do not see (completion_rows.h).
struct AppliedEffect {
  std::string_view key{};
  std::optional<ByteSpan> value{};  ///< nullopt: deleted
  uint64_t version = 0;
  uint64_t expires_at = 0;  ///< unix time in ms from which on the key is absent; 0: never
};

/// A row of the engine's own.
struct InternalRow {
  std::string key;
  std::string value;
  uint64_t version = 0;  ///< as AppliedEffect's
};

/// Thread: apply, ingest and flush: one at a time; the others: any, also meanwhile.
class ShardDb {
 public:
  virtual ~ShardDb() = default;

  [[nodiscard]] virtual ShardId id() const = 0;

  /// Makes `effects` (no key twice) visible, all at once, together with `applied_index`. May wait for
  /// the disk. An error leaves what was there before.
  [[nodiscard]] virtual absl::Status apply(std::span<const AppliedEffect> effects, uint64_t applied_index) = 0;

  /// As apply, for very many effects, sorted by key: they come as a table file, past the memtable, and are durable.
  [[nodiscard]] virtual absl::Status ingest(std::span<const AppliedEffect> sorted_effects, uint64_t applied_index) = 0;

  /// Makes what was applied durable; waits for the disk. Returns the index up to which everything is durable.
  [[nodiscard]] virtual absl::StatusOr<uint64_t> flush() = 0;

  /// Makes `path`, an absolute one on the same file system, a directory with the database as it was at some apply, not older
  /// than the last one before the call. Its table files are shared with this one. May wait for the disk.
  [[nodiscard]] virtual absl::Status checkpoint(const std::string& path);

  /// Index of the last apply.
  [[nodiscard]] virtual uint64_t applied_index() const = 0;

  /// The engine's own rows, as they were when the database was opened; the second call returns nothing, unless they were given
  /// back, perhaps changed.
  [[nodiscard]] virtual std::vector<InternalRow> take_internal_rows() { return {}; }
  virtual void give_back_internal_rows(std::vector<InternalRow>&& /*rows*/) {}

  /// May wait for the disk. OK, NOT_FOUND, or what the storage says (DATA_LOSS: a checksum is wrong). The value may have
  /// expired: see PinnedValue::expires_at.
  [[nodiscard]] virtual absl::Status get(std::string_view key, PinnedValue& out) = 0;

  /// Visits the rows of `range` on one snapshot; may wait for the disk.
  [[nodiscard]] virtual absl::StatusOr<ScanEnd> scan(const KeyRange& range, RowVisitor visit) = 0;

  /// For operators; estimates may be far off. May wait for a lock.
  [[nodiscard]] virtual StoreStats stats() const = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_SHARD_DB_H_
