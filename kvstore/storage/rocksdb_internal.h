// What the RocksDB sources share. It includes RocksDB's headers, so only sources of this folder and tests include it.
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
#include "kvstore/types/record_mark.h"

namespace skua::kv::internal {

class Memtables;
class RocksdbBackground;

/// Every stored value starts with its version, u64 little endian. If the highest bit of the version is set (no index is
/// so large), another u64 follows: the unix time in ms from which on the key is absent. If the bit below is set, a u64
/// with the record's mark follows behind that (types/record_mark.h).
inline constexpr size_t kVersionPrefixBytes = sizeof(uint64_t);
inline constexpr size_t kValuePrefixBytesMax = 2 * sizeof(uint64_t) + kMarkBytes;
inline constexpr uint64_t kHasExpiryBit = uint64_t{1} << 63;
inline constexpr uint64_t kHasMarkBit = uint64_t{1} << 62;

/// The database's record about itself lies at the empty key, which is no user's key:
///    0 u32 format   4 u32 table_id   8 u32 shard   12 u32 flags (1: expiring_blobs)   16 u64 last_index
/// Each batch writes it, so last_index survives deletes and restarts. A database of an older format is read, and gets
/// format 5 when it is opened. Format 1 had RocksDB's own log. Format 2 had no expiry and no rows but users', format 3
/// no row about the shard's lives, format 4 no floor of forgotten clients. Format 6 is format 5 with marks: a database
/// gets it with the first record that has one, and keeps it.
inline constexpr uint32_t kMetaFormat = 5;
inline constexpr uint32_t kMetaFormatWithMarks = 6;
struct Meta {
  ShardId id;
  uint64_t last_index = 0;
  uint32_t format = kMetaFormat;
  bool expiring_blobs = false;  ///< some value in a blob file has, or had, an expiry
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

/// The outcome of RocksDB in the nearest code. The message says `what` was tried, and on which path.
[[nodiscard]] absl::Status to_status(const rocksdb::Status& status, const char* what, const std::string& path);

/// A number that RocksDB tells of a database; 0 if it does not.
[[nodiscard]] inline uint64_t property_of(rocksdb::DB& db, const std::string& name) {
  uint64_t value = 0;
  (void)db.GetIntProperty(name, &value);
  return value;
}

/// Reads and checks the record about itself of the database at `path`. FAILED_PRECONDITION if the database is no
/// shard's, another shard's, or has a newer format; DATA_LOSS.
[[nodiscard]] absl::StatusOr<Meta> check_database(rocksdb::DB& db, const std::string& path, ShardId id);

/// A stored value, taken apart. The value is a view of what was stored.
struct Versioned {
  uint64_t version;
  ByteSpan value;
  uint64_t expires_at;  ///< 0: never
  RecordMark mark;
};
/// nullopt if `stored` is shorter than what must stand before a value, or its mark is none.
[[nodiscard]] std::optional<Versioned> split_version(const rocksdb::Slice& stored);

/// What stands before a value, as a view of `buffer`.
[[nodiscard]] std::string_view encode_value_prefix(uint64_t version, uint64_t expires_at, RecordMark mark,
                                                   std::array<char, kValuePrefixBytesMax>& buffer);

/// True for the key of a row of the engine's own: it is longer than a user's key may be (completion_rows.h).
[[nodiscard]] inline bool is_internal_key(const rocksdb::Slice& key) {
  return key.size() > kKeyBytesMax;
}
/// A key that is not above any of these keys, and a key above all of them. They all start with kKeyBytesMax zeros.
[[nodiscard]] std::string internal_keys_begin();
[[nodiscard]] std::string internal_keys_end();

/// Stored values from this size on go to blob files, so that compactions need not copy them. The size includes what
/// stands before the value.
inline constexpr uint64_t kBlobBytesMin = uint64_t{64} << 10;

/// Meta::expiring_blobs of an open database. Its compactions read it.
using ExpiringBlobs = std::shared_ptr<std::atomic<bool>>;

/// A filter that drops rows that have expired by `clock`, which outlives it. Where some values in blob files may have
/// expired, the filter reads each of these values whole.
[[nodiscard]] std::shared_ptr<rocksdb::CompactionFilterFactory> make_expiry_filter(
    const MachineClock& clock, ExpiringBlobs expiring_blobs = nullptr);

/// An open database, and what watches it.
struct OpenDatabase {
  std::unique_ptr<rocksdb::DB> db;
  Meta meta;
  ExpiringBlobs expiring_blobs;
  std::shared_ptr<RocksdbBackground> background;  ///< its listener; if it was opened for reading only, nobody's
};

/// Makes a ShardDb of an open database. `open_count` counts the databases that are open; it must outlive the ShardDb.
/// `internal_rows` receives the outcome of reading the engine's own rows, which ShardDb::take_internal_rows() gives
/// out. `memtables`: is told of writes; null: there is none.
[[nodiscard]] std::unique_ptr<ShardDb> make_rocksdb_shard_db(OpenDatabase opened, std::atomic<int>& open_count,
                                                             absl::Status& internal_rows,
                                                             Memtables* memtables = nullptr);

/// As make_rocksdb_engine(), over an Env, for fault injection. The Env must outlive the engine.
[[nodiscard]] std::unique_ptr<RocksdbEngine> make_rocksdb_engine_on(const RocksdbOptions& options, rocksdb::Env* env);

}  // namespace skua::kv::internal

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_INTERNAL_H_
