// What a node does with its memory: one budget (--memory), divided once, at start. Pure.
//
//    |  program  | queues | memory tier         | RocksDB: blocks + memtables | messages      | log groups |
//    |  48 MiB   | 12 MiB |                     |                             |               |            |
//    |           | each   | each worker's part  | one cache for all shards    | each worker's | each       |
//      minimum:             16 MiB each           16 MiB                        16 MiB each     4 MiB each
//      of what is more:     the rest (15/32)      3/8                           1/8             1/32, at most 32 MiB
//
// `program` is code, libraries, gRPC, stacks and what malloc keeps; `queues` are a worker's rings, which have their size whatever
// the budget is. Memtables are charged to the cache, so that what is written displaces what was read. A share that was given by
// an option of its own is taken as given, and the others divide what is left.
//
// Messages and log groups seldom need all of their share, and nothing tells beforehand what malloc loses between its blocks. So
// the cache is elastic: MemoryWatch (memory_watch.h) looks at what the process really has, and next_cache_bytes() lets the cache
// have what nobody else uses, or take less than its share while somebody else has more.
#ifndef SKUA_KVSTORE_NODE_MEMORY_BUDGET_H_
#define SKUA_KVSTORE_NODE_MEMORY_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace skua::kv {

/// Bytes; 0: a share of the whole.
struct MemoryWishes {
  size_t node = 0;
  uint32_t workers = 1;
  size_t cache = 0;      ///< memtables included
  size_t memtables = 0;  ///< all shards together
  size_t messages = 0;   ///< per worker
};

/// Bytes.
struct MemoryBudget {
  size_t node = 0;
  size_t program = 0;    ///< with all workers' queues
  size_t tier = 0;       ///< all workers together
  size_t cache = 0;      ///< memtables included
  size_t memtables = 0;  ///< of the cache
  size_t messages = 0;   ///< per worker
  size_t log_group = 0;  ///< per worker

  /// How far the cache may go from its share; both are the share if that was given.
  size_t cache_min = 0;
  size_t cache_max = 0;
};

/// INVALID_ARGUMENT: the whole is less than the minimum, which it names, or a given share is too small.
[[nodiscard]] absl::StatusOr<MemoryBudget> split_memory(const MemoryWishes& wishes);

/// What the cache should have now that it has `cache` and the whole process has `resident` bytes. It gives up at once what is too
/// much, and takes half of what is free.
[[nodiscard]] size_t next_cache_bytes(const MemoryBudget& budget, size_t resident, size_t cache);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_MEMORY_BUDGET_H_
