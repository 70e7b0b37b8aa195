// A directory of a Linux file system as a Device.
//
// Durable writes use one of the ways in durable_write.h: past the page cache where the file system allows it. Buffered
// writes and reads use the page cache. The kernel keeps both consistent: a direct write first waits until the dirty
// pages of its range are written, and drops these pages.
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
  bool read_only = false;  ///< calls that make or change files fail with FAILED_PRECONDITION; sync() does nothing
};

/// Opens `directory`. If it is missing it is made, unless `read_only` is set; its parent must exist. Errors: as
/// device.h lists them, and FAILED_PRECONDITION if io_uring was asked for and cannot be used.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Device>> open_posix_device(const std::string& directory,
                                                                        const PosixDeviceOptions& options = {});

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_POSIX_DEVICE_H_
