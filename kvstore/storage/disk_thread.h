// Tasks that may wait for disks, and for which no request waits: mostly steps of copying shards. DiskThread: one thread
// that runs them in order.
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

/// Runs tasks in order, elsewhere.
class DiskTasks {
 public:
  /// Queues a task. False: no more tasks are run, or too many wait; then the task does not run. Thread: any.
  [[nodiscard]] virtual bool submit(absl::AnyInvocable<void()> task) = 0;

 protected:
  ~DiskTasks() = default;
};

/// Thread: any, for all methods.
class DiskThread final : public DiskTasks {
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

  /// False: the thread was stopped, or queue_max tasks wait.
  [[nodiscard]] bool submit(absl::AnyInvocable<void()> task) override;
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
