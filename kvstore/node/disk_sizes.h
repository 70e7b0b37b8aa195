// Default sizes of the log's files and of the free space that the node keeps (the reserve), derived from the size of
// the disk. Options override them.
//
//    disk (1 worker)     log file       of one record at most     kept free
//    2 GiB and more      64 MiB         32 MiB                    512 MiB
//    512 MiB             21 MiB         10 MiB                    128 MiB
//    64 MiB               2 MiB          1 MiB                     16 MiB, less what the file system itself takes
//
// A worker's log uses about ten files before its databases are flushed and the files are used again. For small disks a
// file is 1/24 of the disk per worker, so ten files take less than half of the disk. A record is one write with its key
// and value, or one batch. A larger record is refused with INVALID_ARGUMENT.
#ifndef SKUA_KVSTORE_NODE_DISK_SIZES_H_
#define SKUA_KVSTORE_NODE_DISK_SIZES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace skua::kv {

inline constexpr uint64_t kLogSegmentBytesMin = uint64_t{1} << 20;
inline constexpr uint64_t kLogSegmentBytesMax = uint64_t{64} << 20;
inline constexpr uint64_t kDiskReserveBytesMax = uint64_t{512} << 20;

/// Bytes.
struct DiskSizes {
  uint64_t log_segment_bytes = kLogSegmentBytesMax;  ///< size of a log file
  /// Free space below which writes that make data grow are refused (storage_watch.h).
  uint64_t reserve_bytes = kDiskReserveBytesMax;
};

/// `disk_bytes`: size of the file system, used and free space together. Pure.
[[nodiscard]] DiskSizes sizes_for_disk(uint64_t disk_bytes, uint32_t workers);

/// INVALID_ARGUMENT: the file system of `directory` is too small for `sizes` with this number of workers. The message
/// names the option to change. Pure.
[[nodiscard]] absl::Status check_disk(const std::string& directory, uint64_t disk_bytes, uint32_t workers,
                                      const DiskSizes& sizes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_DISK_SIZES_H_
