#include "rpc/base/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace skua {

LineFile::LineFile(std::string path, uint64_t bytes_max) : path_(std::move(path)), bytes_max_(bytes_max) {}

bool LineFile::open() {
  if (fd_.is_open() && bytes_ >= bytes_max_) {
    // Renaming may need room that the disk does not have. Then the file is emptied instead.
    if (std::rename(path_.c_str(), (path_ + ".old").c_str()) != 0 && ::ftruncate(fd_.get(), 0) != 0) return false;
    fd_ = OwnedFd();
  }
  if (fd_.is_open()) return true;
  fd_ = OwnedFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat about {};
  if (!fd_.is_open()) return false;
  bytes_ = ::fstat(fd_.get(), &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
  return true;
}

/// Appends all bytes or none.
bool LineFile::append(std::string_view bytes) {
  if (!open()) return false;
  ssize_t written = -1;
  do {
    written = ::write(fd_.get(), bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(bytes.size())) {
    bytes_ += bytes.size();
    return true;
  }
  if (written > 0 && ::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) bytes_ += static_cast<uint64_t>(written);
  return false;
}

void LineFile::write(std::string_view line) {
  const std::lock_guard lock(mutex_);
  std::string bytes;
  if (lost_ > 0) bytes = "(" + std::to_string(lost_) + " lines were lost: they could not be written)\n";
  bytes.append(line);
  bytes.push_back('\n');
  lost_ = append(bytes) ? 0 : lost_ + 1;
}

}  // namespace skua
