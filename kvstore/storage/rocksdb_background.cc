#include "kvstore/storage/rocksdb_background.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

namespace skua::kv::internal {
namespace {

/// If no event comes for this time, the flush is asked for again.
constexpr auto kLookAgain = std::chrono::seconds(1);

/// RocksDB has no codes for EDQUOT, EMFILE and ENFILE. These are the texts that strerror() gives them.
constexpr std::array kShortages = {"Disk quota exceeded", "Too many open files"};

}  // namespace

bool is_shortage(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return true;
  const char* const text = status.getState();
  return status.IsIOError() && text != nullptr &&
         std::any_of(kShortages.begin(), kShortages.end(),
                     [&](const char* of) { return std::strstr(text, of) != nullptr; });
}

rocksdb::Status RocksdbBackground::flush(rocksdb::DB& db, Wait wait) {
  rocksdb::FlushOptions options;
  options.wait = false;
  options.allow_write_stall = true;  // else Flush() waits inside RocksDB, without end if no flush succeeds
  for (bool asked = false;;) {
    std::unique_lock lock(mutex_);
    const uint64_t seen = events_;
    if (!why_.ok()) return why_;
    lock.unlock();
    if (!asked) {
      const rocksdb::Status status = db.Flush(options);
      if (!status.ok() || wait == Wait::kNo) return status;
      asked = true;
    }
    uint64_t unflushed = 0;
    if (!db.GetIntProperty(rocksdb::DB::Properties::kNumImmutableMemTable, &unflushed)) {
      return rocksdb::Status::NotSupported("the number of tables in memory is unknown");
    }
    if (unflushed == 0) return allow_deletions(db);
    lock.lock();
    // RocksDB may have lost the request, so it is made again.
    if (!changed_.wait_for(lock, kLookAgain, [&] { return events_ != seen; })) asked = false;
  }
}

/// Lets RocksDB delete files again, if a flush has completed since the last error in the manifest: that flush wrote a
/// new manifest.
rocksdb::Status RocksdbBackground::allow_deletions(rocksdb::DB& db) {
  uint64_t times = 0;
  {
    const std::lock_guard lock(mutex_);
    if (manifest_errors_ > 0 && flushes_ > flushes_before_) times = std::exchange(manifest_errors_, 0);
  }
  for (; times > 0; --times) (void)db.EnableFileDeletions(/*force=*/false);
  return rocksdb::Status::OK();
}

rocksdb::Status RocksdbBackground::resume(rocksdb::DB& db) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_shortage(why_)) return why_;
    why_ = rocksdb::Status::OK();
  }
  return db.Resume();
}

rocksdb::Status RocksdbBackground::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

bool RocksdbBackground::take_failed_compaction() {
  const std::lock_guard lock(mutex_);
  return std::exchange(compaction_failed_, false);
}

void RocksdbBackground::OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) {
  {
    const std::lock_guard lock(mutex_);
    ++flushes_;
    ++events_;
  }
  changed_.notify_all();
}

void RocksdbBackground::OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) {
  using Reason = rocksdb::BackgroundErrorReason;
  if (is_shortage(*error)) *error = rocksdb::Status(*error, rocksdb::Status::Severity::kSoftError);
  {
    const std::lock_guard lock(mutex_);
    if (reason == Reason::kManifestWrite || reason == Reason::kManifestWriteNoWAL) {
      ++manifest_errors_;
      flushes_before_ = flushes_;
    }
    if (reason == Reason::kCompaction && is_shortage(*error)) {
      compaction_failed_ = true;
    } else if (why_.ok() || error->severity() > why_.severity()) {
      why_ = *error;
    }
    ++events_;
  }
  changed_.notify_all();
}

void RocksdbBackground::OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status /*error*/,
                                             bool* auto_recovery) {
  *auto_recovery = false;
}

}  // namespace skua::kv::internal
