#include "kvstore/server/storage_watch.h"

#include <pthread.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

constexpr auto kStorageInterval = std::chrono::milliseconds(200);

}  // namespace

std::optional<absl::Status> GrowthGate::look(uint64_t free_bytes) {
  const bool closes = free_bytes < (closed_ ? reserve_bytes_ + reserve_bytes_ / 8 : reserve_bytes_);
  if (closes == std::exchange(closed_, closes)) return std::nullopt;
  if (!closes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the disk is full: the file system of ", directory_, " has ", free_bytes >> 20, " MiB free, and the node keeps ",
      reserve_bytes_ >> 20,
      " MiB (--disk-reserve) for its own work. Reads and deletes go on; free space there, or add some, and "
      "writes are taken again by themselves"));
}

absl::StatusOr<uint64_t> free_bytes_of(const std::string& path) {
  struct statvfs about {};
  if (::statvfs(path.c_str(), &about) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("statvfs ", path));
  return uint64_t{about.f_bavail} * about.f_frsize;
}

absl::StatusOr<uint64_t> disk_bytes_of(const std::string& path) {
  struct statvfs about {};
  if (::statvfs(path.c_str(), &about) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("statvfs ", path));
  return uint64_t{about.f_blocks} * about.f_frsize;
}

StorageWatch::StorageWatch(Options options, std::vector<Worker*> workers)
    : options_(std::move(options)),
      workers_(std::move(workers)),
      gate_(options_.data_dir, options_.reserve_bytes),
      log_failures_(workers_.size()) {
  look();
  thread_ = std::thread([this] { run(); });
}

StorageWatch::~StorageWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  thread_.join();
}

void StorageWatch::run() {
  // For people looking at top(1); a failure changes nothing.
  static_cast<void>(pthread_setname_np(pthread_self(), "storage-watch"));
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kStorageInterval, [this] { return stopping_; })) {
    lock.unlock();
    look();
    if (options_.on_trouble) options_.on_trouble(trouble());
    lock.lock();
  }
}

void StorageWatch::look() {
  const auto free_bytes = free_bytes_of(options_.data_dir);
  if (const auto growth = free_bytes.ok() ? gate_.look(*free_bytes) : std::nullopt) {
    for (Worker* worker : workers_) worker->set_growth(*growth);
    growth_ = *growth;
    options_.log(growth->ok() ? LogSeverity::kInfo : LogSeverity::kError,
                 growth->ok() ? "the disk has room again; writes are taken" : std::string(growth->message()));
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (!log_failures_[i].empty()) continue;
    const auto stats = workers_[i]->stats();
    if (!stats.ok() || stats->storage.log_health.ok()) continue;
    log_failures_[i] =
        absl::StrCat("log failed worker=", workers_[i]->index(), ": ", stats->storage.log_health.message(),
                     "; the worker's shards refuse writes until the node is started again. What was "
                     "acknowledged is kept; look at the disk first");
    options_.log(LogSeverity::kError, log_failures_[i]);
  }
}

std::string StorageWatch::trouble() const {
  std::string all(growth_.message());
  for (const std::string& failure : log_failures_) {
    if (!failure.empty()) absl::StrAppend(&all, all.empty() ? "" : "; ", failure);
  }
  return all;
}

}  // namespace skua::kv
