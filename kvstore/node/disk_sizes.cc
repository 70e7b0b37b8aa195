#include "kvstore/node/disk_sizes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/node/size_text.h"

namespace skua::kv {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kSegmentsPerDisk = 24;
/// Smallest number of files of a worker's log: one being written, two spares.
constexpr uint64_t kSegmentsMin = 3;

}  // namespace

DiskSizes sizes_for_disk(uint64_t disk_bytes, uint32_t workers) {
  const uint64_t share = disk_bytes / kSegmentsPerDisk / std::max<uint32_t>(workers, 1);
  return {.log_segment_bytes = std::clamp(share / kMebibyte * kMebibyte, kLogSegmentBytesMin, kLogSegmentBytesMax),
          .reserve_bytes = std::min(disk_bytes / 4, kDiskReserveBytesMax)};
}

absl::Status check_disk(const std::string& directory, uint64_t disk_bytes, uint32_t workers, const DiskSizes& sizes) {
  const uint64_t segments = uint64_t{workers} * kSegmentsMin;
  if (sizes.log_segment_bytes > disk_bytes / segments) {
    return absl::InvalidArgumentError(
        absl::StrCat("the logs of ", workers, workers == 1 ? " worker" : " workers", " take at least ", segments,
                     " files of ", size_text(sizes.log_segment_bytes), ", and the file system of ", directory, " has ",
                     size_text(disk_bytes), ": give a smaller --log-segment, fewer --workers, or a larger disk"));
  }
  if (sizes.reserve_bytes < disk_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--disk-reserve is ", size_text(sizes.reserve_bytes),
                                                 ", but the file system of ", directory, " has ", size_text(disk_bytes),
                                                 " in all, so that no write would ever be taken: give less"));
}

}  // namespace skua::kv
