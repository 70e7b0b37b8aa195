// A directory of a Linux file system as a Device.
//
// A durable write is one pwritev2(RWF_DSYNC) where the file system takes it (found out with the first file), else
// pwrite and fdatasync. Both wait for the same flush of the disk; the first costs one system call instead of two.
// A submission ring would not help: one write is in flight at a time, because what gathers meanwhile is the next group.
#ifndef SKUA_KVSTORE_LOG_POSIX_DEVICE_H_
#define SKUA_KVSTORE_LOG_POSIX_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/log/device.h"

namespace skua::kv {

struct PosixDeviceOptions {
  bool use_rwf_dsync = true;  ///< false: pwrite and fdatasync, even where RWF_DSYNC works
  bool read_only = false;     ///< nothing is made, changed or synced; what would is FAILED_PRECONDITION
};

/// Makes `directory` if it is missing (its parent must exist) and it is not to be read only. Errors as device.h lists them.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Device>> open_posix_device(const std::string& directory,
                                                                        const PosixDeviceOptions& options = {});

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_POSIX_DEVICE_H_
