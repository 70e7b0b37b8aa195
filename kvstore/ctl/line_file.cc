#include "kvstore/ctl/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv::ctl {
namespace {

/// The file's name is in its directory, which has to be synced as well.
bool sync_directory_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int fd = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  return synced;
}

}  // namespace

LineFile::~LineFile() {
  if (is_open() && !is_standard_output()) close(fd_);
}

absl::Status LineFile::error_of(int error) {
  lost_reader_ = error == EPIPE && is_standard_output();
  return absl::ErrnoToStatus(error, is_standard_output() ? "standard output" : path_);
}

absl::Status LineFile::check_end() const {
  char last = '\n';
  if (bytes_ > 0 && pread(fd_, &last, 1, bytes_ - 1) != 1) return absl::ErrnoToStatus(errno, path_);
  if (last == '\n') return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path_, " ends in the middle of a line: remove what is behind its last line break"));
}

absl::Status LineFile::open_standard_output() {
  fd_ = STDOUT_FILENO;
  struct stat file = {};
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fstat(fd_, &file) != 0) return error_of(errno);
  if (!S_ISREG(file.st_mode)) return absl::OkStatus();
  bytes_ = (flags & O_APPEND) != 0 ? file.st_size : lseek(fd_, 0, SEEK_CUR);
  // In the middle of a file (1<>FILE), what is behind is not ours to cut.
  is_regular_ = bytes_ == file.st_size;
  return absl::OkStatus();
}

bool LineFile::cut() {
  return is_regular_ && ftruncate(fd_, bytes_) == 0 && lseek(fd_, bytes_, SEEK_SET) == bytes_;
}

absl::Status LineFile::open(bool appends) {
  std::fflush(stdout);
  // A file that gets larger than ulimit -f allows is an error of the write, and not the end of the process.
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  if (is_standard_output()) return open_standard_output();
  // To read is for check_end(). What is written goes to the end.
  fd_ = ::open(path_.c_str(), (appends ? O_RDWR | O_APPEND : O_WRONLY | O_TRUNC) | O_CREAT | O_CLOEXEC, 0666);
  struct stat file = {};
  if (!is_open() || fstat(fd_, &file) != 0) return error_of(errno);
  is_regular_ = S_ISREG(file.st_mode);
  bytes_ = file.st_size;
  return is_regular_ ? check_end() : absl::OkStatus();
}

absl::Status LineFile::write(std::string_view lines) {
  for (std::string_view rest = lines; !rest.empty();) {
    const ssize_t wrote = ::write(fd_, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const absl::Status failed = error_of(errno);
      // Otherwise a part of a line could be left. If that fails, too, an export that goes on finds it.
      has_remains_ = rest.size() < lines.size() && !cut();
      return failed;
    }
    rest.remove_prefix(static_cast<size_t>(wrote));
  }
  bytes_ += static_cast<int64_t>(lines.size());
  return absl::OkStatus();
}

absl::Status LineFile::finish() {
  if (is_standard_output()) return absl::OkStatus();
  is_uncertain_ = true;
  if (is_regular_ && (fsync(fd_) != 0 || !sync_directory_of(path_))) return error_of(errno);
  if (close(std::exchange(fd_, -1)) != 0) return error_of(errno);
  is_uncertain_ = false;
  return absl::OkStatus();
}

}  // namespace skua::kv::ctl
