// A directory of a Linux file system as a Device.
//
// Durable writes go as durable_write.h says, past the page cache where they can; buffered writes and reads go through it.
// The kernel keeps the two views of a file the same: a direct write first waits for dirty pages of its range to be written,
// and drops them.
#ifndef SKUA_KVSTORE_LOG_POSIX_DEVICE_H_
#define SKUA_KVSTORE_LOG_POSIX_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/log/device.h"
#include "kvstore/log/durable_write.h"

namespace skua::kv {

struct PosixDeviceOptions {
  LogIo io = LogIo::kAuto;
  bool read_only = false;  ///< nothing is made, changed or synced; what would is FAILED_PRECONDITION
};

/// Makes `directory` if it is missing (its parent must exist) and it is not to be read only. Errors as device.h lists them, and
/// FAILED_PRECONDITION where io_uring is asked for and cannot be used.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Device>> open_posix_device(const std::string& directory,
                                                                        const PosixDeviceOptions& options = {});

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_POSIX_DEVICE_H_
