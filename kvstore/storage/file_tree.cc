#include "kvstore/storage/file_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "kvstore/storage/shard_files.h"
#include "rpc/base/file_io.h"
#include "rpc/base/owned_fd.h"

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
    const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.is_open()) return failure("opening", path, errno);
    const ssize_t got = read_at(fd.get(), offset, std::as_writable_bytes(to));
    if (got < 0) return failure("reading", path, errno);
    return failure("reading", path, static_cast<size_t>(got) < to.size() ? EIO : 0);
  }
  absl::Status write(const std::string& path, uint64_t offset, std::string_view bytes) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return failure("making", path, errno);
    int failed = write_at(fd, offset, as_byte_span(bytes));
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
