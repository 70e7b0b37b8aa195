// How large the log's files are, and how much of the disk is kept free, where nobody has said: by the disk's size.
//
//    disk (1 worker)     log file       of one record at most     kept free
//    2 GiB and more      64 MiB         32 MiB                    512 MiB
//    512 MiB             21 MiB         10 MiB                    128 MiB
//    64 MiB               2 MiB          1 MiB                     16 MiB, less what the file system itself takes
//
// A worker's log takes about ten files before its databases are flushed and its files are used again: a third of a small
// disk. A record is a write with its key and value, or a batch; what is larger is refused with INVALID_ARGUMENT.
#ifndef SKUA_KVSTORE_NODE_DISK_SIZES_H_
#define SKUA_KVSTORE_NODE_DISK_SIZES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace skua::kv {

inline constexpr uint64_t kLogSegmentBytesMin = uint64_t{1} << 20;
inline constexpr uint64_t kLogSegmentBytesMax = uint64_t{64} << 20;
inline constexpr uint64_t kDiskReserveBytesMax = uint64_t{512} << 20;

struct DiskSizes {
  uint64_t log_segment_bytes = kLogSegmentBytesMax;  ///< a multiple of a mebibyte
  uint64_t reserve_bytes = kDiskReserveBytesMax;
};

/// `disk_bytes`: of the file system, used or not. Pure.
[[nodiscard]] DiskSizes sizes_for_disk(uint64_t disk_bytes, uint32_t workers);

/// INVALID_ARGUMENT: a node with so many workers cannot work on the file system of `directory`; the message names the
/// option. Pure.
[[nodiscard]] absl::Status check_disk(const std::string& directory, uint64_t disk_bytes, uint32_t workers,
                                      const DiskSizes& sizes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_DISK_SIZES_H_
