// Handles a database's flushes and background errors on a disk that may be full.
//
//    asked for ---> RocksDB's thread ---> completed                        flush() returns OK
//                                    `--> failed: no room ---> why()       flush() returns that
//                                                               |  resume(), as soon as there is room
//                                                               v
//                                                             asked for again
//
// RocksDB 7.8 stops a database at an error, and DB::Resume makes it go on. Resume can wait without end: a flush that
// was scheduled before the stop and starts after it stays in a queue that no thread serves any more; and a compaction
// that fails at that moment ends Resume before its own flush. So here a full disk never stops a database: such errors
// are made *soft*. Nothing is lost by that: what could not be flushed stays in memory, and no thread waits for a flush
// inside RocksDB.
//
// After an error in the manifest RocksDB keeps all files, because it is not known how much of the manifest's last
// record was written. The next flush writes a new manifest; then files may be deleted again.
//
// RocksDB's own attempts to go on, every five seconds on a thread per database, are switched off: while they run,
// RocksDB refuses all other attempts.
#ifndef SKUA_KVSTORE_STORAGE_ROCKSDB_BACKGROUND_H_
#define SKUA_KVSTORE_STORAGE_ROCKSDB_BACKGROUND_H_

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace skua::kv::internal {

/// True if the disk, or this user's share of it, has no room, or no more files may be open. Such an error may pass.
[[nodiscard]] bool is_shortage(const rocksdb::Status& status);

enum class Wait : uint8_t { kNo, kYes };

/// The listener of one database. Thread: any.
class RocksdbBackground final : public rocksdb::EventListener {
 public:
  /// Flushes. Returns when everything that was written before is on the disk, or cannot be written; with kNo, when the
  /// flush has begun. Flushes must not be waited for in another way: RocksDB waits without end if the flush fails.
  [[nodiscard]] rocksdb::Status flush(rocksdb::DB& db, Wait wait = Wait::kYes);

  /// OK, or why something could not be written in the background.
  [[nodiscard]] rocksdb::Status why() const;

  /// True if a compaction found no room since the last call. That stops nothing, but RocksDB remembers the error until
  /// DB::Resume.
  [[nodiscard]] bool take_failed_compaction();

  /// Clears why() if the reason was a full disk, and resumes the database. Else the database stays stopped, and this
  /// returns why().
  [[nodiscard]] rocksdb::Status resume(rocksdb::DB& db);

  // --- Called by RocksDB
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, rocksdb::Status error, bool* auto_recovery) override;

 private:
  [[nodiscard]] rocksdb::Status allow_deletions(rocksdb::DB& db);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t events_ = 0;
  uint64_t flushes_ = 0;          // completed
  uint64_t manifest_errors_ = 0;  // since files were last allowed to be deleted again
  uint64_t flushes_before_ = 0;   // flushes_ at the last manifest error
  bool compaction_failed_ = false;
  rocksdb::Status why_;
};

}  // namespace skua::kv::internal

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_BACKGROUND_H_
