#include "kvstore/log/posix_device.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/file_io.h"
#include "rpc/base/owned_fd.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

absl::Status errno_status(int error, const char* what, const std::string& path) {
  const absl::Status text = absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
  if (is_shortage(error)) return absl::ResourceExhaustedError(text.message());
  switch (error) {
    case ENOENT: return absl::NotFoundError(text.message());
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(text.message());
    default: return absl::InternalError(text.message());
  }
}

absl::Status read_only(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(path, " was opened for reading only"));
}

class PosixFile final : public LogFile {
 public:
  /// `ring` may be null.
  PosixFile(OwnedFd fd, OwnedFd direct_fd, std::string path, uint64_t size, const PosixDeviceOptions& options,
            std::shared_ptr<DurableRing> ring)
      : fd_(std::move(fd)),
        direct_fd_(std::move(direct_fd)),
        path_(std::move(path)),
        size_(size),
        read_only_(options.read_only),
        use_direct_(direct_fd_.is_open()),
        use_rwf_dsync_(options.io != LogIo::kFdatasync),
        ring_(std::move(ring)) {}

  absl::Status write(uint64_t offset, ByteSpan bytes, WriteMode mode) override {
    if (read_only_) return read_only(path_);
    const bool durable = mode == WriteMode::kDurable;
    while (!bytes.empty()) {
      const bool direct = durable && use_direct_ && is_aligned(offset, bytes);
      const ssize_t written = write_some(offset, bytes, direct, durable && use_rwf_dsync_);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && durable && is_unsupported(errno) && (direct || use_rwf_dsync_)) {
        (direct ? use_direct_ : use_rwf_dsync_) = false;
        continue;
      }
      if (written < 0) return errno_status(errno, "write", path_);
      if (written == 0) return errno_status(EIO, "write of nothing", path_);
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset += static_cast<uint64_t>(written);
    }
    return durable && !use_rwf_dsync_ ? sync() : absl::OkStatus();
  }

  absl::Status sync() override {
    if (read_only_) return absl::OkStatus();
    // No retry after EINTR: Linux's fdatasync does not report it, and a failed sync must not be repeated (log.h).
    return ::fdatasync(fd_.get()) == 0 ? absl::OkStatus() : errno_status(errno, "fdatasync", path_);
  }

  absl::StatusOr<size_t> read(uint64_t offset, MutableByteSpan into) override {
    const ssize_t got = read_at(fd_.get(), offset, into);
    if (got < 0) return errno_status(errno, "read", path_);
    return static_cast<size_t>(got);
  }

  void drop_cache() override { (void)::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED); }

  [[nodiscard]] uint64_t size() const override { return size_; }

 private:
  /// The alignment that O_DIRECT asks for on disks with sectors of kSectorBytes. With larger sectors the kernel may
  /// refuse the write; the file then goes on without O_DIRECT.
  static bool is_aligned(uint64_t offset, ByteSpan bytes) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return (offset | bytes.size() | address) % kSectorBytes == 0;
  }
  static bool is_unsupported(int error) { return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL; }

  ssize_t write_some(uint64_t offset, ByteSpan bytes, bool direct, bool rwf_dsync) {
    if (!rwf_dsync) return ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    const int fd = direct ? direct_fd_.get() : fd_.get();
    if (ring_ != nullptr) return ring_->write(fd, offset, bytes);
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    return ::pwritev2(fd, &piece, 1, static_cast<off_t>(offset), RWF_DSYNC);
  }

  const OwnedFd fd_;
  const OwnedFd direct_fd_;  // -1: none
  const std::string path_;
  const uint64_t size_;
  const bool read_only_;
  bool use_direct_;
  bool use_rwf_dsync_;
  const std::shared_ptr<DurableRing> ring_;
};

class PosixDevice final : public Device {
 public:
  PosixDevice(std::string directory, OwnedFd fd, const PosixDeviceOptions& options, std::shared_ptr<DurableRing> ring)
      : directory_(std::move(directory)), fd_(std::move(fd)), options_(options), ring_(std::move(ring)) {}

