// Shards kept in RocksDB: one database each, in <dir>/<table_id>-<shard>/, with memory and background threads shared.
//
// A database directory is made aside (.new-...), synced and renamed, so one that has its name is whole; it is removed
// the same way round (.trash-...). Leftovers of both are removed when next met.
#ifndef SKUA_KVSTORE_STORAGE_ROCKSDB_ENGINE_H_
#define SKUA_KVSTORE_STORAGE_ROCKSDB_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

struct RocksdbOptions {
  size_t cache_bytes = size_t{384} << 20;         ///< uncompressed blocks, indexes, filters, memtables: of all shards
  size_t write_buffer_bytes = size_t{128} << 20;  ///< of it, memtables; above, the largest is flushed
  int background_threads = 2;                     ///< flushes and compactions of all shards
  uint64_t (*now_ms)() = nullptr;                 ///< unix time, for rows that expire; null: the system's. Thread: any
};

/// Thread: any. Databases that it opened must be destroyed before it.
class RocksdbEngine {
 public:
  virtual ~RocksdbEngine() = default;

  enum class IfMissing { kCreate, kFail };

  /// Opens the shard's database below `dir`, which must exist. Waits for the disk. Data of format 1, which RocksDB's own
  /// log vouched for, becomes format 2, which builds that know format 1 only refuse. Errors: NOT_FOUND (kFail and it is
  /// missing), FAILED_PRECONDITION (open in another process or already here, or the directory holds another shard or a
  /// newer format), DATA_LOSS (corrupt), INTERNAL (I/O), each naming the path.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<ShardDb>> open_db(const std::string& dir, ShardId id,
                                                                         IfMissing if_missing = IfMissing::kCreate) = 0;

  /// Removes the shard's data for good; its ShardDb must be destroyed. OK if there is none.
  [[nodiscard]] virtual absl::Status destroy_shard(const std::string& dir, ShardId id) = 0;

  /// Changes cache_bytes. What is too much goes at once, but for what is in use and for memtables.
  virtual void set_cache_bytes(size_t /*bytes*/) {}
  /// What the cache holds, memtables included.
  [[nodiscard]] virtual size_t cache_used_bytes() const { return 0; }

  /// The shards that have a database below `dir`, sorted.
  [[nodiscard]] virtual absl::StatusOr<std::vector<ShardId>> list_shards(const std::string& dir) = 0;
};

/// Never fails; the memory is taken as it is used.
[[nodiscard]] std::unique_ptr<RocksdbEngine> make_rocksdb_engine(const RocksdbOptions& options);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_ENGINE_H_
