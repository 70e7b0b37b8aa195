// DiskThread: one thread that runs tasks in order. The tasks may wait for disks, and no request waits for them. Mostly
// they are steps of copying shards.
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
    const char* name = "disk";  ///< of the thread, at most 15 characters
    size_t queue_max = 256;
    /// Called on the thread between tasks, about every idle_every_ns.
    std::function<void()> on_idle{};
    DurationNs idle_every_ns = kSecond;
  };

  explicit DiskThread(Options options);
  /// Calls stop().
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;

  /// Queues a task. False: the thread was stopped, or queue_max tasks wait; then the task does not run.
  [[nodiscard]] bool submit(absl::AnyInvocable<void()> task);
  /// Runs the queued tasks and ends the thread. A second call does nothing.
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
