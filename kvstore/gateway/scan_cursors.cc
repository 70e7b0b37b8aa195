#include "kvstore/gateway/scan_cursors.h"

#include <algorithm>
#include <iterator>

namespace skua::kv::gateway {

/// 2^40 scans take years; then the numbers begin again, and the cursors of old are long forgotten.
uint64_t ScanCursors::next_cursor() {
  constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;
  for (;;) {
    const uint64_t cursor = high_bits_ | (next_number_++ & kNumberMask);
    if (cursor != 0 && !by_cursor_.contains(cursor)) return cursor;
  }
}

void ScanCursors::forget(std::list<Entry>::iterator entry) {
  const auto of_client = by_client_.find(entry->client);
  std::deque<uint64_t>& cursors = of_client->second;
  cursors.erase(std::find(cursors.begin(), cursors.end(), entry->cursor));
  if (cursors.empty()) by_client_.erase(of_client);
  by_cursor_.erase(entry->cursor);
  entries_.erase(entry);
}

uint64_t ScanCursors::remember(uint64_t client, uint32_t database, std::string_view next_key) {
  std::lock_guard lock(mutex_);
  const auto own = by_client_.find(client);
  if (own != by_client_.end() && own->second.size() >= per_client_max_) {
    forget(by_cursor_.at(own->second.front()));
  } else if (entries_.size() >= count_max_) {
    forget(std::prev(entries_.end()));
  }
  const uint64_t cursor = next_cursor();
  entries_.push_front({cursor, client, database, std::string(next_key)});
  by_cursor_[cursor] = entries_.begin();
  by_client_[client].push_back(cursor);
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
