// SlowDisk: stands for ::fdatasync() (AuditLogOptions::sync). Hangs, or fails, when a test says so.
#ifndef SKUA_TESTS_CONTROL_SLOW_DISK_H_
#define SKUA_TESTS_CONTROL_SLOW_DISK_H_

#include <cerrno>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace skua::control {

/// Thread: any.
class SlowDisk {
 public:
  [[nodiscard]] std::function<int(int)> sync() {
    return [this](int /*fd*/) { return run(); };
  }

  /// From now on who syncs waits.
  void hang() { set(hangs_, true); }
  void go() { set(hangs_, false); }
  void fail(bool fails) { set(fails_, fails); }
  /// Waits until somebody waits.
  void wait_until_asked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_; });
  }
  [[nodiscard]] int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  void set(bool& what, bool to) {
    const std::lock_guard lock(mutex_);
    what = to;
    changed_.notify_all();
  }
  int run() {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hangs_; });
    waiting_ = false;
    ++count_;
    if (fails_) errno = EIO;
    return fails_ ? -1 : 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  bool fails_ = false;
  bool waiting_ = false;
  int count_ = 0;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_SLOW_DISK_H_
