// What a database remembers of its shard's lives, so that no index is given out twice. A life of a shard begins when
// the shard is opened to be served, and ends when it is closed, or with its process.
//
// A write of low durability may be answered, and then be lost with its process or machine. Clients know its index as a
// version and from tokens. So if a life did not end in order, the next life begins kIndexStep further on. The indices
// between are a gap: no state of the shard has one of them.
//
//    life 1    1 ... B | B+1 ... V          B: what the database has after recovery
//    life 2                     B+step, B+step+1 ...      V: the last index that was told, which is not known
//                       \_ gap _/
//
//    begin_life: the database says "open", durably --> the shard is served --> all is applied: "closed", flushed
//         |
//         +-- the database said "open" before: the last life did not end in order
//
// The step is larger than the number of records that the log and its queue can hold. They are bounded by segments and
// bytes, and a record has at least 64 bytes. The row is in the database and not in a log, because a shard may have been
// in several logs, or in none yet when its first write was lost.
//
// The row lies beside the completion records (completion_rows.h), as that of client 0, an id that no client has:
//
//     0 u64 1: closed, 0: open      8 { u64 after, u64 before } per gap, rising; both ends are outside of the gap
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
/// The most gaps that are kept. With one more, the two oldest and everything between them become one gap.
inline constexpr size_t kIndexGapsMax = 256;

struct IndexGap {
  uint64_t after = 0;
  uint64_t before = 0;

  friend bool operator==(const IndexGap&, const IndexGap&) = default;
};

struct ShardLife {
  bool is_known = false;  ///< true: the database has the row
  bool closed = true;
  std::vector<IndexGap> gaps{};

  /// True if no state of the shard has this index, because the index is in a gap: a client that knows the index saw a
  /// write that is lost.
  [[nodiscard]] bool is_lost(uint64_t index) const;
  /// Adds a gap above all others.
  void pass_over(const IndexGap& gap);
};

[[nodiscard]] std::string life_key();
[[nodiscard]] std::string encode_life(const ShardLife& life);
/// Reads the row from a database's rows. If there is none, is_known is false. DATA_LOSS if the row is damaged.
[[nodiscard]] absl::StatusOr<ShardLife> read_life(std::span<const InternalRow> rows);

/// Opens the next life of a shard: must be called before the shard is served, and after the logs' records of the shard
/// were replayed. Waits for the disk. Errors: those of the database; then the shard must not be served. Does nothing if
/// the rows show that the database is a replica's: all replicas of a shard give the same indices to the same entries,
/// and an entry is synced before its index is told, so no index is lost.
[[nodiscard]] absl::Status begin_life(ShardDb& db);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_SHARD_LIFE_H_
