// Keeps the process within its memory budget: once a second it compares what is resident with the budget, and makes RocksDB's
// cache larger or smaller accordingly (memory_budget.h). What a smaller cache let go is given back to the system.
//
// What was resident before the node started beyond the program's share (packet buffers of DPDK in plain memory) is not counted.
#ifndef SKUA_KVSTORE_NODE_MEMORY_WATCH_H_
#define SKUA_KVSTORE_NODE_MEMORY_WATCH_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/storage/rocksdb_engine.h"

namespace skua::kv {

/// Resident memory of this process; huge pages of hugetlbfs are not in it.
[[nodiscard]] absl::StatusOr<size_t> resident_bytes();

class MemoryWatch {
 public:
  /// Starts the thread. `engine` outlives the watch.
  MemoryWatch(const MemoryBudget& budget, RocksdbEngine& engine);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

 private:
  void run();
  void look();

  const MemoryBudget budget_;
  RocksdbEngine& engine_;
  size_t foreign_bytes_ = 0;
  size_t cache_bytes_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_MEMORY_WATCH_H_
