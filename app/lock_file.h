// One process per data directory.
#ifndef SKUA_APP_LOCK_FILE_H_
#define SKUA_APP_LOCK_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace skua::app {

/// Holds an flock on `<directory>/skua.lock`, which contains the holder's pid and program. The
/// kernel gives the lock back when the process ends, however it ends, so a stale file never blocks
/// a start. Move-only; destroying it unlocks (the file stays). Thread: any, one at a time.
class DirectoryLock {
 public:
  /// Creates `directory` (and its parents, mode 0750) when it is missing, then locks it.
  /// FAILED_PRECONDITION names the pid and program that hold it and the way out;
  /// PERMISSION_DENIED / INTERNAL name the path and the system's reason.
  [[nodiscard]] static absl::StatusOr<DirectoryLock> acquire(
      const std::string& directory, const std::string& program,
      const std::string& way_out = "stop it, or give this one another --data-dir");

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_ = -1;
};

}  // namespace skua::app

#endif  // SKUA_APP_LOCK_FILE_H_
