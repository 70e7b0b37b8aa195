// One process per data directory.
#ifndef SKUA_CONTROL_STORE_DIRECTORY_LOCK_H_
#define SKUA_CONTROL_STORE_DIRECTORY_LOCK_H_

#include <string>

#include "absl/status/statusor.h"

namespace skua::control {

/// Holds flock() on `<directory>/LOCK` until destroyed or until the process ends, however it ends.
/// Move-only. Thread: any.
class DirectoryLock {
 public:
  /// FAILED_PRECONDITION naming the process that holds it; PERMISSION_DENIED or UNAVAILABLE if the
  /// file cannot be opened.
  static absl::StatusOr<DirectoryLock> acquire(const std::string& directory);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_DIRECTORY_LOCK_H_
