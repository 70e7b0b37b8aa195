#include "app/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace skua::app {

namespace {

constexpr size_t kStepBytes = 64 << 10;

absl::Status error_of(const std::string& path, int error) {
  if (path.empty()) return absl::InvalidArgumentError("the file's name is empty");
  if (error == EISDIR) return absl::InvalidArgumentError(absl::StrCat(path, " is a directory"));
  return absl::ErrnoToStatus(error, path);
}

/// Closed when destroyed; close_now() also tells what the system had kept to itself till then.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  bool close_now() {
    const int fd = fd_;
    fd_ = -1;
    return close(fd) == 0;
  }

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<std::string> read_file(const std::string& path, size_t bytes_max) {
  const OpenFile file(path, O_RDONLY);
  if (file.fd() < 0) return error_of(path, errno);
  std::string bytes;
  while (true) {
    const size_t had = bytes.size();
    bytes.resize(had + kStepBytes);
    const ssize_t got = read(file.fd(), bytes.data() + had, kStepBytes);
    const int error = errno;
    bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return error_of(path, error);
    if (bytes.size() > bytes_max) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has more than ", bytes_max, " bytes"));
    }
    if (got == 0) return bytes;
  }
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.fd() < 0) return error_of(path, errno);
  while (!bytes.empty()) {
    const ssize_t wrote = write(file.fd(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return error_of(path, errno);
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  if (!file.close_now()) return error_of(path, errno);
  return absl::OkStatus();
}

absl::Status check_output_file(const std::string& path) {
  if (path.empty()) return error_of(path, ENOENT);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return error_of(path, EISDIR);
  if (access(path.c_str(), W_OK) == 0) return absl::OkStatus();
  if (errno != ENOENT) return error_of(path, errno);
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) != 0) return error_of(path, errno);
  return absl::OkStatus();
}

}  // namespace skua::app