  absl::StatusOr<std::unique_ptr<LogFile>> create(const std::string& name, uint64_t bytes, Fill fill) override {
    if (options_.read_only) return read_only(path_of(name));
    OwnedFd fd(::openat(fd_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd.is_open()) return errno_status(errno, "create", path_of(name));
    absl::Status made = reserve(fd.get(), name, bytes);
    if (made.ok() && fill == Fill::kZeros) made = write_zeros(fd.get(), name, bytes);
    if (made.ok() && ::fsync(fd.get()) != 0) made = errno_status(errno, "fsync", path_of(name));
    if (made.ok()) made = sync_directory();
    if (!made.ok()) {
      (void)::unlinkat(fd_.get(), name.c_str(), 0);
      return made;
    }
    return file(std::move(fd), name, bytes);
  }

  absl::StatusOr<std::unique_ptr<LogFile>> open(const std::string& name) override {
    OwnedFd fd(::openat(fd_.get(), name.c_str(), (options_.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC));
    if (!fd.is_open()) return errno_status(errno, "open", path_of(name));
    struct stat about {};
    if (::fstat(fd.get(), &about) != 0) return errno_status(errno, "stat", path_of(name));
    return file(std::move(fd), name, static_cast<uint64_t>(about.st_size));
  }

  absl::Status rename(const std::string& from, const std::string& to) override {
    if (options_.read_only) return read_only(path_of(from));
    if (::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) != 0) {
      return errno_status(errno, "rename", absl::StrCat(path_of(from), " to ", to));
    }
    const absl::Status synced = sync_directory();
    // INTERNAL instead, because RESOURCE_EXHAUSTED would mean that nothing was renamed.
    return absl::IsResourceExhausted(synced) ? absl::InternalError(synced.message()) : synced;
  }

  absl::Status remove(const std::string& name) override {
    if (options_.read_only) return read_only(path_of(name));
    if (::unlinkat(fd_.get(), name.c_str(), 0) != 0) return errno_status(errno, "remove", path_of(name));
    return sync_directory();
  }

  absl::StatusOr<std::vector<std::string>> list() override {
    DIR* stream = ::opendir(directory_.c_str());
    if (stream == nullptr) return errno_status(errno, "list", directory_);
    std::vector<std::string> names;
    // readdir is safe here: no other thread uses this stream.
    while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe)
      struct stat about {};
      if (::fstatat(fd_.get(), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode)) continue;
      names.emplace_back(entry->d_name);
    }
    ::closedir(stream);
    std::sort(names.begin(), names.end());
    return names;
  }

  [[nodiscard]] std::string path_of(const std::string& name) const override {
    return absl::StrCat(directory_, "/", name);
  }

 private:
  absl::Status reserve(int fd, const std::string& name, uint64_t bytes) {
    const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    return error == 0 ? absl::OkStatus() : errno_status(error, "reserve space for", path_of(name));
  }

  absl::Status write_zeros(int fd, const std::string& name, uint64_t bytes) {
    const std::vector<std::byte> zeros(size_t{1} << 20);
    for (uint64_t offset = 0; offset < bytes;) {
      const size_t piece = std::min<uint64_t>(zeros.size(), bytes - offset);
      if (const int error = write_at(fd, offset, ByteSpan(zeros).first(piece)); error != 0) {
        return errno_status(error, "write zeros to", path_of(name));
      }
      offset += piece;
    }
    return absl::OkStatus();
  }

  absl::Status sync_directory() {
    return ::fsync(fd_.get()) == 0 ? absl::OkStatus() : errno_status(errno, "fsync directory", directory_);
  }

  std::unique_ptr<LogFile> file(OwnedFd fd, const std::string& name, uint64_t bytes) {
    const bool direct = !options_.read_only && (options_.io == LogIo::kDirect || options_.io == LogIo::kIoUring);
    // The open fails on file systems without O_DIRECT; the descriptor is then -1.
    OwnedFd direct_fd(direct ? ::openat(fd_.get(), name.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC) : -1);
    return std::make_unique<PosixFile>(std::move(fd), std::move(direct_fd), path_of(name), bytes, options_, ring_);
  }

  const std::string directory_;
  const OwnedFd fd_;
  const PosixDeviceOptions options_;
  const std::shared_ptr<DurableRing> ring_;  // null: none
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> open_posix_device(const std::string& directory,
                                                          const PosixDeviceOptions& options) {
  const bool made = !options.read_only && ::mkdir(directory.c_str(), 0755) == 0;
  if (!made && !options.read_only && errno != EEXIST) return errno_status(errno, "make", directory);
  OwnedFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return errno_status(errno, "open", directory);
  if (made) {
    const OwnedFd parent(::openat(fd.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent.is_open() || ::fsync(parent.get()) != 0)
      return errno_status(errno, "fsync the directory of", directory);
  }
  std::shared_ptr<DurableRing> ring;
  if (options.io == LogIo::kIoUring) {
    auto made = make_durable_ring();
    if (!made.ok()) return made.status();
    ring = *std::move(made);
  }
  return std::make_unique<PosixDevice>(directory, std::move(fd), options, std::move(ring));
}

}  // namespace skua::kv
