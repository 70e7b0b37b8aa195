// CommitQueue: the entries that a primary has added and not committed yet, in the order of their indices.
//
//    oldest                              newest
//    {7, sync}  {8, memory}  {9, sync}            add() behind, drop_oldest() in front
//
// Entries are committed in order: entry 8, although it needs less, waits until entry 7 is committed. Entries of former
// primaries are not in the queue; they are committed together with the barrier, the primary's first entry.
//
// No allocation per entry beyond std::deque's blocks. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_COMMIT_QUEUE_H_
#define SKUA_KVSTORE_REPLICATION_COMMIT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <deque>

#include "kvstore/types/durability.h"

namespace skua::kv {

class CommitQueue {
 public:
  struct Entry {
    uint64_t index = 0;
    Durability level = Durability::kSync;  ///< what every member must have done with it
  };

  /// Indices must rise.
  void add(uint64_t index, Durability level) { entries_.push_back({index, level}); }
  void drop_oldest() { entries_.pop_front(); }
  void clear() { entries_.clear(); }

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  /// Only if not empty().
  [[nodiscard]] const Entry& oldest() const { return entries_.front(); }
  /// Null: the entry is committed, or a former primary's. Valid until the queue changes.
  [[nodiscard]] const Entry* find(uint64_t index) const {
    const auto found = at_or_behind(index);
    return found == entries_.end() || found->index != index ? nullptr : &*found;
  }
  /// Whether an entry of first..last is safe enough as soon as it is received.
  [[nodiscard]] bool any_in_memory(uint64_t first, uint64_t last) const {
    for (auto at = at_or_behind(first); at != entries_.end() && at->index <= last; ++at) {
      if (at->level == Durability::kMemory) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] std::deque<Entry>::const_iterator at_or_behind(uint64_t index) const {
    return std::lower_bound(entries_.begin(), entries_.end(), index,
                            [](const Entry& entry, uint64_t at) { return entry.index < at; });
  }

  std::deque<Entry> entries_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_COMMIT_QUEUE_H_
