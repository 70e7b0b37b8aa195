// Keeps shards in RocksDB: one database per shard, in <dir>/<table_id>-<shard>/. All databases share memory and
// background threads.
//
// A database directory is made under another name (.new-...), synced, and renamed, so a directory that has a shard's
// name is complete. To be removed it is renamed first (.trash-...). Leftovers of both are removed when the shard is
// next created or destroyed, or by files::remove_leftovers().
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
#include "kvstore/types/machine_clock.h"

namespace skua::kv {

struct RocksdbOptions {
  size_t cache_bytes = size_t{384} << 20;         ///< of all shards: uncompressed blocks, indexes, filters, memtables
  size_t write_buffer_bytes = size_t{128} << 20;  ///< the part for memtables; above it, the largest is flushed
  int background_threads = 2;                     ///< for flushes and compactions of all shards
  const MachineClock* clock = &MachineClock::system();  ///< for rows that expire; outlives the engine
};

/// Opens and removes databases of shards. Thread: any. The databases that it opened must be destroyed before it.
class RocksdbEngine {
 public:
  virtual ~RocksdbEngine() = default;

  enum class IfMissing { kCreate, kFail };

  /// Opens the shard's database below `dir`, which must exist. Waits for the disk. Data of an older format gets the
  /// present one (kMetaFormat in rocksdb_internal.h), which builds that do not know it refuse. Errors: NOT_FOUND (kFail
  /// and it is missing), FAILED_PRECONDITION (open in another process or already here, or the directory holds another
  /// shard or a newer format), DATA_LOSS (corrupt), RESOURCE_EXHAUSTED (the disk is full), INTERNAL (I/O), each naming
  /// the path.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<ShardDb>> open_db(const std::string& dir, ShardId id,
                                                                         IfMissing if_missing = IfMissing::kCreate) = 0;

  /// Removes the shard's data for good. Its ShardDb must be destroyed before. OK if there is no data.
  [[nodiscard]] virtual absl::Status destroy_shard(const std::string& dir, ShardId id) = 0;

  /// Changes cache_bytes. What exceeds it is dropped at once, except blocks in use and memtables.
  virtual void set_cache_bytes(size_t /*bytes*/) {}
  /// Bytes that the cache holds, memtables included.
  [[nodiscard]] virtual size_t cache_used_bytes() const { return 0; }

  /// The shards that have a database below `dir`, sorted.
  [[nodiscard]] virtual absl::StatusOr<std::vector<ShardId>> list_shards(const std::string& dir) = 0;
};

/// Never fails. Memory is allocated as it is used.
[[nodiscard]] std::unique_ptr<RocksdbEngine> make_rocksdb_engine(const RocksdbOptions& options);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_ENGINE_H_
