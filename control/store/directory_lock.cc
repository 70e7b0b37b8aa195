#include "control/store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

std::string holder(int fd) {
  char text[32] = {};
  const ssize_t size = pread(fd, text, sizeof text - 1, 0);
  std::string pid(text, size > 0 ? static_cast<size_t>(size) : 0);
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return pid.empty() ? "another process" : absl::StrCat("process ", pid);
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::acquire(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/LOCK");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    const std::string reason = std::error_code(errno, std::generic_category()).message();
    const auto code = errno == EACCES || errno == EROFS ? absl::StatusCode::kPermissionDenied
                                                        : absl::StatusCode::kUnavailable;
    return absl::Status(code, absl::StrCat("cannot open ", path, ": ", reason,
                                           ". Choose a --data-dir that this user can write"));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const std::string who = holder(fd);
    close(fd);
    return absl::FailedPreconditionError(absl::StrCat("data directory ", directory,
                                                      " is in use by ", who,
                                                      ". Stop it, or choose another --data-dir"));
  }
  // The number is for messages only; a lock without it still locks.
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) == 0) {
    [[maybe_unused]] const ssize_t written = pwrite(fd, pid.data(), pid.size(), 0);
  }
  return DirectoryLock(fd);
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace skua::control
