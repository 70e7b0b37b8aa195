#include "kvstore/storage/durable_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/bytes.h"
#include "rpc/base/file_io.h"
#include "rpc/base/owned_fd.h"

namespace skua::kv {
namespace {

using files::io_error;

/// Files are read in pieces of this size.
constexpr size_t kPieceBytes = 4096;

absl::Status write_and_sync(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0) return io_error("creating", path, errno);
  int error = write_at(fd, 0, as_byte_span(bytes));
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
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open() && errno == ENOENT) return std::nullopt;
  if (!fd.is_open()) return failed(errno);
  std::string bytes;
  for (;;) {
    const size_t size = bytes.size();
    bytes.resize(size + kPieceBytes);
    const ssize_t got = read_at(fd.get(), size, std::as_writable_bytes(std::span(bytes).subspan(size)));
    if (got < 0) return failed(errno);
    bytes.resize(size + static_cast<size_t>(got));
    if (bytes.size() < size + kPieceBytes) return bytes;
  }
}

}  // namespace skua::kv
