// What a replicated shard keeps in its database beside the users' rows:
//
//    runs     which epoch made which entries, as the last applied barrier says (kvstore/codec/effect.h). This file does
//             not interpret these bytes
//    tail     entries of this replica's log that are not known to be committed. They must neither be applied nor be
//             lost when recovery empties the log into the database (recovery.h), or when a log that needs room releases
//             them (kvstore/shard/tail_rows.h)
//
// The keys are longer than a user's key may be, like those of completions (completion_rows.h): 1,024 zeros, then "R";
// or 1,024 zeros, "T" and the index (8 bytes, big endian). A tail row (little endian): u64 epoch, i64 time, u8
// durability, 7 zeros, the entry's payload.
#ifndef SKUA_KVSTORE_STORAGE_REPLICA_ROWS_H_
#define SKUA_KVSTORE_STORAGE_REPLICA_ROWS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/log/record.h"
#include "kvstore/replication/epoch_history.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/durability.h"

namespace skua::kv {

[[nodiscard]] std::string replica_runs_key();
[[nodiscard]] std::string replica_tail_key(uint64_t index);
/// True for a key of the runs or of a tail row.
[[nodiscard]] bool is_replica_key(std::string_view key);

struct ReplicaRows {
  struct Tail {
    uint64_t epoch = 0;
    int64_t time_ms = 0;
    Durability durability = Durability::kSync;
    std::string payload{};
  };
  std::string runs;
  std::map<uint64_t, Tail> tail;  ///< by index

  /// Loads runs and tail from a database's rows; ignores other rows. DATA_LOSS if a row is damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows);
  /// Drops the tail entries that do not continue from `applied_index` without a gap and with epochs that do not fall:
  /// they were applied, or truncated. Returns their indices.
  std::vector<uint64_t> drop_old(uint64_t applied_index);
};

[[nodiscard]] std::string encode_tail_row(const ReplicaRows::Tail& tail);

/// Checks what a barrier in a shard's log says (kvstore/codec/effect.h has its bytes). INVALID_ARGUMENT if the payload
/// is a barrier that the primary of the entry's epoch cannot have made. OK for any other payload. `payload` has no
/// entry's head.
[[nodiscard]] absl::Status check_barrier(EntryId id, ByteSpan payload);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_REPLICA_ROWS_H_
