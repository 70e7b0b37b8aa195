#include <liburing.h>

#include <cerrno>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "kvstore/log/durable_write.h"

namespace skua::kv {
namespace {

constexpr unsigned kEntries = 4;

class UringRing final : public DurableRing {
 public:
  UringRing() = default;
  ~UringRing() override {
    if (open_) ::io_uring_queue_exit(&ring_);
  }
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  /// 0, or the kernel's errno.
  int open() {
    // COOP_TASKRUN: a completion need not interrupt the thread, because the thread waits in the kernel. Older kernels
    // do not have this flag.
    int error = ::io_uring_queue_init(kEntries, &ring_, IORING_SETUP_COOP_TASKRUN);
    if (error == -EINVAL) error = ::io_uring_queue_init(kEntries, &ring_, 0);
    open_ = error == 0;
    return -error;
  }

  ssize_t write(int fd, uint64_t offset, ByteSpan bytes) override {
    const std::lock_guard lock(mutex_);
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return fail(EIO);  // an earlier one could not be submitted
    ::io_uring_prep_write(entry, fd, bytes.data(), static_cast<unsigned>(bytes.size()), offset);
    entry->rw_flags = RWF_DSYNC;
    while (::io_uring_sq_ready(&ring_) > 0) {
      const int submitted = ::io_uring_submit_and_wait(&ring_, 1);
      if (submitted < 0 && submitted != -EINTR) return fail(EIO);
    }
    io_uring_cqe* completion = nullptr;
    int waited = 0;
    do waited = ::io_uring_wait_cqe(&ring_, &completion);
    while (waited == -EINTR);
    if (waited < 0) return fail(EIO);
    const int result = completion->res;
    ::io_uring_cqe_seen(&ring_, completion);
    return result < 0 ? fail(-result) : result;
  }

 private:
  static ssize_t fail(int error) {
    errno = error;
    return -1;
  }

  std::mutex mutex_;
  io_uring ring_{};
  bool open_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DurableRing>> make_durable_ring() {
  auto ring = std::make_unique<UringRing>();
  const int error = ring->open();
  if (error == 0) return ring;
  const char* const cause = error == EPERM || error == EACCES
                                ? " (see the sysctl kernel.io_uring_disabled, and the container's seccomp profile)"
                            : error == ENOSYS ? " (the kernel has none, or the container's seccomp profile hides it)"
                                              : "";
  return absl::FailedPreconditionError(absl::StrCat(
      "io_uring was asked for and cannot be used: ", absl::ErrnoToStatus(error, "io_uring_setup").message(), cause,
      "; choose another way to write the log (--log-io auto)"));
}

}  // namespace skua::kv
