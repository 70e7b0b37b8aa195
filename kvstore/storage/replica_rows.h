// What a replicated shard keeps in its database beside the users' rows:
//
//    runs     which epoch made which entries, as the last applied barrier told (effect.h); opaque here
//    tail     entries that are in this replica's log and not known to be committed: recovery empties the log into the
//             database (recovery.h), and these must neither be applied nor be lost; so does a log that needs room
//             (worker_engine_tail.cc)
//
// Keys are longer than users' keys, as those of completions (completion_rows.h): 1,024 zeros, then "R"; or "T" and the index
// (8 bytes, big endian). A tail row (little endian): u64 epoch, i64 time, u8 durability, 7 zeros, the entry's payload.
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
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/durability.h"

namespace skua::kv {

[[nodiscard]] std::string replica_runs_key();
[[nodiscard]] std::string replica_tail_key(uint64_t index);
/// Either of them.
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

  /// Passes over rows of other kinds. DATA_LOSS if one of these is damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows);
  /// Forgets what does not go on from `applied_index` without a gap and in rising epochs: it was applied, or truncated.
  /// Returns whose rows these were.
  std::vector<uint64_t> drop_old(uint64_t applied_index);
};

[[nodiscard]] std::string encode_tail_row(const ReplicaRows::Tail& tail);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_REPLICA_ROWS_H_
