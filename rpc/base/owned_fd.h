// A file descriptor and its owner.
#ifndef SKUA_RPC_BASE_OWNED_FD_H_
#define SKUA_RPC_BASE_OWNED_FD_H_

#include <unistd.h>

#include <utility>

namespace skua {

/// Owns a file descriptor: closes it. Move-only.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_OWNED_FD_H_
