#include "kvstore/server/disk_sizes.h"

#include <algorithm>

namespace skua::kv {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kSegmentsPerDisk = 24;

}  // namespace

DiskSizes sizes_for_disk(uint64_t disk_bytes, uint32_t workers) {
  const uint64_t share = disk_bytes / kSegmentsPerDisk / std::max<uint32_t>(workers, 1);
  return {.log_segment_bytes = std::clamp(share / kMebibyte * kMebibyte, kLogSegmentBytesMin, kLogSegmentBytesMax),
          .reserve_bytes = std::min(disk_bytes / 4, kDiskReserveBytesMax)};
}

}  // namespace skua::kv
