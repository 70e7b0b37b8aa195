// Empties a worker's log into the databases when the node starts, before any shard is served.
//
//    scan_log --> per shard: open its database, is anything missing?  --> replay what is above its applied index in
//                                |                                        chunks, sorted by key; flush, close
//                                +--> refused: the shard is not served
//    Log::open --> every shard that is whole is ended in the log --> its segments are spares again
//
// Damage may have taken the start of a shard that the log does not name. So if a log is damaged, the databases that no
// log names are looked at, too.
//
// Afterwards the log holds records of refused shards only, so the other shards may go to any worker. Recovery may be
// repeated: a crash in the middle leaves the log as it was, and an effect that is applied twice has the same result as
// once.
#ifndef SKUA_KVSTORE_STORAGE_RECOVERY_H_
#define SKUA_KVSTORE_STORAGE_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/completions/completions.h"
#include "kvstore/log/device.h"
#include "kvstore/log/log.h"
#include "kvstore/log/log_recovery.h"
#include "kvstore/storage/rocksdb_engine.h"

namespace skua::kv {

/// The number by which logs name a shard, and the shard of such a number.
[[nodiscard]] constexpr LogShard log_shard_of(ShardId id) {
  return LogShard{id.table_id} << 32 | id.shard;
}
[[nodiscard]] constexpr ShardId shard_id_of(LogShard shard) {
  return {static_cast<uint32_t>(shard >> 32), static_cast<uint32_t>(shard)};
}

struct RecoveryOptions {
  LogOptions log;
  std::string shards_dir;
  std::set<ShardId> made{};  ///< shards whose databases the node has made, and has not removed on purpose
  /// Shards that other logs of the node name. Damage to this log concerns them only if this log names them, too.
  std::set<ShardId> named_elsewhere{};
  /// Bytes of the log that are gathered in memory before their records are applied. Each time costs several syncs per
  /// shard.
  size_t chunk_bytes = size_t{256} << 20;
  CompletionLimits completions{};                  ///< those of the engine that will serve the shards
  int threads = 0;                                 ///< for applying shards in parallel; 0: one per processor, up to 8
  std::function<void(const std::string&)> tell{};  ///< called with progress and findings, one line at a time
};

struct RecoveredLog {
  std::unique_ptr<Log> log;
  /// Shards whose records or databases are damaged or cannot be opened, and why. They must not be served. Their records
  /// stay in the log.
  std::map<ShardId, absl::Status> refused;
  uint64_t records_replayed = 0;
};

/// Reads and checks the log on `device`. Waits for the disk. Errors: those of LogRecovery::scan().
[[nodiscard]] absl::StatusOr<std::unique_ptr<LogRecovery>> scan_log(Device& device, const RecoveryOptions& options);

/// Recovers the log on `device`, of which `scanned` is what scan_log() has read; null: reads it first. Waits for the
/// disk. Errors: those of scan_log() and Log::open(); FAILED_PRECONDITION: the log is damaged, and may have held more
/// shards than a log can note.
[[nodiscard]] absl::StatusOr<RecoveredLog> recover_log(Device& device, const RecoveryOptions& options,
                                                       RocksdbEngine& engine,
                                                       std::unique_ptr<LogRecovery> scanned = nullptr);

/// Removes the log's spare files, to make room for a recovery on a full disk. No log may be open on the device. The log
/// that is opened next makes new spare files when there is room. Returns how many files were removed.
[[nodiscard]] absl::StatusOr<size_t> give_up_spares(Device& device);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_RECOVERY_H_
