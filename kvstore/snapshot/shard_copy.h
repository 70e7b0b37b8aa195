// A copy of a replicated shard's database that follows the shard before it takes its place: what a snapshot has, and then
// committed entries, as they come from the shard's primary.
//
//    ingest_shard() --> open_shard_copy(): without entries that are not known to be committed
//                            add(entry) ... apply(), again and again        no memory tier, no log: nobody reads it yet
//                            close(): durable; the directory may be moved to where shards are
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

/// Waits for disks. After an error the copy is of no use. Thread: one at a time.
class ShardCopy {
 public:
  virtual ~ShardCopy() = default;

  /// The entry at `index`, which follows the last one; its time is bounded (entry_check.h). Its payload (without an
  /// entry's head) stays until apply(). DATA_LOSS, INVALID_ARGUMENT: no primary's entry.
  [[nodiscard]] virtual absl::Status add(uint64_t index, int64_t time_ms, ByteSpan payload) = 0;
  [[nodiscard]] virtual absl::Status apply() = 0;
  /// Of the last entry that it has.
  [[nodiscard]] virtual uint64_t index() const = 0;
  /// Which epoch made which entries, as the last barrier told that the database had when it was opened; opaque here.
  /// Empty: there was none.
  [[nodiscard]] virtual const std::string& runs() const = 0;
  /// Makes everything durable and closes the database. Nothing may follow.
  [[nodiscard]] virtual absl::Status close() = 0;
};

/// Of the shard's database below `dir`. Errors: open_db's.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ShardCopy>> open_shard_copy(RocksdbEngine& engine, const std::string& dir,
                                                                         ShardId id);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SHARD_COPY_H_
