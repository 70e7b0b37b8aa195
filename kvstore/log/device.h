// The files of one directory, as the log needs them: fixed-size, written at offsets, synced on demand.
//
//    Log, recovery ---> Device, LogFile <--- PosixDevice   production
//                                       <--- SimDevice     a disk under a seed (sim/)
//
// What a sync promises, and nothing more: what was written before it is there after a power cut. Unsynced bytes survive
// in any combination of sectors. A directory operation (create, rename, remove) is durable when it has returned.
//
// Errors of all calls, each naming the path and the errno:
//   RESOURCE_EXHAUSTED  no space left, or a quota
//   NOT_FOUND           no such file
//   PERMISSION_DENIED   access, or a read-only file system
//   INTERNAL            everything else, EIO first of all
#ifndef SKUA_KVSTORE_LOG_DEVICE_H_
#define SKUA_KVSTORE_LOG_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

enum class WriteMode : uint8_t {
  kBuffered,  ///< visible to reads, durable after the next sync
  kDurable,   ///< these bytes are durable when the call returns; earlier buffered ones need not be
};

/// Thread: one at a time.
class LogFile {
 public:
  virtual ~LogFile() = default;

  /// Writes all of `bytes` or fails. Offset and size are multiples of kSectorBytes and inside of the file. After an
  /// error the range may hold anything.
  [[nodiscard]] virtual absl::Status write(uint64_t offset, ByteSpan bytes, WriteMode mode) = 0;

  /// Makes everything written so far durable. After an error nothing is known of what was not yet durable, and a later
  /// success does not tell either: the kernel may have dropped what it could not write.
  [[nodiscard]] virtual absl::Status sync() = 0;

  /// Reads up to `into.size()` bytes; fewer only at the end of the file.
  [[nodiscard]] virtual absl::StatusOr<size_t> read(uint64_t offset, MutableByteSpan into) = 0;

  /// Later reads come from the medium, not from a cache that may hold what a failed sync lost.
  virtual void drop_cache() = 0;

  [[nodiscard]] virtual uint64_t size() const = 0;
};

/// Thread: one at a time; its files may be used on other threads.
class Device {
 public:
  virtual ~Device() = default;

  enum class Fill : uint8_t {
    kReserve,  ///< space is set aside, fast
    kZeros,    ///< and written, so that the first write of a block needs no metadata: later syncs are cheaper
  };

  /// Makes a file of `bytes` that reads as zeros. No file is left behind on an error.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<LogFile>> create(const std::string& name, uint64_t bytes,
                                                                        Fill fill) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<LogFile>> open(const std::string& name) = 0;
  /// Replaces `to` if it exists. Open files stay usable. RESOURCE_EXHAUSTED: the disk has no room for the name, and
  /// nothing was renamed.
  [[nodiscard]] virtual absl::Status rename(const std::string& from, const std::string& to) = 0;
  [[nodiscard]] virtual absl::Status remove(const std::string& name) = 0;
  /// Names of the regular files, sorted.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> list() = 0;
  /// How errors name a file.
  [[nodiscard]] virtual std::string path_of(const std::string& name) const = 0;
};

/// The unit in which a disk writes or does not: groups begin at multiples of it, so that no write touches a sector that
/// holds synced records.
inline constexpr size_t kSectorBytes = 512;
/// The unit of the page cache. Writes end at multiples of it, so that no page of a recycled file is read first.
inline constexpr size_t kPageBytes = 4096;

[[nodiscard]] constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_DEVICE_H_
