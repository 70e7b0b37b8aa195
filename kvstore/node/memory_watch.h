// Keeps the process within its memory budget. Once a second it compares the resident memory with the budget and resizes
// RocksDB's cache (memory_budget.h). Memory that a smaller cache frees is returned to the system.
//
// Memory that was resident before the node started, beyond the program's share, is not counted. An example is DPDK's
// packet buffers in normal pages.
#ifndef SKUA_KVSTORE_NODE_MEMORY_WATCH_H_
#define SKUA_KVSTORE_NODE_MEMORY_WATCH_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/types/task_thread.h"

namespace skua::kv {

/// Resident memory of this process in bytes, without huge pages of hugetlbfs. INTERNAL: /proc cannot be read.
[[nodiscard]] absl::StatusOr<size_t> resident_bytes();

/// What the watch does at each look. Thread: one.
class ElasticCache {
 public:
  /// `resident_at_start`: bytes, before the node started. `engine`, whose cache has the size `budget.cache`, outlives
  /// this object.
  ElasticCache(const MemoryBudget& budget, RocksdbEngine& engine, size_t resident_at_start);
  /// Resizes the cache, if that is of use. True: it is smaller now.
  bool look(size_t resident);

 private:
  const MemoryBudget budget_;
  RocksdbEngine& engine_;
  const size_t foreign_bytes_;
  size_t cache_bytes_;
};

class MemoryWatch {
 public:
  /// Starts the thread. `engine` outlives the watch. The destructor ends the thread.
  MemoryWatch(const MemoryBudget& budget, RocksdbEngine& engine);
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

 private:
  void look();

  ElasticCache cache_;
  TaskThread thread_{{.name = "memory-watch", .at_intervals = [this] { look(); }}};
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_MEMORY_WATCH_H_
