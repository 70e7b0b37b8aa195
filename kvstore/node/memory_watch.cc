#include "kvstore/node/memory_watch.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace skua::kv {

absl::StatusOr<size_t> resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t mapped_pages = 0;
  size_t resident_pages = 0;
  if (!(statm >> mapped_pages >> resident_pages)) return absl::InternalError("reading /proc/self/statm");
  return resident_pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

ElasticCache::ElasticCache(const MemoryBudget& budget, RocksdbEngine& engine, size_t resident_at_start)
    : budget_(budget),
      engine_(engine),
      foreign_bytes_(resident_at_start - std::min(resident_at_start, budget.program)),
      cache_bytes_(budget.cache) {}

bool ElasticCache::look(size_t resident) {
  const size_t ours = resident - std::min(resident, foreign_bytes_);
  // A larger limit is of no use to a cache that is not full yet.
  const bool fills = engine_.cache_used_bytes() < cache_bytes_ / 32 * 31;
  const size_t wanted = next_cache_bytes(budget_, ours, cache_bytes_);
  if (wanted == cache_bytes_ || (wanted > cache_bytes_ && fills)) return false;
  engine_.set_cache_bytes(wanted);
  return wanted < std::exchange(cache_bytes_, wanted);
}

MemoryWatch::MemoryWatch(const MemoryBudget& budget, RocksdbEngine& engine)
    : cache_(budget, engine, resident_bytes().value_or(0)) {}

void MemoryWatch::look() {
  const auto resident = resident_bytes();
  if (!resident.ok()) return;
  [[maybe_unused]] const bool is_smaller = cache_.look(*resident);
#ifdef __GLIBC__
  if (is_smaller) ::malloc_trim(0);
#endif
}

}  // namespace skua::kv
