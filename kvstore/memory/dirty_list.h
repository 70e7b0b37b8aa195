// The regions that hold a shard's writes which the durable tier does not have yet, in the order of the writes'
// versions.
//
//    shard    oldest -> [ region 4, up to version 17 ] -> [ region 5, up to 90 ] -> [ region 9, up to 112 ]  <- newest
//
// A segment stands for all consecutive writes of the shard to one region. So a write usually only raises the newest
// segment's version, and marking writes clean removes segments from the front. Segments come from a pool that never
// shrinks.
#ifndef SKUA_KVSTORE_MEMORY_DIRTY_LIST_H_
#define SKUA_KVSTORE_MEMORY_DIRTY_LIST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace skua::kv {

struct DirtySegment {
  uint32_t region = 0;
  uint32_t next = 0;  // 1 + index of the next segment in the pool; 0: none
  uint64_t first_version = 0;
  uint64_t last_version = 0;
  uint64_t bytes = 0;
};

struct DirtyList {
  uint32_t oldest = 0;
  uint32_t newest = 0;
};

class DirtySegments {
 public:
  /// Adds a write of `bytes` to `list`. True: a new segment was begun; false: the newest segment was extended.
  bool add(DirtyList& list, uint32_t region, uint64_t version, size_t bytes) {
    bytes_ += bytes;
    if (list.newest != 0 && at(list.newest).region == region) {
      at(list.newest).last_version = std::max(at(list.newest).last_version, version);
      at(list.newest).bytes += bytes;
      return false;
    }
    const uint32_t number = take();
    at(number) = {.region = region, .next = 0, .first_version = version, .last_version = version, .bytes = bytes};
    (list.newest == 0 ? list.oldest : at(list.newest).next) = number;
    list.newest = number;
    return true;
  }

  [[nodiscard]] static bool empty(const DirtyList& list) { return list.oldest == 0; }
  [[nodiscard]] const DirtySegment& oldest(const DirtyList& list) const { return segments_[list.oldest - 1]; }
  void pop_oldest(DirtyList& list) {
    const uint32_t number = list.oldest;
    bytes_ -= at(number).bytes;
    list.oldest = at(number).next;
    if (list.oldest == 0) list.newest = 0;
    at(number).next = free_;
    free_ = number;
  }

  /// Dirty bytes of all lists.
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  [[nodiscard]] DirtySegment& at(uint32_t number) { return segments_[number - 1]; }
  [[nodiscard]] uint32_t take() {
    if (free_ == 0) {
      segments_.emplace_back();
      return static_cast<uint32_t>(segments_.size());
    }
    const uint32_t number = free_;
    free_ = at(number).next;
    return number;
  }

  std::vector<DirtySegment> segments_;
  uint32_t free_ = 0;
  size_t bytes_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_DIRTY_LIST_H_
