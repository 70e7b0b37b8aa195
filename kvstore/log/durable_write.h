// How one write becomes durable.
//
//    direct     pwritev2(RWF_DSYNC) on a descriptor with O_DIRECT: the disk's write is the call's own, no page is dirtied first
//    pwritev2   pwritev2(RWF_DSYNC) through the page cache
//    fdatasync  pwrite, then fdatasync: where RWF_DSYNC is unknown
//    io_uring   the first, handed over by a submission ring
//
// All wait for the same flush of the disk. The log has one write in flight at a time, because what gathers meanwhile is the
// next group; so a ring has nothing to overlap, and its completion costs a wake-up more. It is there to be measured on other
// disks. The first three are tried in this order; each file goes on with what its file system takes.
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

/// A submission ring. Thread: any.
class DurableRing {
 public:
  virtual ~DurableRing() = default;

  /// As pwritev2(RWF_DSYNC) of one piece: bytes written, or -1 and errno.
  [[nodiscard]] virtual ssize_t write(int fd, uint64_t offset, ByteSpan bytes) = 0;
};

/// FAILED_PRECONDITION, saying why and what else to choose, where the kernel forbids it or this program was built without.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DurableRing>> make_durable_ring();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_DURABLE_WRITE_H_
