// DiskThread: one thread that does in order what may wait for disks and nobody waits for: pieces of copies, mostly.
#ifndef SKUA_KVSTORE_STORAGE_DISK_THREAD_H_
#define SKUA_KVSTORE_STORAGE_DISK_THREAD_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Thread: any, for all methods.
class DiskThread {
 public:
  struct Options {
    const char* name = "disk";  ///< the thread's, 15 characters at most
    size_t queue_max = 256;
    /// Now and then, on the thread.
    std::function<void()> on_idle{};
    DurationNs idle_every_ns = kSecond;
  };

  explicit DiskThread(Options options);
  /// stop()s.
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;

  /// False: stopped, or too many wait; the task does not run.
  [[nodiscard]] bool submit(absl::AnyInvocable<void()> task);
  /// Does what is queued and ends the thread. A second call does nothing.
  void stop();

 private:
  void run();

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<absl::AnyInvocable<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_DISK_THREAD_H_
