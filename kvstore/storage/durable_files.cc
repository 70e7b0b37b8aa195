#include "kvstore/storage/durable_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/shard_files.h"

namespace skua::kv {
namespace {

using files::io_error;

absl::Status write_and_sync(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0) return io_error("creating", path, errno);
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : io_error("writing", path, error);
}

}  // namespace

absl::Status DirectoryFiles::replace(const std::string& name, std::string_view bytes) const {
  const std::string path = path_of(name);
  const std::string aside = path + ".new";
  if (absl::Status status = write_and_sync(aside, bytes); !status.ok()) return status;
  if (::rename(aside.c_str(), path.c_str()) != 0) return io_error("renaming", aside, errno);
  return files::sync(directory_);
}

absl::StatusOr<std::optional<std::string>> DirectoryFiles::read(const std::string& name) const {
  const std::string path = path_of(name);
  const auto failed = [&path](int error) {
    const absl::Status why = io_error("reading", path, error);
    return absl::Status(
        why.code(), absl::StrCat(why.message(), "; the node needs it: make it readable, or restore it from a backup"));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::nullopt;
    return failed(errno);
  }
  std::string bytes;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got > 0) {
      bytes.append(piece.data(), static_cast<size_t>(got));
    } else if (got == 0) {
      ::close(fd);
      return bytes;
    } else if (errno != EINTR) {
      const int error = errno;
      ::close(fd);
      return failed(error);
    }
  }
}

}  // namespace skua::kv
