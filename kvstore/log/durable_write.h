// The ways in which one write is made durable.
//
//    direct     pwritev2(RWF_DSYNC) on a descriptor with O_DIRECT: the bytes go to the disk without dirtying a page
//    pwritev2   pwritev2(RWF_DSYNC) through the page cache
//    fdatasync  pwrite, then fdatasync: for kernels without RWF_DSYNC
//    io_uring   as direct, but submitted through a ring
//
// All ways wait for the same flush of the disk. The log has one write in flight at a time, because records that arrive
// meanwhile form the next group. So a ring has no writes to overlap, and its completion costs one more wake-up.
// io_uring is there to be measured on other disks. The first three are tried in this order, and each file keeps the
// first one that its file system accepts.
#ifndef SKUA_KVSTORE_LOG_DURABLE_WRITE_H_
#define SKUA_KVSTORE_LOG_DURABLE_WRITE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

enum class LogIo : uint8_t {
  kAuto,  ///< direct, else pwritev2, else fdatasync
  kDirect = kAuto,
  kPwritev2,
  kFdatasync,
  kIoUring,
};

/// An io_uring that durable writes are submitted through. Thread: any.
class DurableRing {
 public:
  virtual ~DurableRing() = default;

  /// Like pwritev2(RWF_DSYNC) of one piece: waits, and returns the bytes written, or -1 with errno set.
  [[nodiscard]] virtual ssize_t write(int fd, uint64_t offset, ByteSpan bytes) = 0;
};

/// FAILED_PRECONDITION if the kernel forbids io_uring or the program was built without it; the message says why, and
/// which other way can be chosen.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DurableRing>> make_durable_ring();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_DURABLE_WRITE_H_
