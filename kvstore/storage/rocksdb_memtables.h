// Keeps the memtables of all databases together within their memory.
//
//    |  being flushed   |            written to: A        B    C          D            |
//    0                                                                           3/4   1   of the memory
//
// When the memtables that are being written to take more than three quarters of the memory, the largest of them is
// flushed, whichever database was written last. RocksDB by itself would flush the memtable of the last writer, and so
// write many small tables. When all memtables together take more than the memory, a writer waits for the flush.
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
  /// `bytes` is the memory for all memtables; what they take is charged to `cache`.
  Memtables(size_t bytes, const std::shared_ptr<rocksdb::Cache>& cache);

  /// The manager that the databases must be opened with.
  [[nodiscard]] const std::shared_ptr<rocksdb::WriteBufferManager>& manager() const { return manager_; }

  /// Adds an open database. `background` is its listener. Both must stay until remove().
  void add(rocksdb::DB& db, RocksdbBackground& background);
  /// Must be called before the database is closed.
  void remove(rocksdb::DB& db);

  /// Must be called after each write; may wait for a flush. If the flush fails, the database refuses the next write.
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
