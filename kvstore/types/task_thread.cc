#include "kvstore/types/task_thread.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace skua::kv {

TaskThread::TaskThread(Options options) : options_(std::move(options)), thread_([this] { run(); }) {}

TaskThread::~TaskThread() {
  stop();
}

bool TaskThread::submit(absl::AnyInvocable<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || tasks_.size() >= options_.queue_max) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void TaskThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TaskThread::run() {
  // The name is for people who look at top(1). A failure has no effect.
  static_cast<void>(pthread_setname_np(pthread_self(), options_.name));
  const std::chrono::nanoseconds pause(options_.interval_ns);
  auto due = std::chrono::steady_clock::now() + pause;
  std::unique_lock lock(mutex_);
  while (!stopping_ || !tasks_.empty()) {
    if (tasks_.empty()) changed_.wait_until(lock, due, [&] { return stopping_ || !tasks_.empty(); });
    const bool is_due = std::chrono::steady_clock::now() >= due;
    absl::AnyInvocable<void()> task;
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    lock.unlock();
    if (task) task();
    task = nullptr;
    if (is_due) {
      if (options_.at_intervals) options_.at_intervals();
      due = std::chrono::steady_clock::now() + pause;
    }
    lock.lock();
  }
}

}  // namespace skua::kv
