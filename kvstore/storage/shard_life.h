// What a database remembers of its shard's lives, so that no index is given out twice.
//
// A write of low durability may be answered and then be lost with its process or machine. Its index was told, as a version and
// in tokens. So unless a life ended in order, the next one begins kIndexStep further on; what lies between is a gap, and no
// state of the shard has an index in it.
//
//    life 1    1 ... B | B+1 ... V          B: what the database has after recovery
//    life 2                     B+step, B+step+1 ...      V: the last index told, which nobody knows any more
//                       \_ gap _/
//
//    begin_life: the database says "open" and that is durable --> the shard is served --> all is applied: "closed", flushed
//         |
//         +-- it said "open" already: the life before did not end in order
//
// The step is more than what the log and its queue can hold: they are bounded by segments and bytes, a record has 64 at least.
// The databases and not the logs know it, because a shard may have been in several logs, or in none yet when its first write was
// lost.
//
// The row lies beside the completion records (completion_rows.h), as that of client 0, who is nobody:
//
//     0 u64 1: closed, 0: open      8 { u64 after, u64 before } each, rising: the gaps, whose ends are no part of them
#ifndef SKUA_KVSTORE_STORAGE_SHARD_LIFE_H_
#define SKUA_KVSTORE_STORAGE_SHARD_LIFE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

inline constexpr uint64_t kIndexStep = uint64_t{1} << 32;
/// One more, and the two oldest become one, with what lies between them.
inline constexpr size_t kIndexGapsMax = 256;

struct IndexGap {
  uint64_t after = 0;
  uint64_t before = 0;

  friend bool operator==(const IndexGap&, const IndexGap&) = default;
};

struct ShardLife {
  bool is_known = false;  ///< the database has the row
  bool closed = true;
  std::vector<IndexGap> gaps{};

  /// No state of the shard has this index: who was told it saw what is lost.
  [[nodiscard]] bool is_lost(uint64_t index) const;
  void pass_over(const IndexGap& gap);
};

[[nodiscard]] std::string life_key();
[[nodiscard]] std::string encode_life(const ShardLife& life);
/// From a database's rows. DATA_LOSS if it is damaged.
[[nodiscard]] absl::StatusOr<ShardLife> read_life(std::span<const InternalRow> rows);

/// Before a shard is served, and after what logs have of it was replayed: opens its next life. Waits for the disk. Errors: the
/// database's; then it must not be served. Not for a replica: all replicas of a shard count alike, and an entry is synced before
/// anybody is told of it, so no index is lost. A database that shows that it is a replica's is left as it is.
[[nodiscard]] absl::Status begin_life(ShardDb& db);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_SHARD_LIFE_H_
