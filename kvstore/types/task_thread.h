// TaskThread: a thread for work that may wait for disks or for others, and that no request waits for. It runs tasks in
// order, and something again and again.
#ifndef SKUA_KVSTORE_TYPES_TASK_THREAD_H_
#define SKUA_KVSTORE_TYPES_TASK_THREAD_H_

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
class TaskRunner {
 public:
  /// Queues a task. False: no more tasks are run, or too many wait; then the task does not run. Thread: any.
  [[nodiscard]] virtual bool submit(absl::AnyInvocable<void()> task) = 0;

 protected:
  ~TaskRunner() = default;
};

/// Thread: any, for all methods.
class TaskThread final : public TaskRunner {
 public:
  struct Options {
    const char* name = "tasks";  ///< of the thread, at most 15 characters
    size_t queue_max = 256;
    /// Called on the thread between tasks, about every `interval_ns`.
    std::function<void()> at_intervals{};
    DurationNs interval_ns = kSecond;
  };

  explicit TaskThread(Options options);
  /// Calls stop().
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

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

#endif  // SKUA_KVSTORE_TYPES_TASK_THREAD_H_
