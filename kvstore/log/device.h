// The files of one directory, as the log needs them: of fixed size, written at offsets, synced when asked.
//
//    Log, recovery ---> Device, LogFile <--- PosixDevice   production
//                                       <--- SimDevice     a disk under a seed (sim/)
//
// Bytes that were written before a successful sync are there after a power cut. Of unsynced bytes any combination of
// sectors may survive. A directory operation (create, rename, remove) is durable when it has returned.
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
  kDurable,   ///< these bytes are durable when the call returns; earlier buffered bytes need not be
};

/// Thread: one at a time.
class LogFile {
 public:
  virtual ~LogFile() = default;

  /// Writes all of `bytes` or fails. `offset` and the size are multiples of kSectorBytes; the range lies inside of the
  /// file. After an error the range may hold anything.
  [[nodiscard]] virtual absl::Status write(uint64_t offset, ByteSpan bytes, WriteMode mode) = 0;

  /// Makes everything written so far durable. After an error, bytes that were not durable before may be lost, even if a
  /// later sync succeeds: the kernel may have dropped pages that it could not write.
  [[nodiscard]] virtual absl::Status sync() = 0;

  /// Reads `into.size()` bytes, or fewer at the end of the file. Returns how many.
  [[nodiscard]] virtual absl::StatusOr<size_t> read(uint64_t offset, MutableByteSpan into) = 0;

  /// Makes later reads come from the medium, not from a cache that may still show bytes that a failed sync lost.
  virtual void drop_cache() = 0;

  [[nodiscard]] virtual uint64_t size() const = 0;
};

/// Thread: one at a time. The device's files may be used on other threads.
class Device {
 public:
  virtual ~Device() = default;

  enum class Fill : uint8_t {
    kReserve,  ///< space is set aside; this is fast
    kZeros,    ///< zeros are written, too: later writes then change no metadata, which makes their syncs cheaper
  };

  /// Makes a file of `bytes` bytes that reads as zeros. After an error there is no file.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<LogFile>> create(const std::string& name, uint64_t bytes,
                                                                        Fill fill) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<LogFile>> open(const std::string& name) = 0;
  /// Replaces `to` if it exists. Open files stay usable. RESOURCE_EXHAUSTED means that the disk has no room for the
  /// name and that nothing was renamed.
  [[nodiscard]] virtual absl::Status rename(const std::string& from, const std::string& to) = 0;
  [[nodiscard]] virtual absl::Status remove(const std::string& name) = 0;
  /// Names of the regular files, sorted.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> list() = 0;
  /// How errors name a file.
  [[nodiscard]] virtual std::string path_of(const std::string& name) const = 0;
};

/// A disk writes a sector wholly or not at all. Groups begin at multiples of it, so that no write touches a sector that
/// holds synced records.
inline constexpr size_t kSectorBytes = 512;
/// The page size of the page cache. Writes end at multiples of it, so that the kernel need not read a page of a
/// recycled file before it changes the page.
inline constexpr size_t kPageBytes = 4096;

[[nodiscard]] constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_DEVICE_H_
