// A database's flushes and errors on a disk that may be full.
//
//    asked for ---> RocksDB's thread ---> completed                        flush() returns OK
//                                    `--> failed: no room ---> why()       flush() returns that
//                                                               |  resume(), as soon as there is room
//                                                               v
//                                                             asked for again
//
// RocksDB 7.8 would stop the database at an error, and go on with DB::Resume. That can wait without end: a flush which
// was scheduled before the stop, and begins behind it, stays in a queue that nobody looks at any more; a compaction that
// fails at that moment ends Resume before its own flush. So the database is never stopped because its disk is full:
// such errors are *soft*. Nothing is lost by that: what could not be flushed stays in memory, and no flush is waited for
// inside RocksDB.
//
// After an error in the manifest RocksDB keeps all files, because nobody knows how much of the last record is there.
// The next flush writes a new manifest; then files may be deleted again.
//
// RocksDB's own attempts to go on, every five seconds on a thread per database, are switched off: they would refuse
// everybody else's.
#ifndef SKUA_KVSTORE_STORAGE_ROCKSDB_BACKGROUND_H_
#define SKUA_KVSTORE_STORAGE_ROCKSDB_BACKGROUND_H_

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace skua::kv::internal {

/// The disk, or this user's share of it, has no room, or no more files may be open: that may be over later.
[[nodiscard]] bool is_shortage(const rocksdb::Status& status);

enum class Wait : uint8_t { kNo, kYes };

/// A listener of one database. Thread: any.
class RocksdbBackground final : public rocksdb::EventListener {
 public:
  /// Returns when all that was written before is on the disk, or cannot be; kNo: when that has begun. Nobody may wait
  /// for a flush in another way: RocksDB does so without end if the flush fails.
  [[nodiscard]] rocksdb::Status flush(rocksdb::DB& db, Wait wait = Wait::kYes);

  /// OK, or why something could not be written in the background.
  [[nodiscard]] rocksdb::Status why() const;

  /// A compaction found no room since the last call. That stops nobody, but RocksDB remembers it until DB::Resume.
  [[nodiscard]] bool take_failed_compaction();

  /// Forgets why(), if it was a full disk; else the database stays stopped, and this says why.
  [[nodiscard]] rocksdb::Status resume(rocksdb::DB& db);

  // --- RocksDB's
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, rocksdb::Status error, bool* auto_recovery) override;

 private:
  void note_event();
  [[nodiscard]] rocksdb::Status allow_deletions(rocksdb::DB& db);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t events_ = 0;
  uint64_t flushes_ = 0;          // completed
  uint64_t manifest_errors_ = 0;  // since the last one that let files be deleted again
  uint64_t flushes_before_ = 0;   // the last of them
  bool compaction_failed_ = false;
  rocksdb::Status why_;
};

}  // namespace skua::kv::internal

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_BACKGROUND_H_
