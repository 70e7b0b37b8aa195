// SlowDisk: stands for ::fdatasync() (AuditLogOptions::sync). Hangs, or fails, when a test says so.
#ifndef SKUA_TESTS_CONTROL_SLOW_DISK_H_
#define SKUA_TESTS_CONTROL_SLOW_DISK_H_

#include <cerrno>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace skua::control {

/// Thread: any. What sync() returned may be used when the SlowDisk is gone: gRPC lets go of an audit log some time
/// after its server has ended.
class SlowDisk {
 public:
  [[nodiscard]] std::function<int(int)> sync() {
    return [disk = disk_](int /*fd*/) { return run(*disk); };
  }

  /// From now on who syncs waits.
  void hang() { set(disk_->hangs, true); }
  void go() { set(disk_->hangs, false); }
  void fail(bool fails) { set(disk_->fails, fails); }
  /// Waits until somebody waits.
  void wait_until_asked() {
    std::unique_lock lock(disk_->mutex);
    disk_->changed.wait(lock, [this] { return disk_->waiting; });
  }
  [[nodiscard]] int count() {
    const std::lock_guard lock(disk_->mutex);
    return disk_->count;
  }

 private:
  struct Disk {
    std::mutex mutex;
    std::condition_variable changed;
    bool hangs = false;
    bool fails = false;
    bool waiting = false;
    int count = 0;
  };

  void set(bool& what, bool to) {
    const std::lock_guard lock(disk_->mutex);
    what = to;
    disk_->changed.notify_all();
  }
  static int run(Disk& disk) {
    std::unique_lock lock(disk.mutex);
    disk.waiting = true;
    disk.changed.notify_all();
    disk.changed.wait(lock, [&disk] { return !disk.hangs; });
    disk.waiting = false;
    ++disk.count;
    if (disk.fails) errno = EIO;
    return disk.fails ? -1 : 0;
  }

  const std::shared_ptr<Disk> disk_ = std::make_shared<Disk>();
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_SLOW_DISK_H_
