// Being asked to stop: SIGINT and SIGTERM become something a main thread can wait for.
#ifndef SKUA_APP_SIGNALS_H_
#define SKUA_APP_SIGNALS_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"

namespace skua::app {

/// Install it first in main, before any thread exists: threads inherit the blocked signals, so only
/// this object ever sees them. SIGPIPE is ignored from then on (a peer that closes is an error
/// code, not the end of the process). After the first signal was delivered by wait(), SIGINT and
/// SIGTERM act as usual again in the waiting thread: a second Ctrl-C ends a process that hangs in
/// shutdown. At most one at a time. Destroying it restores the signal mask of the calling thread.
class StopSignal {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StopSignal>> install();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Readable (poll, epoll) once a stop was asked for. Do not read from it.
  [[nodiscard]] int fd() const { return epoll_fd_; }

  /// Blocks until a stop is asked for; returns SIGINT or SIGTERM, or 0 for request_stop(). Later
  /// calls return the same at once. Thread: the one that installed it.
  int wait();
  /// The same with a limit; empty when `limit_ns` passed first. Zero polls.
  std::optional<int> wait_for(DurationNs limit_ns);
  /// wait(), which calls `remind` each time that `every_ns` have passed.
  int wait(DurationNs every_ns, const std::function<void()>& remind);

  /// Ends the wait from inside the program (an unrecoverable error on another thread).
  /// Thread: any.
  void request_stop();

 private:
  StopSignal(int signal_fd, int event_fd, int epoll_fd);
  void deliver();

  const int signal_fd_;
  const int event_fd_;
  const int epoll_fd_;
  std::optional<int> delivered_;
};

}  // namespace skua::app

#endif  // SKUA_APP_SIGNALS_H_
