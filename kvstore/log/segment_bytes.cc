#include "kvstore/log/segment_bytes.h"

#include <sys/mman.h>

#include <cstdlib>

#include "kvstore/log/device.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

void SegmentBytes::resize_for_overwrite(size_t size) {
  if (size > capacity_) {
    const size_t unit = size >= kHugePageBytes ? kHugePageBytes : kPageBytes;
    capacity_ = round_up(size, unit);
    memory_.reset();
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(unit, capacity_)));
    SKUA_CHECK(memory_ != nullptr, "no memory to read a log's segment");
    // If the system has no huge pages, small pages are used.
    if (unit == kHugePageBytes) (void)::madvise(memory_.get(), capacity_, MADV_HUGEPAGE);
  }
  size_ = size;
}

}  // namespace skua::kv
