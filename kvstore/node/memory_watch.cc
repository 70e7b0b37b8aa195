#include "kvstore/node/memory_watch.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace skua::kv {

absl::StatusOr<size_t> resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t mapped_pages = 0;
  size_t resident_pages = 0;
  if (!(statm >> mapped_pages >> resident_pages)) return absl::InternalError("reading /proc/self/statm");
  return resident_pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

MemoryWatch::MemoryWatch(const MemoryBudget& budget, RocksdbEngine& engine)
    : budget_(budget),
      engine_(engine),
      foreign_bytes_([&] {
        const size_t resident = resident_bytes().value_or(0);
        return resident - std::min(resident, budget.program);
      }()),
      cache_bytes_(budget.cache) {}

void MemoryWatch::look() {
  const auto resident = resident_bytes();
  if (!resident.ok()) return;
  const size_t ours = *resident - std::min(*resident, foreign_bytes_);
  // A larger limit is of no use to a cache that is not full yet.
  const bool fills = engine_.cache_used_bytes() < cache_bytes_ / 32 * 31;
  const size_t wanted = next_cache_bytes(budget_, ours, cache_bytes_);
  if (wanted == cache_bytes_ || (wanted > cache_bytes_ && fills)) return;
  engine_.set_cache_bytes(wanted);
#ifdef __GLIBC__
  if (wanted < cache_bytes_) ::malloc_trim(0);
#endif
  cache_bytes_ = wanted;
}

}  // namespace skua::kv
