#include "kvstore/gateway/table_flush.h"

#include "kvstore/gateway/command_run.h"

namespace skua::kv::gateway {

StoreRequest TableFlush::page() const {
  return {.kind = StoreRequest::Kind::kScan, .key = start_, .rows_max = kRequestsPerCommandMax, .keys_only = true};
}

void TableFlush::take(const StoreResult& page) {
  removals_.clear();
  for (const Row& row : page.scan->rows) removals_.push_back({.kind = StoreRequest::Kind::kRemove, .key = row.key});
  key_count_ += removals_.size();
  has_more_ = page.scan->has_more;
  start_ = page.scan->next_start;
}

void TableFlush::add_removed(std::span<const StoreResult> results) {
  for (const StoreResult& result : results) tally_.add(result);
}

}  // namespace skua::kv::gateway
