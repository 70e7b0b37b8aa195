#include "control/security/audit_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

constexpr mode_t kSecret = 0600;
/// Enough for a torn line and the whole one before it.
constexpr uint64_t kTailBytes = 2 * kAuditLineMax + 2;

absl::Status failed(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("the audit log ", path, " cannot be ", what));
}

/// So that a new name is there after a power cut.
absl::Status sync_directory_of(const std::string& path) {
  std::string directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty()) directory = ".";
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed(path, "synced");
  const bool synced = ::fsync(fd) == 0;
  absl::Status status = synced ? absl::OkStatus() : failed(path, "synced");
  ::close(fd);
  return status;
}

/// Nobody else's file is changed because its name was given. A file that a power cut left may begin with zeros.
absl::Status check_is_ours(int fd, const std::string& path) {
  char first = 0;
  const ssize_t got = ::pread(fd, &first, 1, 0);
  if (got < 0) return failed(path, "read");
  if (got == 0 || first == '{' || first == '\0') return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is no audit log: move it away, or give --audit-log another path"));
}

/// The end of a file.
struct Tail {
  uint64_t whole_bytes = 0;  ///< of the file up to its last line end
  uint64_t torn_bytes = 0;   ///< after it
  std::string last_line;     ///< the last whole one, without its end; empty: there is none
};

