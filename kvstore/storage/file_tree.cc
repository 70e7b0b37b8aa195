#include "kvstore/storage/file_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "kvstore/storage/shard_files.h"

namespace skua::kv {
namespace {

absl::Status failure(const char* what, const std::string& path, int error) {
  return error == 0 ? absl::OkStatus() : files::io_error(what, path, error);
}

class SystemFileTree final : public FileTree {
 public:
  absl::Status make_directories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? files::io_error("making", path, error) : absl::OkStatus();
  }
  absl::Status remove(const std::string& path) override { return files::remove_tree(path); }
  absl::Status rename(const std::string& from, const std::string& to, const std::string& parent) override {
    return files::rename_and_sync(from, to, parent);
  }
  absl::StatusOr<uint64_t> size(const std::string& path) override {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (error) return files::io_error("reading", path, error);
    return bytes;
  }
  absl::Status read(const std::string& path, uint64_t offset, std::span<char> to) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failure("opening", path, errno);
    int failed = 0;
    while (!to.empty() && failed == 0) {
      const ssize_t got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
      if (got > 0) {
        to = to.subspan(static_cast<size_t>(got));
        offset += static_cast<uint64_t>(got);
      } else if (got == 0 || errno != EINTR) {
        failed = got == 0 ? EIO : errno;
      }
    }
    ::close(fd);
    return failure("reading", path, failed);
  }
  absl::Status write(const std::string& path, uint64_t offset, std::string_view bytes) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return failure("making", path, errno);
    int failed = 0;
    while (!bytes.empty() && failed == 0) {
      const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (put > 0) {
        bytes.remove_prefix(static_cast<size_t>(put));
        offset += static_cast<uint64_t>(put);
      } else if (put == 0 || errno != EINTR) {
        failed = put == 0 ? EIO : errno;
      }
    }
    if (::close(fd) != 0 && failed == 0) failed = errno;
    return failure("writing", path, failed);
  }
};

}  // namespace

FileTree& FileTree::system() {
  static SystemFileTree tree;
  return tree;
}

}  // namespace skua::kv
