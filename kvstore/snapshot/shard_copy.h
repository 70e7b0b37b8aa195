// ShardCopy: the copy of a replicated shard's database, before it replaces the shard's data. It starts with the content
// of a snapshot. Then committed entries are added as the shard's primary sends them.
//
//    ingest_shard() --> open_shard_copy(): removes entries that are not known to be committed
//                            add(entry) ... apply(), repeatedly             no memory tier, no log: nobody reads it yet
//                            close(): durable; the directory may be moved to the shards' directory
//
#ifndef SKUA_KVSTORE_SNAPSHOT_SHARD_COPY_H_
#define SKUA_KVSTORE_SNAPSHOT_SHARD_COPY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// All methods may wait for disks. After an error the copy is unusable. Thread: one at a time.
class ShardCopy {
 public:
  virtual ~ShardCopy() = default;

  /// Adds the entry at `index`, which must follow the last entry. Its time is bounded (entry_check.h). `payload` is the
  /// payload without the head of an entry. It must stay valid until apply(). DATA_LOSS, INVALID_ARGUMENT: a primary
  /// does not write such an entry.
  [[nodiscard]] virtual absl::Status add(uint64_t index, int64_t time_ms, ByteSpan payload) = 0;
  /// Writes the added entries to the database. Not durable before close().
  [[nodiscard]] virtual absl::Status apply() = 0;
  /// Index of the last entry added.
  [[nodiscard]] virtual uint64_t index() const = 0;
  /// Which epoch wrote which entries, as the database recorded it when it was opened (the last barrier). Opaque here.
  /// Empty: no record.
  [[nodiscard]] virtual const std::string& runs() const = 0;
  /// Makes everything durable and closes the database. No other call may follow.
  [[nodiscard]] virtual absl::Status close() = 0;
};

/// Opens the shard's database in directory `dir`. `engine` outlives the copy. Errors: those of open_db.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ShardCopy>> open_shard_copy(RocksdbEngine& engine, const std::string& dir,
                                                                         ShardId id);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SHARD_COPY_H_
