#include "app/signals.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "rpc/base/check.h"

namespace skua::app {

namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

bool watch(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StopSignal>> StopSignal::install() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);

  const sigset_t set = stop_signals();
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
    return absl::ErrnoToStatus(error, "blocking SIGINT and SIGTERM");
  }
  const int signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  const int event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (signal_fd < 0 || event_fd < 0 || epoll_fd < 0 || !watch(epoll_fd, signal_fd) || !watch(epoll_fd, event_fd)) {
    const int error = errno;
    for (const int fd : {signal_fd, event_fd, epoll_fd}) {
      if (fd >= 0) close(fd);
    }
    return absl::ErrnoToStatus(error, "making the descriptors that stop signals arrive on");
  }
  return std::unique_ptr<StopSignal>(new StopSignal(signal_fd, event_fd, epoll_fd));
}

StopSignal::StopSignal(int signal_fd, int event_fd, int epoll_fd)
    : signal_fd_(signal_fd), event_fd_(event_fd), epoll_fd_(epoll_fd) {}

StopSignal::~StopSignal() {
  close(epoll_fd_);
  close(event_fd_);
  close(signal_fd_);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int StopSignal::wait() {
  while (true) {
    if (std::optional<int> stop = wait_for(std::numeric_limits<DurationNs>::max())) return *stop;
  }
}

std::optional<int> StopSignal::wait_for(DurationNs limit_ns) {
  const SteadyClock clock;
  const TimeNs start = clock.now_ns();
  while (!delivered_) {
    const DurationNs left_ns = limit_ns - (clock.now_ns() - start);
    // Rounded up, so that the last poll does not spin through a fraction of a millisecond.
    const DurationNs left_ms = std::max<DurationNs>(0, left_ns / kMillisecond + 1);
    pollfd poll_fd{.fd = epoll_fd_, .events = POLLIN, .revents = 0};
    const int timeout_ms = left_ns <= 0 ? 0 : static_cast<int>(std::min<DurationNs>(left_ms, 1'000'000));
    if (poll(&poll_fd, 1, timeout_ms) > 0) deliver();
    if (!delivered_ && left_ns <= 0) return std::nullopt;
  }
  return delivered_;
}

int StopSignal::wait(DurationNs every_ns, const std::function<void()>& remind) {
  while (true) {
    if (std::optional<int> stop = wait_for(every_ns)) return *stop;
    remind();
  }
}

void StopSignal::deliver() {
  signalfd_siginfo info{};
  if (read(signal_fd_, &info, sizeof info) == sizeof info) {
    delivered_ = static_cast<int>(info.ssi_signo);
  } else if (uint64_t count = 0; read(event_fd_, &count, sizeof count) == sizeof count) {
    delivered_ = 0;
  } else {
    return;
  }
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void StopSignal::request_stop() {
  const uint64_t one = 1;
  // Only a counter at its limit refuses, and then the wait has long been over.
  (void)!write(event_fd_, &one, sizeof one);
}

}  // namespace skua::app
