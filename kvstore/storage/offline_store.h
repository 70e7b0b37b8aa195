// Reads a stopped node's data without changing it: the log of each worker, the database of each shard, and whether they
// fit together.
//
//    <data-dir>/log/0    log/1 ...      LogRecovery::scan of each, as when the node starts
//                   \   /
//    <data-dir>/shards/7-0  7-1 ...     applied index of the database <-> records of the shard in its last log
//
// dump() shows what recovery would bring into the databases: the database itself, and above its applied index the log.
// Of a shard with replicas recovery takes only entries that are known to be committed; so does dump(), unless it is
// told otherwise. Memory: the latest unapplied write of each key, at most a log's window.
#ifndef SKUA_KVSTORE_STORAGE_OFFLINE_STORE_H_
#define SKUA_KVSTORE_STORAGE_OFFLINE_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/reply.h"
#include "kvstore/log/device.h"
#include "kvstore/log/log_recovery.h"
#include "kvstore/storage/offline_db.h"
#include "kvstore/storage/replica_tail.h"

namespace skua::kv {

struct OfflineLog {
  uint32_t worker = 0;
  std::string directory{};
  /// Why the log cannot be read. DATA_LOSS: it is missing. Damage is no such reason (see recovery->damages()).
  absl::Status status{};
  std::unique_ptr<Device> device{};
  std::unique_ptr<LogRecovery> recovery{};
};

struct OfflineShard {
  ShardId id;
  std::string directory{};
  absl::Status status{};  ///< why the database cannot be opened; NOT_FOUND: there is none
  std::unique_ptr<OfflineDb> db{};
  const OfflineLog* log = nullptr;  ///< the log with the shard's newest records; null: no log has any
  uint64_t log_last_index = 0;
  uint64_t replay_from = 0;  ///< the log's records behind this one are to be replayed
  /// What the database's rows say of entries that are not applied (replica_rows.h). The log need not have these
  /// entries.
  ReplicaTail tail{};
  absl::Status log_status{};  ///< DATA_LOSS if records above the database's applied index are, or may be, missing

  [[nodiscard]] bool is_sound() const { return status.ok() && log_status.ok(); }
  [[nodiscard]] uint64_t applied_index() const { return db == nullptr ? 0 : db->applied_index(); }
  /// Number of records that recovery would bring into the database.
  [[nodiscard]] uint64_t unapplied() const {
    return log_last_index > applied_index() ? log_last_index - applied_index() : 0;
  }
};

/// Called with the bytes that were read so far, and all bytes to be read.
using OfflineProgress = std::function<void(uint64_t done, uint64_t total)>;

/// While this is open, nothing else may use the directory. Thread: one.
class OfflineStore {
 public:
  struct Options {
    std::string data_dir;
    LogIdentity identity{};   ///< log_number is filled in
    bool has_joined = false;  ///< the node has been in a cluster; so it has made log 0 before its first database
    OfflineProgress progress{};
  };

  /// Reads all logs and opens all databases. If one of them cannot be read, its status says why. A log that is missing
  /// below the highest number counts as one that cannot be read. Nothing tells of a missing log above all others.
  /// Errors: a directory that cannot be listed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OfflineStore>> open(Options options);

  [[nodiscard]] const std::deque<OfflineLog>& logs() const { return logs_; }
  /// Ordered by id. A shard of which only a log has records has an empty directory.
  [[nodiscard]] const std::vector<OfflineShard>& shards() const { return shards_; }

  /// What verify() found in one file, log or shard.
  struct Finding {
    std::string subject;               ///< "log 0", "shard 7-1"
    absl::Status status{};             ///< OK: everything is as it was written
    std::string detail{};              ///< if OK: what was found, in numbers
    std::string file{};                ///< the damaged file or its directory; empty: none in particular
    std::optional<uint64_t> offset{};  ///< of the damage in the file, where it is known
    std::string remedy{};              ///< if not OK: what the operator can do
  };
  /// Reads every byte of the databases (open() has read those of the logs). Calls `tell` with what it finds, one log or
  /// shard after the other.
  void verify(absl::FunctionRef<void(const Finding&)> tell) const;

  /// Selects the rows that dump() visits.
  struct Selection {
    std::optional<uint32_t> table_id{};
    std::optional<uint32_t> shard{};
    std::string start{};   ///< first key of each shard
    bool salvage = false;  ///< of a shard that recovery would refuse, what its database holds
    /// Entries of shards with replicas that are not known to be committed, too: the last writes before a crash, perhaps
    /// never acknowledged, which another primary may have replaced.
    bool uncommitted = false;
    uint64_t now_ms = 0;  ///< unix time; keys that have expired by then are left out. 0: none has
  };
  /// Called for each row. False ends the dump.
  using DumpVisitor = absl::FunctionRef<bool(ShardId, const ScanRow&)>;
  /// Visits rows by shard and key. A shard that recovery would refuse, or that has no database, is told to `refused`
  /// and left out, unless its database is wanted. Returns how many entries are not known to be committed. Errors: what
  /// the files say while they are read.
  [[nodiscard]] absl::StatusOr<uint64_t> dump(const Selection& selection, DumpVisitor visit,
                                              absl::FunctionRef<void(ShardId, const absl::Status&)> refused) const;

 private:
  explicit OfflineStore(Options options) : options_(std::move(options)) {}
  absl::Status open_logs();
  [[nodiscard]] absl::Status open_log(OfflineLog& log, bool exists) const;
  absl::Status open_shards();
  [[nodiscard]] absl::Status unread_log_status() const;
  [[nodiscard]] absl::Status join(OfflineShard& shard) const;
  void verify_log(const OfflineLog& log, absl::FunctionRef<void(const Finding&)> tell) const;
  void verify_shard(const OfflineShard& shard, uint64_t& done, uint64_t total,
                    absl::FunctionRef<void(const Finding&)> tell) const;

  const Options options_;
  std::deque<OfflineLog> logs_;  // shards_ points into it
  std::vector<OfflineShard> shards_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_OFFLINE_STORE_H_
