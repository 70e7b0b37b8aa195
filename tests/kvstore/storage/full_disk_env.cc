#include "tests/kvstore/storage/full_disk_env.h"

#include <rocksdb/system_clock.h>

#include <atomic>
#include <limits>
#include <string>
#include <utility>

namespace skua::kv::testing {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

/// What is left, shared with the files.
struct Room {
  std::atomic<uint64_t> calls{kNever};
  std::atomic<FullDiskEnv::Error> error{FullDiskEnv::Error::kNoSpace};
  std::atomic<uint64_t> refusals{0};

  IOStatus take() {
    uint64_t left = calls.load();
    while (left != kNever && left > 0 && !calls.compare_exchange_weak(left, left - 1)) {
    }
    if (left > 0) return IOStatus::OK();
    refusals.fetch_add(1);
    switch (error.load()) {
      case FullDiskEnv::Error::kNoSpace: return IOStatus::NoSpace("simulated", "No space left on device");
      case FullDiskEnv::Error::kQuota: return IOStatus::IOError("simulated", "Disk quota exceeded");
      case FullDiskEnv::Error::kFiles: return IOStatus::IOError("simulated", "Too many open files");
      case FullDiskEnv::Error::kIo: break;
    }
    return IOStatus::IOError("simulated", "Input/output error");
  }
};

class File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<rocksdb::FSWritableFile> file, std::shared_ptr<Room> room)
      : FSWritableFileOwnerWrapper(std::move(file)), room_(std::move(room)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    IOStatus taken = room_->take();
    return taken.ok() ? target()->Append(data, options, debug) : taken;
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* debug) override {
    IOStatus taken = room_->take();
    return taken.ok() ? target()->Append(data, options, verification, debug) : taken;
  }
  // Where blocks are given out late, here as well.
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus taken = room_->take();
    return taken.ok() ? target()->Sync(options, debug) : taken;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus taken = room_->take();
    return taken.ok() ? target()->Fsync(options, debug) : taken;
  }

 private:
  const std::shared_ptr<Room> room_;
};

/// RocksDB's background threads sleep for a second after an error.
class WakefulClock final : public rocksdb::SystemClockWrapper {
 public:
  WakefulClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  [[nodiscard]] const char* Name() const override { return "WakefulClock"; }
  void SleepForMicroseconds(int /*micros*/) override {}
};

class WakefulEnv final : public rocksdb::EnvWrapper {
 public:
  explicit WakefulEnv(std::unique_ptr<rocksdb::Env> target) : EnvWrapper(std::move(target)) {
    system_clock_ = std::make_shared<WakefulClock>();
  }
};

}  // namespace

class FullDiskEnv::FullDisk final : public rocksdb::FileSystemWrapper {
 public:
  FullDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  [[nodiscard]] const char* Name() const override { return "FullDisk"; }
  Room& room() { return *room_; }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* debug) override {
    if (IOStatus taken = room_->take(); !taken.ok()) return taken;
    std::unique_ptr<rocksdb::FSWritableFile> made;
    IOStatus status = target()->NewWritableFile(path, options, &made, debug);
    if (status.ok()) *file = std::make_unique<File>(std::move(made), room_);
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    IOStatus taken = room_->take();
    return taken.ok() ? target()->RenameFile(from, to, options, debug) : taken;
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override {
    IOStatus taken = room_->take();
    return taken.ok() ? target()->LinkFile(from, to, options, debug) : taken;
  }
  IOStatus CreateDir(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    IOStatus taken = room_->take();
    return taken.ok() ? target()->CreateDir(path, options, debug) : taken;
  }
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* bytes,
                        IODebugContext* debug) override {
    if (room_->calls != 0) return target()->GetFreeSpace(path, options, bytes, debug);
    *bytes = 0;
    return IOStatus::OK();
  }

 private:
  const std::shared_ptr<Room> room_ = std::make_shared<Room>();
};

FullDiskEnv::FullDiskEnv()
    : disk_(std::make_shared<FullDisk>()), env_(std::make_unique<WakefulEnv>(rocksdb::NewCompositeEnv(disk_))) {}

FullDiskEnv::~FullDiskEnv() = default;

void FullDiskEnv::fill_after(uint64_t calls, Error error) {
  disk_->room().error = error;
  disk_->room().calls = calls;
}

void FullDiskEnv::free_space() {
  disk_->room().calls = kNever;
}

uint64_t FullDiskEnv::refusals() const {
  return disk_->room().refusals.load();
}

}  // namespace skua::kv::testing
