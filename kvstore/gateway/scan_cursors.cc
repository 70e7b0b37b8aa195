#include "kvstore/gateway/scan_cursors.h"

namespace skua::kv::gateway {

/// 2^40 scans take years; then the numbers begin again, and the cursors of old are long forgotten.
uint64_t ScanCursors::next_cursor() {
  constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;
  for (;;) {
    const uint64_t cursor = high_bits_ | (next_number_++ & kNumberMask);
    if (cursor != 0 && !by_cursor_.contains(cursor)) return cursor;
  }
}

uint64_t ScanCursors::remember(uint32_t database, std::string_view next_key) {
  std::lock_guard lock(mutex_);
  if (entries_.size() >= count_max_) {
    by_cursor_.erase(entries_.back().cursor);
    entries_.pop_back();
  }
  const uint64_t cursor = next_cursor();
  entries_.push_front({cursor, database, std::string(next_key)});
  by_cursor_[cursor] = entries_.begin();
  return cursor;
}

std::optional<std::string> ScanCursors::find(uint32_t database, uint64_t cursor) {
  std::lock_guard lock(mutex_);
  const auto found = by_cursor_.find(cursor);
  if (found == by_cursor_.end() || found->second->database != database) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->next_key;
}

}  // namespace skua::kv::gateway
