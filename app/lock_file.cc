#include "app/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace skua::app {

namespace {

// What the holder wrote: "1234 skuad". Empty when it had no time to.
std::string read_holder(int fd) {
  char text[256];
  const ssize_t got = pread(fd, text, sizeof text, 0);
  if (got <= 0) return "";
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text, static_cast<size_t>(got))));
}

absl::Status make_directory(const std::string& directory) {
  std::error_code error;
  if (directory.starts_with('~') && !std::filesystem::exists(directory, error)) {
    return absl::InvalidArgumentError(absl::StrCat("the data directory ", directory,
                                                   " begins with ~, which only a shell replaces, and only where a word "
                                                   "begins: write the whole path (or ./",
                                                   directory, " if that is its name)"));
  }
  const bool made = std::filesystem::create_directories(directory, error);
  if (error) {
    // Of its own code: the reason stands before the way out.
    const absl::Status status = absl::ErrnoToStatus(error.value(), "");
    return absl::Status(status.code(), absl::StrCat("cannot make the data directory ", directory, ": ", error.message(),
                                                    "; give another --data-dir"));
  }
  if (made) {
    using std::filesystem::perms;
    std::filesystem::permissions(directory, perms::owner_all | perms::group_read | perms::group_exec, error);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::acquire(const std::string& directory, const std::string& program,
                                                     const std::string& way_out) {
  if (absl::Status status = make_directory(directory); !status.ok()) return status;
  const std::string path = directory + "/skua.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("opening the lock file ", path));
  DirectoryLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error != EWOULDBLOCK) {
      return absl::ErrnoToStatus(error, absl::StrCat("locking ", path));
    }
    const std::string holder = read_holder(fd);
    const size_t space = holder.find(' ');
    const std::string who =
        holder.empty()
            ? "another process"
            : absl::StrCat("process ", holder.substr(0, space),
                           space == std::string::npos ? "" : absl::StrCat(" (", holder.substr(space + 1), ")"));
    return absl::FailedPreconditionError(
        absl::StrCat("the data directory ", directory, " is in use by ", who, "; ", way_out));
  }
  const std::string holder = absl::StrCat(getpid(), " ", program, "\n");
  errno = ENOSPC;  // what a short write means
  if (ftruncate(fd, 0) != 0 || pwrite(fd, holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("writing the lock file ", path));
  }
  return lock;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace skua::app
