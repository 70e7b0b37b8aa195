#include "kvstore/ctl/line_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/ctl/output.h"
#include "rpc/base/clock.h"

namespace skua::kv::ctl {
namespace {

/// How often a pipe without a reader is tried.
constexpr DurationNs kReaderPause = 50 * kMillisecond;
/// A pipe that poll() calls writable takes so many bytes without waiting.
constexpr size_t kPieceBytes = PIPE_BUF;

bool is_pipe(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 && S_ISFIFO(file.st_mode);
}

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
  if (absl::Status opened = open_path(appends); !opened.ok()) return opened;
  struct stat file = {};
  if (fstat(fd_, &file) != 0) return error_of(errno);
  is_regular_ = S_ISREG(file.st_mode);
  bytes_ = file.st_size;
  return is_regular_ ? check_end() : absl::OkStatus();
}

absl::Status LineFile::open_path(bool appends) {
  // To read is for check_end(). What is written goes to the end. Not to wait is for pipes: Ctrl-C is blocked.
  const int flags = (appends ? O_RDWR | O_APPEND : O_WRONLY | O_TRUNC) | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  for (bool told = false; (fd_ = ::open(path_.c_str(), flags, 0666)) < 0; told = true) {
    const int error = errno;
    if (error != ENXIO || !is_pipe(path_)) return error_of(error);
    if (!told) print_notice(absl::StrCat(path_, " is a pipe that nobody reads: waits for a reader"));
    if (stop_.wait_for(kReaderPause)) return absl::CancelledError("interrupted");
  }
  if (fcntl(fd_, F_SETFL, flags & ~O_NONBLOCK) != 0) return error_of(errno);
  return absl::OkStatus();
}

absl::Status LineFile::await_room() {
  std::array<pollfd, 2> waits_for = {pollfd{.fd = fd_, .events = POLLOUT, .revents = 0},
                                     pollfd{.fd = stop_.fd(), .events = POLLIN, .revents = 0}};
  for (;;) {
    if (poll(waits_for.data(), waits_for.size(), -1) < 0 && errno != EINTR) return error_of(errno);
    // Of both, room counts: what is begun is finished.
    if (waits_for[0].revents != 0) return absl::OkStatus();
    if (stop_.wait_for(0)) return absl::CancelledError("interrupted");
  }
}

absl::Status LineFile::give_up(absl::Status failed, bool is_partial) {
  // Otherwise a part of a line could be left. If that fails, too, an export that goes on finds it.
  has_remains_ = is_partial && !cut();
  return failed;
}

absl::Status LineFile::write(std::string_view lines) {
  for (std::string_view rest = lines; !rest.empty();) {
    size_t bytes = rest.size();
    if (!is_regular_) {
      if (absl::Status room = await_room(); !room.ok()) return give_up(std::move(room), bytes < lines.size());
      bytes = std::min(bytes, kPieceBytes);
    }
    const ssize_t wrote = ::write(fd_, rest.data(), bytes);
    if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (wrote < 0) return give_up(error_of(errno), rest.size() < lines.size());
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
