#include "kvstore/storage/disk_thread.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace skua::kv {

DiskThread::DiskThread(Options options) : options_(std::move(options)), thread_([this] { run(); }) {}

DiskThread::~DiskThread() {
  stop();
}

bool DiskThread::submit(absl::AnyInvocable<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || tasks_.size() >= options_.queue_max) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void DiskThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DiskThread::run() {
  static_cast<void>(pthread_setname_np(pthread_self(), options_.name));
  const std::chrono::nanoseconds pause(options_.idle_every_ns);
  auto idle_at = std::chrono::steady_clock::now() + pause;
  std::unique_lock lock(mutex_);
  while (!stopping_ || !tasks_.empty()) {
    if (tasks_.empty()) changed_.wait_until(lock, idle_at, [&] { return stopping_ || !tasks_.empty(); });
    const bool idle = std::chrono::steady_clock::now() >= idle_at;
    absl::AnyInvocable<void()> task;
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    lock.unlock();
    if (task) task();
    task = nullptr;
    if (idle) {
      if (options_.on_idle) options_.on_idle();
      idle_at = std::chrono::steady_clock::now() + pause;
    }
    lock.lock();
  }
}

}  // namespace skua::kv
