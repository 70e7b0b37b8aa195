// What the RocksDB sources share; includes RocksDB's headers, so nothing outside of this folder (tests aside) includes
// it.
#ifndef SKUA_KVSTORE_STORAGE_ROCKSDB_INTERNAL_H_
#define SKUA_KVSTORE_STORAGE_ROCKSDB_INTERNAL_H_

#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv::internal {

class Memtables;
class RocksdbBackground;

/// Every stored value starts with its version, u64 little endian. If the version's highest bit is set (no index is so large),
/// the unix time in ms from which on the key is absent follows, another u64.
inline constexpr size_t kVersionPrefixBytes = sizeof(uint64_t);
inline constexpr size_t kValuePrefixBytesMax = 2 * sizeof(uint64_t);
inline constexpr uint64_t kHasExpiryBit = uint64_t{1} << 63;

/// The database's record about itself lies at the empty key, which no user key can be:
///    0 u32 format   4 u32 table_id   8 u32 shard   12 u32 0   16 u64 last_index
/// It is written with each batch, so last_index survives deletes and restarts. Format 1 had a log of its own in RocksDB; it
/// is read, and becomes format 5 when it is opened. Format 2 knew no expiry and no rows but users', format 3 no row about
/// the shard's lives, format 4 no floor of forgotten clients.
inline constexpr uint32_t kMetaFormat = 5;
struct Meta {
  ShardId id;
  uint64_t last_index = 0;
  uint32_t format = kMetaFormat;
  bool expiring_blobs = false;  ///< some value in a blob file has, or had, a time when it expires
};
inline constexpr std::string_view kMetaKey{};
inline constexpr size_t kMetaBytes = 24;
[[nodiscard]] std::string encode_meta(const Meta& meta);
/// FAILED_PRECONDITION for a newer format, DATA_LOSS for another size.
[[nodiscard]] absl::StatusOr<Meta> decode_meta(std::string_view bytes);

inline rocksdb::Slice to_slice(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string_view to_view(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}
inline ByteSpan to_bytes(const rocksdb::Slice& slice) {
  return as_byte_span(to_view(slice));
}

/// RocksDB's outcome with `what` was tried, on which path, in the nearest code.
[[nodiscard]] absl::Status to_status(const rocksdb::Status& status, const char* what, const std::string& path);

/// The record about itself of the database at `path`. FAILED_PRECONDITION if it is another shard's, or no shard's, or newer;
/// DATA_LOSS.
[[nodiscard]] absl::StatusOr<Meta> check_database(rocksdb::DB& db, const std::string& path, ShardId id);

/// A stored value taken apart; nullopt if it is shorter than its version.
struct Versioned {
  uint64_t version;
  ByteSpan value;
  uint64_t expires_at;  ///< 0: never
};
[[nodiscard]] std::optional<Versioned> split_version(const rocksdb::Slice& stored);

/// What stands before a value; a view of `buffer`.
[[nodiscard]] std::string_view encode_value_prefix(uint64_t version, uint64_t expires_at,
                                                   std::array<char, kValuePrefixBytesMax>& buffer);

/// Rows of the engine's own have longer keys than users' may be (completion_rows.h).
[[nodiscard]] inline bool is_internal_key(const rocksdb::Slice& key) {
  return key.size() > kKeyBytesMax;
}
/// Where they begin, and the first place behind them: all start with kKeyBytesMax zeros.
[[nodiscard]] std::string internal_keys_begin();
[[nodiscard]] std::string internal_keys_end();

/// Values from this size on, with what stands before them, go to blob files, so that compactions do not carry them along.
inline constexpr uint64_t kBlobBytesMin = uint64_t{64} << 10;

/// Meta::expiring_blobs of a database that is open; its compactions look at it.
using ExpiringBlobs = std::shared_ptr<std::atomic<bool>>;

/// Drops rows that have expired by `now_ms`, which may be called on any thread; null: the system's clock. Reads values in
/// blob files, whole, where some may have expired.
[[nodiscard]] std::shared_ptr<rocksdb::CompactionFilterFactory> make_expiry_filter(
    uint64_t (*now_ms)(), ExpiringBlobs expiring_blobs = nullptr);

/// `open_count` counts the databases that are open. `internal_rows`: what became of reading the engine's own rows, which
/// ShardDb::take_internal_rows() gives out; null: they are not read. `memtables`: told of writes; null: there are none.
/// `background`: the database's listener; null: it has none.
[[nodiscard]] std::unique_ptr<ShardDb> make_rocksdb_shard_db(std::unique_ptr<rocksdb::DB> db, const Meta& meta,
                                                             std::atomic<int>& open_count,
                                                             absl::Status* internal_rows = nullptr,
                                                             Memtables* memtables = nullptr,
                                                             ExpiringBlobs expiring_blobs = nullptr,
                                                             std::shared_ptr<RocksdbBackground> background = nullptr);

/// As make_rocksdb_engine, over an Env that outlives the engine: fault injection.
[[nodiscard]] std::unique_ptr<RocksdbEngine> make_rocksdb_engine_on(const RocksdbOptions& options, rocksdb::Env* env);

}  // namespace skua::kv::internal

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_INTERNAL_H_
