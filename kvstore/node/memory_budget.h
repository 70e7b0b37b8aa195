// Divides the memory budget of a node (--memory) among its consumers. The division happens once, at start. Pure.
//
//    |  program  | queues | memory tier         | RocksDB: blocks + memtables | messages      | log groups |
//    |  48 MiB   | 12 MiB |                     |                             |               |            |
//    |           | each   | each worker's part  | one cache for all shards    | each worker's | each       |
//      minimum:             16 MiB each           16 MiB                        16 MiB each     4 MiB each
//      of what is more:     the rest (15/32)      3/8                           1/8             1/32, at most 32 MiB
//
// `program` is code, libraries, gRPC, stacks and memory that malloc retains. `queues` are the rings of a worker; their
// size does not depend on the budget. Memtables are charged to the cache, so that writes displace cached reads. A share
// that has its own option is taken as given. The other shares divide the rest.
//
// Messages and log groups seldom need their whole share, and the fragmentation loss of malloc is unknown in advance. So
// the cache is elastic. MemoryWatch (memory_watch.h) compares the resident memory of the process with the budget.
// next_cache_bytes() then gives memory that others leave unused to the cache, or shrinks the cache below its share
// while others use more than theirs.
#ifndef SKUA_KVSTORE_NODE_MEMORY_BUDGET_H_
#define SKUA_KVSTORE_NODE_MEMORY_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace skua::kv {

/// Bytes. 0: split_memory() chooses the share. (`node` must be given.)
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
  size_t program = 0;    ///< includes the queues of all workers
  size_t tier = 0;       ///< all workers together
  size_t cache = 0;      ///< memtables included
  size_t memtables = 0;  ///< part of `cache`
  size_t messages = 0;   ///< per worker
  size_t log_group = 0;  ///< per worker

  /// Bounds of the elastic cache. Both equal `cache` if that was given by an option.
  size_t cache_min = 0;
  size_t cache_max = 0;
};

/// INVALID_ARGUMENT: `node` is less than the minimum (the message says the minimum), or a given share is too small or
/// too large.
[[nodiscard]] absl::StatusOr<MemoryBudget> split_memory(const MemoryWishes& wishes);

/// The new size of the cache, from its current size `cache` and the resident bytes of the whole process. The cache
/// shrinks at once by all that is too much, and grows by half of what is free.
[[nodiscard]] size_t next_cache_bytes(const MemoryBudget& budget, size_t resident, size_t cache);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_MEMORY_BUDGET_H_
