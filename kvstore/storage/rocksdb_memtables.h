// Keeps the memtables of all databases together within their memory.
//
//    |  being flushed   |            written to: A        B    C          D            |
//    0                                                                           3/4   1   of the memory
//
// When those that are written to have more than three quarters of the memory, the largest one is flushed, whoever wrote last:
// RocksDB itself would flush the writer's, and write many tables of next to nothing. When all together have more than the memory, a
// writer waits for that flush.
#ifndef SKUA_KVSTORE_STORAGE_ROCKSDB_MEMTABLES_H_
#define SKUA_KVSTORE_STORAGE_ROCKSDB_MEMTABLES_H_

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/write_buffer_manager.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace skua::kv::internal {

class RocksdbBackground;

/// Thread: any.
class Memtables {
 public:
  /// `bytes` are charged to `cache`.
  Memtables(size_t bytes, const std::shared_ptr<rocksdb::Cache>& cache);

  /// What the databases are opened with.
  [[nodiscard]] const std::shared_ptr<rocksdb::WriteBufferManager>& manager() const { return manager_; }

  /// `background`: the database's listener, which outlives it here.
  void add(rocksdb::DB& db, RocksdbBackground& background);
  /// Before it is closed.
  void remove(rocksdb::DB& db);

  /// After each write. A flush that fails makes the database refuse the next write.
  void make_room();

 private:
  struct Open {
    rocksdb::DB* db = nullptr;
    RocksdbBackground* background = nullptr;
  };
  [[nodiscard]] Open largest() const;

  const size_t bytes_;
  const std::shared_ptr<rocksdb::WriteBufferManager> manager_;
  std::mutex mutex_;
  std::vector<Open> databases_;
};

}  // namespace skua::kv::internal

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_MEMTABLES_H_