absl::StatusOr<Tail> read_tail(int fd, const std::string& path) {
  struct stat about {};
  if (::fstat(fd, &about) != 0) return failed(path, "read");
  const auto size = static_cast<uint64_t>(about.st_size);
  std::string bytes(std::min(size, kTailBytes), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n =
        ::pread(fd, bytes.data() + got, bytes.size() - got, static_cast<off_t>(size - bytes.size() + got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(path, "read");
    got += static_cast<size_t>(n);
  }
  const size_t end = bytes.rfind('\n');
  Tail tail;
  tail.torn_bytes = end == std::string::npos ? bytes.size() : bytes.size() - end - 1;
  // No line end in so many bytes: whatever it is, it stays as it is.
  if (end == std::string::npos && size > bytes.size()) tail.torn_bytes = 0;
  tail.whole_bytes = size - tail.torn_bytes;
  if (end == std::string::npos) return tail;
  const size_t before = end == 0 ? std::string::npos : bytes.rfind('\n', end - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  tail.last_line = bytes.substr(begin, end - begin);
  return tail;
}

}  // namespace

/// Closed with its last user.
class AuditFiles::File {
 public:
  explicit File(int fd) : fd(fd) {}
  ~File() { ::close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const int fd;
};

AuditFiles::AuditFiles(AuditFilesOptions options) : options_(std::move(options)) {}

AuditFiles::~AuditFiles() = default;

absl::StatusOr<std::unique_ptr<AuditFiles>> AuditFiles::open(AuditFilesOptions options) {
  std::unique_ptr<AuditFiles> files(new AuditFiles(std::move(options)));
  if (absl::Status status = files->open_file(); !status.ok()) return status;
  if (absl::Status status = files->recover(); !status.ok()) return status;
  return files;
}

void AuditFiles::write(const AuditEntry& entry) {
  const absl::Status status = write_line(entry);
  if (!status.ok()) return lose(1, std::string(status.message()));
  write_trouble_.clear();
}

void AuditFiles::lose(uint64_t lines, const std::string& why) {
  lost_ += lines;
  write_trouble_ = absl::StrCat(why, "; ", lost_, lost_ == 1 ? " line is lost" : " lines are lost");
}

/// Tells of lines that were lost, without waiting for the next one: nobody else may be refused for long.
void AuditFiles::tell_lost() {
  if (lost_ == 0) return;
  const uint64_t lines = std::exchange(lost_, 0);
  if (const absl::Status status = write_line({.event = "lost", .fields = {{"lines", lines}}}); !status.ok()) {
    return lose(lines, std::string(status.message()));
  }
  write_trouble_.clear();
}

/// Only a sync that succeeds ends the trouble of one that failed: lines that are not synced may be written meanwhile.
void AuditFiles::sync() {
  if (file_ == nullptr) return;
  sync_trouble_ =
      options_.sync(file_->fd) == 0 ? std::string() : std::string(failed(options_.path, "synced").message());
}

std::string AuditFiles::trouble() const {
  return write_trouble_.empty() ? sync_trouble_ : write_trouble_;
}

/// The first line of a file.
AuditEntry AuditFiles::begin() const {
  AuditEntry begin{.event = kAuditBegin};
  if (!options_.chain.empty()) begin.fields.emplace_back(kAuditChainField, options_.chain);
  return begin;
}

std::string AuditFiles::old_path(int n) const {
  return absl::StrCat(options_.path, ".", n);
}

absl::Status AuditFiles::open_file() {
  const int fd = ::open(options_.path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kSecret);
  if (fd < 0) return failed(options_.path, "opened");
  auto file = std::make_unique<File>(fd);
  struct stat about {};
  if (::fstat(fd, &about) != 0) return failed(options_.path, "opened");
  if (!S_ISREG(about.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the audit log ", options_.path, " is no file: give --audit-log another path, or \"off\""));
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("another process writes to the audit log ", options_.path,
                                                      ": give --audit-log a path of its own"));
  }
  if (absl::Status status = check_is_ours(fd, options_.path); !status.ok()) return status;
  if ((about.st_mode & 0777) != kSecret && ::fchmod(fd, kSecret) != 0) return failed(options_.path, "made secret");
  file_ = std::move(file);
  bytes_ = static_cast<uint64_t>(about.st_size);
  return absl::OkStatus();
}

/// Finds the chain's end in what is there.
absl::Status AuditFiles::recover() {
  auto tail = read_tail(file_->fd, options_.path);
  if (!tail.ok()) return tail.status();
  if (tail->torn_bytes > 0 && ::ftruncate(file_->fd, static_cast<off_t>(tail->whole_bytes)) != 0) {
    return failed(options_.path, "shortened");
  }
  bytes_ = tail->whole_bytes;
  std::string last_line = tail->last_line;
  if (bytes_ == 0) {
    const int fd = ::open(old_path(1).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      const File old(fd);
      auto old_tail = read_tail(old.fd, old_path(1));
      if (!old_tail.ok()) return old_tail.status();
      last_line = old_tail->last_line;
    }
  }
  AuditEntry first = begin();
  if (bytes_ > 0 || !last_line.empty()) {
    const auto last = parse_audit_line(last_line);
    if (last.ok()) {
      head_ = last->self;
    } else {
      first.fields.emplace_back(
          "why", absl::StrCat("the lines before cannot be continued; of the last one: ", last.status().message()));
      if (absl::Status status = bytes_ > 0 ? rotate() : absl::OkStatus(); !status.ok()) return status;
    }
  }
  // Also a file of an earlier start that could not write.
  if (bytes_ == 0) {
    if (absl::Status status = sync_directory_of(options_.path); !status.ok()) return status;
    if (absl::Status status = append(encode_audit_line(first, options_.now(), head_) + "\n"); !status.ok())
      return status;
  }
  if (tail->torn_bytes == 0) return absl::OkStatus();
  const AuditEntry torn{.event = "torn", .fields = {{"bytes", tail->torn_bytes}}};
  return append(encode_audit_line(torn, options_.now(), head_) + "\n");
}

/// Afterwards there is a file without a line.
absl::Status AuditFiles::rotate() {
  // After a power cut no line of the new file may be there without those before it.
  if (options_.sync(file_->fd) != 0) return failed(options_.path, "synced");
  for (int n = options_.files_max - 1; n > 0; --n) {
    const std::string from = n == 1 ? options_.path : old_path(n - 1);
    // The target, the oldest file, goes.
    if (std::rename(from.c_str(), old_path(n).c_str()) != 0 && errno != ENOENT) return failed(from, "renamed");
  }
  if (options_.files_max <= 1 && ::unlink(options_.path.c_str()) != 0) return failed(options_.path, "removed");
  file_ = nullptr;
  if (absl::Status status = open_file(); !status.ok()) return status;
  return sync_directory_of(options_.path);
}

absl::Status AuditFiles::make_room() {
  if (file_ == nullptr) {
    if (absl::Status status = open_file(); !status.ok()) return status;
    if (absl::Status status = sync_directory_of(options_.path); !status.ok()) return status;
  } else if (bytes_ >= options_.file_bytes_max) {
    if (absl::Status status = rotate(); !status.ok()) return status;
  }
  if (bytes_ > 0) return absl::OkStatus();
  AuditHead head = head_;
  absl::Status status = append(encode_audit_line(begin(), options_.now(), head) + "\n");
  if (status.ok()) head_ = head;
  return status;
}

absl::Status AuditFiles::write_line(const AuditEntry& entry) {
  if (absl::Status status = make_room(); !status.ok()) return status;
  AuditHead head = head_;
  std::string bytes;
  if (lost_ > 0) {
    const AuditEntry lost{.event = "lost", .fields = {{"lines", lost_}}};
    bytes = encode_audit_line(lost, options_.now(), head) + "\n";
  }
  absl::StrAppend(&bytes, encode_audit_line(entry, options_.now(), head), "\n");
  if (absl::Status status = append(bytes); !status.ok()) return status;
  head_ = std::move(head);
  lost_ = 0;
  return absl::OkStatus();
}

/// Appends all bytes or none. A part that could not be taken back is taken back before the next ones.
absl::Status AuditFiles::append(std::string_view bytes) {
  if (torn_ && ::ftruncate(file_->fd, static_cast<off_t>(bytes_)) != 0) return failed(options_.path, "shortened");
  torn_ = false;
  ssize_t written = -1;
  do {
    written = ::write(file_->fd, bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(bytes.size())) {
    bytes_ += bytes.size();
    return absl::OkStatus();
  }
  if (written >= 0) errno = ENOSPC;
  absl::Status status = failed(options_.path, "written");
  torn_ = written > 0 && ::ftruncate(file_->fd, static_cast<off_t>(bytes_)) != 0;
  return status;
}

}  // namespace skua::control
